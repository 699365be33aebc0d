import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'

const canPin = os.cpus().length > 1 && spawnSync('taskset', ['--version']).status === 0

/**
 * The CPUs of a run. The measured process has one CPU to itself. The load generator and the mock share the other CPU.
 */
export const CPU = canPin ? { measured: 0, driver: 1 } : { measured: undefined, driver: undefined }

/** Pins `argv` to one CPU if the machine allows it. taskset calls exec, so the pid is the program's pid. */
export const pinned = (cpu, argv) => (cpu === undefined ? argv : ['taskset', '-c', String(cpu), ...argv])

/** Returns the file system type of a path. The longest mount point that matches the path determines the type. */
export function fileSystemOf(target) {
  const absolute = path.resolve(target)
  const holds = (mount) => mount === '/' || absolute === mount || absolute.startsWith(`${mount}/`)
  let best = { mount: '', type: 'unknown' }
  for (const line of readFileSync('/proc/self/mounts', 'utf8').split('\n')) {
    const [, mount, type] = line.split(' ')
    if (mount && holds(mount) && mount.length >= best.mount.length) best = { mount, type }
  }
  return best.type
}

/** Describes the machine. Every table and every file with figures contains this description. */
export function describeMachine(dataDir = os.tmpdir()) {
  const fileSystem = fileSystemOf(dataDir)
  return {
    date: new Date().toISOString().slice(0, 10),
    node: process.version,
    cpu: os.cpus()[0]?.model ?? 'unknown',
    cpus: os.cpus().length,
    pinned: canPin,
    fileSystem,
    // In-memory file systems make fsync free, so the measured cost of durable commits would be too low.
    durable: !['tmpfs', 'ramfs'].includes(fileSystem),
  }
}

// The kernel always reports CPU time in ticks of 10 ms, even if it measures more precisely.
const TICK_US = 10_000

/** Returns the CPU time of all processes since boot in microseconds, including time stolen by the hypervisor. */
export function busyCpuUs() {
  const [, user, nice, system, , , , , steal] = readFileSync('/proc/stat', 'latin1').split('\n')[0].split(/\s+/)
  return (Number(user) + Number(nice) + Number(system) + Number(steal)) * TICK_US
}

/** Returns the CPU time of one process since its start, in microseconds. */
export function processCpuUs(pid) {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
  // The program name is the second field and may contain spaces. The name ends at the last parenthesis.
  const [, , , , , , , , , , , user, system] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(user) + Number(system)) * TICK_US
}

/** Resident memory of a process in MiB, now and at its peak. */
export function processMemoryMib(pid) {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1')
  const mib = (field) => Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(status)?.[1]) / 1024
  return { now: mib('VmRSS'), peak: mib('VmHWM') }
}
