import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { newApiKey } from '../../src/shared/ids.ts'
import { type InstalledCli, installCli } from '../cli/installed-cli.ts'
import { runDaemon } from './daemon-process.ts'

const SCRIPT = fileURLToPath(new URL('provision.sh', import.meta.url))
/** An address without a listener. A request that gets this far fails as unreachable rather than forbidden. */
const UNREACHABLE =
  'providers:\n  far: {kind: openai, base_url: "http://127.0.0.1:9/v1", api_key: sk-x, models: [big]}\n'

let cli: InstalledCli
beforeAll(async () => {
  cli = await installCli()
})
afterAll(() => cli.remove())

describe('a script that provisions a tenant', () => {
  let home: string
  let keys: string
  let env: Record<string, string>
  beforeEach(async () => {
    home = await mkdtemp(join(cli.folder, 'home-'))
    keys = join(home, 'keys')
    const operatorKey = newApiKey()
    await writeFile(join(home, 'operator.key'), `${operatorKey}\n`, { mode: 0o600 })
    await writeFile(join(home, 'aigw.yaml'), UNREACHABLE)
    const args = ['--listen', '127.0.0.1:0', '--data-dir', join(home, 'data'), '--config', join(home, 'aigw.yaml')]
    const daemon = runDaemon(args, { home, env: { AIGW_BOOTSTRAP_KEY: operatorKey } })
    // An installation also puts it on the path.
    const bin = join(home, 'bin')
    await mkdir(bin)
    await symlink(join(cli.folder, 'bin/aigw.js'), join(bin, 'aigw'))
    env = {
      PATH: [bin, process.env.PATH ?? ''].join(delimiter),
      HOME: home,
      AIGW_BASE_URL: await daemon.url(),
      AIGW_API_KEY: '',
      AIGW_API_KEY_FILE: join(home, 'operator.key'),
    }
    return async () => {
      await daemon.end('SIGTERM')
      await rm(home, { recursive: true })
    }
  })

  const provision = () => promisify(execFile)('sh', [SCRIPT, keys], { env })
  const aigw = (...words: string[]) => cli.run(words, { env })
  const as = (key: string, ...words: string[]) => aigw('--api-key-file', join(keys, key), ...words)

  /** Ids of all resources, by kind. */
  async function inventory(): Promise<Record<string, string[]>> {
    const idsIn = async (listing: ReturnType<typeof aigw>) => {
      const { exitCode, stdout, stderr } = await listing
      expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
      return stdout.split('\n').sort()
    }
    const found: Record<string, string[]> = { tenants: await idsIn(aigw('tenants', 'list', '--all', '-o', 'id')) }
    for (const kind of ['users', 'roles', 'groups', 'indexes', 'keys']) {
      found[kind] = await idsIn(as('acme.key', kind, 'list', '--all', '-o', 'id'))
    }
    return found
  }

  test('prints the same ids the second time, and creates nothing more', async () => {
    const first = await provision()
    expect(first.stderr.split('\n').filter((line) => line.startsWith('note:'))).toEqual([])
    expect(first.stdout).toMatch(/^(\w+\t[0-9a-f]{24}\n){7}$/)
    const ids = Object.fromEntries(first.stdout.split('\n').map((line) => line.split('\t')))
    const there = await inventory()
    expect(there.users).toEqual(expect.arrayContaining([ids.ben, ids.cyd]))
    expect(there.keys).toContain(ids.key)
    const secrets = () =>
      Promise.all(['acme.key', 'support-desk.key'].map((name) => readFile(join(keys, name), 'utf8')))
    const firstSecrets = await secrets()
    const members = async () => (await as('acme.key', 'groups', 'show', 'support', '--field', 'users')).stdout
    const firstMembers = await members()
    expect(firstMembers).toMatch(/ben@acme\.example.*cyd@acme\.example/)

    const second = await provision()
    expect(second.stdout).toBe(first.stdout)
    const notes = second.stderr.split('\n').filter((line) => line !== '')
    expect(notes).toHaveLength(7)
    for (const note of notes) expect(note).toMatch(/^note: .* already exists; left unchanged$/)
    expect(await inventory()).toEqual(there)
    expect(await secrets()).toEqual(firstSecrets)
    expect(await members()).toBe(firstMembers)
  })

  test('stops when a secret is lost, explains how to get a new one, and then continues', async () => {
    const first = await provision()
    for (const [file, verb] of [
      ['acme.key', /aigw (tenants admin-key \S+ --save-to \S+)/],
      ['support-desk.key', /aigw (keys rotate \S+ --save-to \S+)/],
    ] as const) {
      await rm(join(keys, file))
      const stopped = await provision().catch((error: { code: number; stdout: string; stderr: string }) => error)
      expect(stopped).toMatchObject({ code: 6, stdout: '' })
      const [, way = ''] = verb.exec(stopped.stderr) ?? []
      const words = [...way.split(' '), '--yes', '-q']
      expect(await (file === 'acme.key' ? aigw(...words) : as('acme.key', ...words))).toMatchObject({ exitCode: 0 })
      expect((await provision()).stdout).toBe(first.stdout)
      expect(await as(file, 'whoami')).toMatchObject({ exitCode: 0 })
    }
  })

  test('leaves a key that works within its rights, and is rejected otherwise', async () => {
    await provision()
    const file = join(keys, 'support-desk.key')
    expect((await stat(file)).mode & 0o777).toBe(0o600)
    const desk = (...words: string[]) => as('support-desk.key', ...words)
    const ask = (...words: string[]) => desk('chat', '-m', 'local/extract', ...words, 'How do we work?')

    expect(await desk('whoami', '--field', 'user.email')).toMatchObject({ exitCode: 0, stdout: 'ben@acme.example\n' })
    expect(await desk('models', 'list', '-o', 'id')).toMatchObject({ exitCode: 0, stdout: 'local/extract\n' })
    expect(await desk('usage', '--field', 'api_key.daily.limit')).toMatchObject({ exitCode: 0, stdout: '20\n' })
    expect(await ask('-i', 'handbook', '-o', 'json')).toMatchObject({ exitCode: 0 })

    await as('acme.key', 'indexes', 'create', 'plans', '-q')
    const refused = [
      ask('-i', 'plans'),
      ask('--policy', 'internal'),
      desk('chat', '-m', 'far/big', 'hi'),
      desk('users', 'list'),
      desk('keys', 'create', '--name', 'more', '--admin'),
      desk('tenants', 'list'),
      as('acme.key', 'tenants', 'list'),
    ]
    for (const result of await Promise.all(refused)) expect(result).toMatchObject({ exitCode: 5, stdout: '' })

    expect(await as('acme.key', 'users', 'disable', 'ben@acme.example')).toMatchObject({ exitCode: 0 })
    expect(await desk('whoami')).toMatchObject({ exitCode: 4, stdout: '' })
  })
})
