import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { ConfigFaults } from '../../../src/daemon/config/config.ts'
import { type Gateway, startGateway } from '../../harness.ts'
import { secretWatch } from '../../secret-watch.ts'
import { replyJson } from '../../upstream.ts'
import { runCli } from '../run-cli.ts'

const SECRET = 'sk-of-the-house-9b8a7c6d'

let folder: string
let gateway: Gateway
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aigw-cli-'))
  gateway = await startGateway()
  secretWatch.addSecret('the key of a stored provider', SECRET)
})
afterEach(() => rm(folder, { recursive: true }))

const aigw = (words: string[], more: { stdin?: string } = {}) =>
  runCli(words, { ...more, env: { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: gateway.adminKey } })

test('a provider is added with a key from a file, tested, changed, listed and removed; the key is never printed', async () => {
  const keyFile = join(folder, 'house.key')
  await writeFile(keyFile, `${SECRET}\n`)
  const { url } = gateway.upstream
  const runs = [
    await aigw(['providers', 'add', 'house', '--address', url, '--key-file', keyFile, '--model', 'small']),
    await aigw(['providers', 'test', 'house']),
    await aigw(['providers', 'update', 'house', '--model', 'large', '--key-file', '-'], { stdin: `${SECRET}\n` }),
    await aigw(['providers', 'show', 'house', '--json']),
    await aigw(['providers', 'list', '--json']),
  ]
  for (const { exitCode, stdout, stderr } of runs) {
    expect([exitCode, stderr]).toEqual([0, expect.any(String)])
    expect(stdout + stderr).not.toContain(SECRET)
  }
  expect(gateway.upstream.requests[0]?.headers.authorization).toBe(`Bearer ${SECRET}`)
  expect(JSON.parse(runs[3]?.stdout ?? '')).toMatchObject({ name: 'house', models: ['large'], secrets: ['api_key'] })
  expect(JSON.parse(runs[4]?.stdout ?? '')).toMatchObject([{ name: 'test' }, { name: 'house', source: 'store' }])
  expect((await aigw(['providers', 'remove', 'house', '--yes'])).exitCode).toBe(0)
  expect((await aigw(['providers', 'show', 'house'])).exitCode).toBe(3)
})

test('--dry-run and --debug hide the secrets of a request', async () => {
  const file = join(folder, 'house.yaml')
  await writeFile(file, `{base_url: "${gateway.upstream.url}", api_key: ${SECRET}, headers: {X-Team: ${SECRET}}}`)
  for (const flag of ['--debug', '--dry-run']) {
    const { exitCode, stdout, stderr } = await aigw(['providers', 'add', 'house', '--from-file', file, flag])
    expect([flag, exitCode]).toEqual([flag, flag === '--debug' ? 0 : expect.any(Number)])
    expect(stdout + stderr).toContain('"api_key"')
    expect(stdout + stderr).not.toContain(SECRET)
  }
})

test('a provider that does not answer is a failure with the reason in plain words', async () => {
  gateway.upstream.script(replyJson({ error: { message: 'no' } }, { status: 401 }))
  const { exitCode, stderr } = await aigw(['providers', 'test', 'test', '--model', 'any'])
  expect(exitCode).toBe(8)
  expect(stderr).toContain('test/any did not answer')
  expect(stderr).toContain('The provider rejects the key')
})

test('reload prints what has changed and what needs a restart, or every fault on its own line', async () => {
  gateway.onReload(() => ({ ...gateway.config, defaultModel: 'test/any', listen: { host: '127.0.0.1', port: 1 } }))
  const done = await aigw(['reload', '--json'])
  expect([done.exitCode, JSON.parse(done.stdout)]).toEqual([
    0,
    { changed: ['default_model'], needsRestart: ['listen'] },
  ])
  expect(done.stderr).toContain('Restart the daemon to apply: listen.')
  gateway.onReload(
    () => new ConfigFaults(['/srv/aigw.yaml:1: lisen: unknown key', '/srv/aigw.yaml:2: log.level: must be']),
  )
  const refused = await aigw(['reload'])
  expect([refused.exitCode, refused.stdout]).toEqual([2, ''])
  expect(refused.stderr.split('\n')).toEqual(
    expect.arrayContaining(['  /srv/aigw.yaml:1: lisen: unknown key', '  /srv/aigw.yaml:2: log.level: must be']),
  )
})
