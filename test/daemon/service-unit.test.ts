import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { DRAIN_TIMEOUT_MS } from '../../src/daemon/config/config.ts'

const unitFile = new URL('../../deploy/aigw.service', import.meta.url)
const EXPOSURE_LIMIT = 2

/** The directives that the daemon needs, and the restrictions that determine the exposure of the unit. */
const REQUIRED: Record<string, Record<string, string[]>> = {
  Unit: { StartLimitIntervalSec: ['0'], Wants: ['network-online.target'], After: ['network-online.target'] },
  Service: {
    Type: ['notify'],
    NotifyAccess: ['all'],
    ExecStart: ['@NODE@ @AIGWD@'],
    Restart: ['on-failure'],
    RestartPreventExitStatus: ['78'],
    KillSignal: ['SIGTERM'],
    KillMode: ['mixed'],
    DynamicUser: ['yes'],
    StateDirectory: ['aigw'],
    StateDirectoryMode: ['0700'],
    ConfigurationDirectory: ['aigw'],
    UMask: ['0077'],
    CapabilityBoundingSet: [''],
    AmbientCapabilities: [''],
    NoNewPrivileges: ['yes'],
    LockPersonality: ['yes'],
    PrivateDevices: ['yes'],
    PrivateTmp: ['yes'],
    PrivateUsers: ['yes'],
    ProcSubset: ['pid'],
    ProtectClock: ['yes'],
    ProtectControlGroups: ['yes'],
    ProtectHome: ['yes'],
    ProtectHostname: ['yes'],
    ProtectKernelLogs: ['yes'],
    ProtectKernelModules: ['yes'],
    ProtectKernelTunables: ['yes'],
    ProtectProc: ['invisible'],
    ProtectSystem: ['strict'],
    RemoveIPC: ['yes'],
    RestrictAddressFamilies: ['AF_INET AF_INET6 AF_UNIX'],
    RestrictNamespaces: ['yes'],
    RestrictRealtime: ['yes'],
    RestrictSUIDSGID: ['yes'],
    SystemCallArchitectures: ['native'],
    SystemCallFilter: ['@system-service', '~@privileged @resources', 'setpriority sched_setscheduler'],
    MemoryDenyWriteExecute: ['no'],
  },
  Install: { WantedBy: ['multi-user.target'] },
}

/** The directives of a unit by section; a repeated directive has several values. Fails on an invalid line. */
function parseUnit(text: string): Record<string, Record<string, string[]>> {
  const sections: Record<string, Record<string, string[]>> = {}
  let section: Record<string, string[]> | undefined
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue
    const name = /^\[(\w+)\]$/.exec(line)?.[1]
    const [, key, value] = /^(\w+)=(.*)$/.exec(line) ?? []
    if (name !== undefined) {
      section = sections[name] ??= {}
    } else {
      if (section === undefined || key === undefined || value === undefined) throw new Error(`not a directive: ${line}`)
      section[key] = [...(section[key] ?? []), value]
    }
  }
  return sections
}

describe('the unit', () => {
  test('has the directives that the daemon needs, and denies the rest', async () => {
    expect(parseUnit(await readFile(unitFile, 'utf8'))).toMatchObject(REQUIRED)
  })

  test('gives a drain enough time', async () => {
    const { Service } = parseUnit(await readFile(unitFile, 'utf8'))
    expect(Number(Service?.TimeoutStopSec) * 1000).toBeGreaterThan(DRAIN_TIMEOUT_MS)
  })

  test('shows how to pass secrets', async () => {
    expect(await readFile(unitFile, 'utf8')).toMatch(/^#LoadCredential=/m)
  })
})

// Without systemd, the directives above stand for the exposure.
if (await hasSystemd()) {
  test(`systemd finds the unit valid and its exposure at most ${EXPOSURE_LIMIT}.0`, async () => {
    const unit = (await readFile(unitFile, 'utf8'))
      .replaceAll('@NODE@', process.execPath)
      .replaceAll('@AIGWD@', unitFile.pathname)
    const directory = await mkdtemp(join(tmpdir(), 'aigw-test-'))
    const file = join(directory, 'aigw.service')
    await writeFile(file, unit)
    try {
      const exposure = await analyze(['security', '--offline=true', '--no-pager', file])
      expect(Number(/exposure level for aigw\.service: ([\d.]+)/.exec(exposure)?.[1])).toBeLessThanOrEqual(
        EXPOSURE_LIMIT,
      )
      expect(await analyze(['verify', file])).toBe('')
    } finally {
      await rm(directory, { recursive: true })
    }
  })
}

async function analyze(args: readonly string[]): Promise<string> {
  const { stdout, stderr } = await promisify(execFile)('systemd-analyze', [...args])
  return stdout + stderr
}

async function hasSystemd(): Promise<boolean> {
  try {
    await analyze(['--version'])
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return false
    throw error
  }
}
