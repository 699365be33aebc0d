// The bench loads this module into a daemon with --import. On SIGUSR2, it writes the event loop delay since the
// previous signal to the file in BENCH_LOOP_DELAY. The file contains JSON, in milliseconds.
import { renameSync, writeFileSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'

const file = process.env.BENCH_LOOP_DELAY
if (file === undefined) throw new Error('BENCH_LOOP_DELAY must be set to a file')
const RESOLUTION_MS = 1
const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
delay.enable()

process.on('SIGUSR2', () => {
  const figures = { p99: delay.percentile(99) / 1e6, max: delay.max / 1e6 }
  delay.reset()
  // The rename is atomic, so a reader never reads a partial file.
  writeFileSync(`${file}.part`, JSON.stringify(figures))
  renameSync(`${file}.part`, file)
})
