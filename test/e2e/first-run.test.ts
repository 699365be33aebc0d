/** The first minutes with aigw: init, serve, login, chat, doctor. */
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { type InstalledCli, installCli } from '../cli/installed-cli.ts'
import { endDaemons, runDaemon } from './daemon-process.ts'

const PROVIDER_KEY = 'provider-key-of-first-run'

let cli: InstalledCli
let home: string
beforeAll(async () => {
  cli = await installCli()
})
afterAll(() => cli.remove())
beforeEach(async () => {
  home = await mkdtemp(join(cli.folder, 'home-'))
})
afterEach(async () => {
  await endDaemons()
  await rm(home, { recursive: true })
})

const aigw = (words: string[], input?: string) =>
  cli.run(words, { env: { HOME: home, AIGW_API_KEY: '' }, ...(input !== undefined && { input }) })

test('init writes a file that the daemon starts with, and its two commands lead to an answer', async () => {
  const config = join(home, 'gateway/aigw.yaml')
  const init = ['init', '--config', config, '--listen', '127.0.0.1:0', '--data-dir', join(home, 'data')]
  const made = await aigw(init)
  expect(made.exitCode).toBe(0)
  const [serve = '', login = ''] = made.stdout.split('\n').slice(1)
  expect(serve).toBe(`  aigw serve --config ${config}`)
  const daemon = runDaemon(['--config', config], { home })
  const url = await daemon.url()
  const words = login
    .trim()
    .split(' ')
    .slice(1)
    .map((word) => word.replace('http://127.0.0.1:0', url))
  expect(await aigw(words)).toMatchObject({ exitCode: 0 })

  const chat = await aigw(['chat', 'hi'])
  expect([chat.exitCode, chat.stdout]).toEqual([0, expect.stringMatching(/\S/)])
  expect(chat.stderr).toContain('note: using local/extract')
  expect(JSON.parse((await aigw(['status', '-o', 'json'])).stdout)).toMatchObject({
    status: 'ready',
    providers: ['local'],
  })
  const doctor = await aigw(['doctor', '--config', config, '-o', 'json'])
  const rows: { check: string; status: string }[] = JSON.parse(doctor.stdout)
  expect(rows.filter(({ status }) => status === 'fail')).toEqual([])
  expect(rows.map(({ check }) => check)).toEqual(
    expect.arrayContaining(['configuration', 'permissions', 'disk', 'store', 'clock', 'providers', 'evidence']),
  )
  expect(JSON.parse((await aigw(['whoami', '-o', 'json'])).stdout).api_key).toMatchObject({
    ...{ allowedModels: [], dailyLimit: null, expiresAt: null },
    rateLimit: { requestsPerMinute: null, requestsPerHour: null },
  })

  expect((await aigw(init)).stderr).toContain('already exists')
  expect((await aigw(['config', 'set', 'log.level', 'debug', '--gateway-file', config])).exitCode).toBe(0)
  const before = await readFile(config, 'utf8')
  expect(before).toContain('# Configuration of aigwd.')
  const refused = await aigw(['config', 'set', 'log.level', 'loud', '--gateway-file', config])
  expect(refused).toMatchObject({ exitCode: 2, stderr: expect.stringContaining(`${config}:`) })
  expect(await readFile(config, 'utf8')).toBe(before)
  expect(await readdir(join(home, 'gateway'))).toEqual(['aigw.yaml'])
})

test('init keeps secrets out of readable files, and writes nothing if the daemon rejects them', async () => {
  const config = join(home, 'gateway/aigw.yaml')
  const init = ['init', '--config', config, '--provider', 'openai', '--provider-key-file', '-']
  expect(await aigw(init, `${PROVIDER_KEY}\n`)).toMatchObject({ exitCode: 0 })
  const secret = join(home, 'gateway/secrets/openai-key')
  expect(await readFile(secret, 'utf8')).toBe(`${PROVIDER_KEY}\n`)
  expect((await stat(secret)).mode & 0o777).toBe(0o600)
  expect(await readFile(config, 'utf8')).not.toContain(PROVIDER_KEY)

  const other = join(home, 'other/aigw.yaml')
  const rejected = await aigw(['init', '--config', other, '--listen', 'nowhere', '--provider', 'openai'])
  expect(rejected).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('listen') })
  expect(await readdir(join(home, 'other'))).toEqual([])

  const url = join(home, 'url')
  await writeFile(url, 'mysql://x')
  const wrong = await aigw(['init', '--config', other, '--database-url-file', url])
  expect(wrong).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('is not a PostgreSQL URL') })
})

test('a dry run of a change shows no secret, and validates', async () => {
  const config = join(home, 'aigw.yaml')
  await writeFile(config, `# ${PROVIDER_KEY}\nproviders: { openai: { api_keys: [${PROVIDER_KEY}] } }\n`)
  const set = (level: string) => aigw(['config', 'set', 'log.level', level, '--gateway-file', config, '--dry-run'])
  const shown = await set('debug')
  expect(shown).toMatchObject({ exitCode: 0, stderr: expect.stringContaining('level: debug') })
  expect(shown.stderr).not.toContain(PROVIDER_KEY)
  expect(await set('loud')).toMatchObject({ exitCode: 2 })
})

test('the configuration of a systemd unit is readable, and doctor and config set accept its credentials', async () => {
  const folder = join(home, 'etc')
  const config = join(folder, 'aigw.yaml')
  const unit = ['--systemd', '--unit-file', join(home, 'aigw.service')]
  const init = ['init', '--config', config, ...unit, '--provider', 'openai', '--provider-key-file', '-']
  expect(await aigw(init, PROVIDER_KEY)).toMatchObject({ exitCode: 0 })
  expect(((await stat(folder)).mode & 0o777).toString(8)).toBe('755')
  expect(((await stat(join(folder, 'secrets'))).mode & 0o777).toString(8)).toBe('700')
  expect(await readFile(join(home, 'aigw.service'), 'utf8')).toMatch(
    new RegExp(`^ExecStart=.* --config ${config}$`, 'm'),
  )
  // Without root, init writes a unit of the user, which has no credentials.
  await writeFile(config, 'providers: { openai: { api_key: { credential: openai-key } } }\n')
  const doctor = await aigw(['doctor', '--config', config, '-o', 'json'])
  const rows: { check: string; status: string }[] = JSON.parse(doctor.stdout)
  expect(rows.find(({ check }) => check === 'configuration')).toMatchObject({ status: 'ok' })
  const set = await aigw(['config', 'set', 'log.level', 'debug', '--gateway-file', config])
  expect(set).toMatchObject({ exitCode: 0 })
})
