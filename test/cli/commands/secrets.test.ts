import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createMasterKey } from '../../../src/daemon/platform/secrets/seal.ts'
import { sharedGateway } from '../../harness.ts'
import { runCli } from '../run-cli.ts'

const NEXT = '0ff1ce'.repeat(11).slice(0, 64)

describe('aigw secrets', () => {
  const gateway = sharedGateway({ nextMasterKey: NEXT })
  let folder: string
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'aigw-cli-'))
  })
  afterEach(() => rm(folder, { recursive: true }))
  const run = (words: string[], env: Record<string, string> = {}) =>
    runCli(words, {
      env: { AIGW_BASE_URL: gateway.current.url, AIGW_API_KEY: gateway.current.adminKey, NO_COLOR: '1', ...env },
    })

  test('rotate-master asks first, waits for the end, and shows the new key by its id only', async () => {
    const before = (await run(['secrets', 'status', '--field', 'id'])).stdout.trim()
    expect((await run(['secrets', 'rotate-master'])).exitCode).not.toBe(0)
    expect((await run(['secrets', 'status', '--field', 'id'])).stdout.trim()).toBe(before)
    const done = await run(['secrets', 'rotate-master', '--yes', '--json'])
    expect(done).toMatchObject({ exitCode: 0, stderr: expect.stringContaining('Back it up, apart from the database.') })
    const shown = JSON.parse(done.stdout)
    expect(shown).toMatchObject({ id: createMasterKey(NEXT).id, rotation: null })
    expect(shown.id).not.toBe(before)
    expect(done.stdout + done.stderr).not.toContain(NEXT)
    const again = await run(['secrets', 'rotate-master', '--yes'])
    expect([again.exitCode, again.stderr]).toEqual([6, expect.stringContaining('is the current master key')])
  })

  test.each([
    [0o600, false],
    [0o640, true],
    [0o604, true],
  ])('a key file of mode %o warns: %s', async (mode, warns) => {
    const path = join(folder, 'operator.key')
    await writeFile(path, gateway.current.adminKey)
    await chmod(path, mode)
    const { exitCode, stderr } = await run(['--api-key-file', path, 'whoami'], { AIGW_API_KEY: '' })
    const warning = `warning: others can read your key; run: chmod 600 ${path}`
    expect([exitCode, stderr.includes(warning)]).toEqual([0, warns])
  })
})
