// The bench loads this module into a daemon with --import. On SIGUSR2, it writes the longest event loop turn since the
// previous signal to the file in BENCH_LOOP_TURNS. The file contains JSON. The value is the main thread's CPU time in
// milliseconds.
import { closeSync, openSync, readSync, renameSync, writeFileSync } from 'node:fs'

const file = process.env.BENCH_LOOP_TURNS
if (file === undefined) throw new Error('BENCH_LOOP_TURNS must be set to a file')

// The kernel updates this CPU time at every tick, that is every 1 to 10 ms. Time spent waiting for a CPU is excluded.
const schedstat = openSync('/proc/thread-self/schedstat')
const bytes = Buffer.alloc(64)
const cpuMs = () => Number(bytes.latin1Slice(0, readSync(schedstat, bytes, 0, bytes.length, 0)).split(' ')[0]) / 1e6
process.on('exit', () => closeSync(schedstat))

let lastMs = cpuMs()
let maxMs = 0
let readings = 0
function turn() {
  const nowMs = cpuMs()
  maxMs = Math.max(maxMs, nowMs - lastMs)
  lastMs = nowMs
  setImmediate(turn).unref()
}
turn()

process.on('SIGUSR2', () => {
  readings++
  writeFileSync(`${file}.part`, JSON.stringify({ readings, maxMs }))
  maxMs = 0
  // The rename is atomic, so a reader never reads a partial file.
  renameSync(`${file}.part`, file)
})
