import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { DRAIN_TIMEOUT_MS } from '../../src/shared/spec-limits.ts'

const unitFile = new URL('../../deploy/aigw.service', import.meta.url)
const EXPOSURE_LIMIT = 2

test('the unit says what the daemon relies on', async () => {
  const unit = await readFile(unitFile, 'utf8')
  const lines = unit.split('\n')
  for (const line of [
    'Type=notify',
    'NotifyAccess=all',
    'ExecStart=@NODE@ @AIGWD@',
    'Restart=on-failure',
    'RestartPreventExitStatus=78',
    'KillSignal=SIGTERM',
    'StateDirectory=aigw',
    'ConfigurationDirectory=aigw',
    'DynamicUser=yes',
    'NoNewPrivileges=yes',
    'CapabilityBoundingSet=',
    'ProtectSystem=strict',
    'ProtectHome=yes',
    'PrivateDevices=yes',
    'SystemCallFilter=@system-service',
    'MemoryDenyWriteExecute=no',
  ]) {
    expect(lines).toContain(line)
  }
  expect(unit).toMatch(/^#LoadCredential=/m)
  const stopSeconds = Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)?.[1])
  expect(stopSeconds * 1000).toBeGreaterThan(DRAIN_TIMEOUT_MS)
})

test(`systemd itself, where there is one, finds the unit valid and its exposure at most ${EXPOSURE_LIMIT}.0`, async () => {
  const unit = (await readFile(unitFile, 'utf8'))
    .replaceAll('@NODE@', process.execPath)
    .replaceAll('@AIGWD@', unitFile.pathname)
  const directory = await mkdtemp(join(tmpdir(), 'aigw-test-'))
  const file = join(directory, 'aigw.service')
  await writeFile(file, unit)
  try {
    const exposure = await analyze(['security', '--offline=true', '--no-pager', file])
    const problems = await analyze(['verify', file])
    if (exposure === undefined || problems === undefined) {
      // Without systemd the text is all there is to look at, and the test above has done so.
      expect(unit).not.toMatch(/@[A-Z]+@/)
      return
    }
    expect(Number(/exposure level for aigw\.service: ([\d.]+)/.exec(exposure)?.[1])).toBeLessThanOrEqual(EXPOSURE_LIMIT)
    expect(problems).toBe('')
  } finally {
    await rm(directory, { recursive: true })
  }
})

/** What systemd-analyze says, or undefined where it is not installed. */
async function analyze(args: readonly string[]): Promise<string | undefined> {
  try {
    const { stdout, stderr } = await promisify(execFile)('systemd-analyze', [...args])
    return stdout + stderr
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
}
