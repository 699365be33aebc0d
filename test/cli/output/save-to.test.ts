import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type FakeGateway, KEY, startFakeGateway } from '../fake-gateway.ts'
import { type CliOptions, runCli } from '../run-cli.ts'

/** Every command that answers with a secret. */
const COMMANDS = {
  'tenants create': ['acme', '--admin-name', 'Ada', '--admin-email', 'ada@example.com'],
  'tenants admin-key': ['acme'],
  'keys create': ['--name', 'ci'],
  'keys rotate': ['ci', '--yes'],
  'webhooks create': ['--url', 'https://example.com/hook'],
  'webhooks rotate-secret': ['7'.repeat(24), '--yes'],
}

let gateway: FakeGateway
let folder: string
beforeEach(async () => {
  gateway = await startFakeGateway()
  folder = await mkdtemp(join(tmpdir(), 'aigw-save-'))
})
afterEach(async () => {
  await gateway.close()
  await rm(folder, { recursive: true })
})

const run = (words: string[], { env, ...options }: CliOptions = {}) =>
  runCli(words, { ...options, env: { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: KEY, NO_COLOR: '1', ...env } })

describe.each(Object.entries(COMMANDS))('%s --save-to', (command, words) => {
  const all = (...more: string[]) => [...command.split(' '), ...words, '--save-to', join(folder, 'secret'), ...more]

  test('leaves stdout empty and names the file of the secret on stderr', async () => {
    const { exitCode, stdout, stderr } = await run(all())
    expect([exitCode, stdout]).toEqual([0, ''])
    const secret = await readFile(join(folder, 'secret'), 'utf8')
    expect(secret).toMatch(/^(sk-|whsec_)\S+\n$/)
    expect(stderr).toContain(`Its secret is in ${join(folder, 'secret')} (mode 0600) and cannot be shown again.`)
    expect(stderr).not.toContain(secret.trim())
  })

  test('leaves the stdout of a terminal empty too', async () => {
    const terminal = { stdin: true, stdout: true, stderr: true }
    expect(await run(all(), { terminal })).toMatchObject({ exitCode: 0, stdout: '' })
  })

  test.each<[string, string[], Record<string, string>]>([
    ['-o id', ['-o', 'id'], {}],
    ['-o table', ['-o', 'table'], {}],
    ['--json', ['--json'], {}],
    ['--field id', ['--field', 'id'], {}],
    ['--fields id', ['--fields', 'id'], {}],
    ['AIGW_OUTPUT', [], { AIGW_OUTPUT: 'yaml' }],
  ])('prints the rest where an output was chosen with %s', async (_how, more, env) => {
    const { exitCode, stdout } = await run(all(...more), { env })
    expect([exitCode, stdout]).toEqual([0, expect.stringMatching(/[0-9a-f]{24}/)])
    expect(stdout).not.toContain((await readFile(join(folder, 'secret'), 'utf8')).trim())
  })
})
