import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'

const canPin = os.cpus().length > 1 && spawnSync('taskset', ['--version']).status === 0

/** CPUs of a run: what is measured has one for itself, everything that drives it shares another. */
export const CPU = canPin ? { measured: 0, driver: 1 } : { measured: undefined, driver: undefined }

/** `argv`, bound to one CPU where the machine allows it. taskset execs, so the pid is the program's own. */
export const pinned = (cpu, argv) => (cpu === undefined ? argv : ['taskset', '-c', String(cpu), ...argv])

/** Type of the file system a path is on, from the longest mount point above it. */
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

/** What a figure depends on besides the code; goes above every table and into every file. */
export function describeMachine(dataDir = os.tmpdir()) {
  const fileSystem = fileSystemOf(dataDir)
  return {
    date: new Date().toISOString().slice(0, 10),
    node: process.version,
    cpu: os.cpus()[0]?.model ?? 'unknown',
    cpus: os.cpus().length,
    pinned: canPin,
    fileSystem,
    // On memory an fsync costs nothing, so a durable commit would look free.
    durable: !['tmpfs', 'ramfs'].includes(fileSystem),
  }
}

// The kernel reports CPU time to programs in ticks of 10 ms, whatever its own clock.
const TICK_US = 10_000

/** CPU time of all processes since boot, with what the hypervisor took away; microseconds. */
export function busyCpuUs() {
  const [, user, nice, system, , , , , steal] = readFileSync('/proc/stat', 'latin1').split('\n')[0].split(/\s+/)
  return (Number(user) + Number(nice) + Number(system) + Number(steal)) * TICK_US
}

/** CPU time of one process since its start; microseconds. */
export function processCpuUs(pid) {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
  // The name of the program comes second and may hold spaces; it ends at the last parenthesis.
  const [, , , , , , , , , , , user, system] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(user) + Number(system)) * TICK_US
}

/** Memory of a process in MiB: what it holds now, and the most it ever held. */
export function processMemoryMib(pid) {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1')
  const mib = (field) => Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(status)?.[1]) / 1024
  return { now: mib('VmRSS'), peak: mib('VmHWM') }
}
