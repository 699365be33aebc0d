// Loaded into a daemon with --import: on SIGUSR2 it writes how long its event loop was held up since the last one, as JSON in
// milliseconds, to the file that BENCH_LOOP_DELAY names.
import { renameSync, writeFileSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'

const file = process.env.BENCH_LOOP_DELAY
if (file === undefined) throw new Error('BENCH_LOOP_DELAY names no file')
const RESOLUTION_MS = 1
const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
delay.enable()

process.on('SIGUSR2', () => {
  const figures = { p99: delay.percentile(99) / 1e6, max: delay.max / 1e6 }
  delay.reset()
  // Renamed, so that whoever reads it never sees half of it.
  writeFileSync(`${file}.part`, JSON.stringify(figures))
  renameSync(`${file}.part`, file)
})
