// Loaded into a daemon with --import: on SIGUSR2 it writes what the longest turn of its event loop since the last one has
// taken, processor time of the main thread in milliseconds, as JSON to the file that BENCH_LOOP_TURNS names.
import { closeSync, openSync, readSync, renameSync, writeFileSync } from 'node:fs'

const file = process.env.BENCH_LOOP_TURNS
if (file === undefined) throw new Error('BENCH_LOOP_TURNS names no file')

// The kernel brings it up to date at every tick, of 1 to 10 ms; waiting for other processes is not in it.
const schedstat = openSync('/proc/thread-self/schedstat')
const bytes = Buffer.alloc(64)
const cpuMs = () => Number(bytes.latin1Slice(0, readSync(schedstat, bytes, 0, bytes.length, 0)).split(' ')[0]) / 1e6
process.on('exit', () => closeSync(schedstat))

let lastMs = cpuMs()
let maxMs = 0
let asked = 0
function turn() {
  const nowMs = cpuMs()
  maxMs = Math.max(maxMs, nowMs - lastMs)
  lastMs = nowMs
  setImmediate(turn).unref()
}
turn()

process.on('SIGUSR2', () => {
  asked++
  writeFileSync(`${file}.part`, JSON.stringify({ asked, maxMs }))
  maxMs = 0
  // Renamed, so that whoever reads it never sees half of it.
  renameSync(`${file}.part`, file)
})
