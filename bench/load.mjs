import { spawn } from 'node:child_process'
import { BenchError } from './build.mjs'
import { CPU, pinned } from './machine.mjs'

const RAMP_MS = 1000
/**
 * Seconds of load before each measurement. When connections close, V8 discards the compiled code of their streams, and
 * compiles it again under the next load.
 */
export const SETTLE_SECONDS = 2

/**
 * @typedef {{name: string, connections: number, stream?: {chunks: number, intervalMs: number}, finding?: true}} Case
 *   A closed loop on `connections` connections. `stream` is set for streamed answers. With `finding`, a guard finds an
 *   e-mail address in each request.
 * @typedef {{n: number, p50: number, p99: number, max: number}} Percentiles microseconds
 * @typedef {{seconds: number, completed: number, chunks: number, errors: number, non2xx: number, truncated: number,
 *   reordered: number, open_max: number, own_cpu_us: number, watched_cpu_us: number, watched_total_us: number, latency: Percentiles, first_chunk: Percentiles, delay: Percentiles}} LoadResult
 */

/**
 * Runs one case against one candidate with load.c, and measures the candidate's CPU time during the run.
 * @param {{once?: boolean, rampMs?: number, settleSeconds?: number}} [options] `once`: one request per connection, within
 *   `seconds`; `rampMs`: the time over which the first streams start; `settleSeconds`: seconds of load before the measured
 *   ones, which `watched_total_us` and `own_cpu_us` include.
 * @returns {Promise<LoadResult>}
 */
export function runLoad(
  binary,
  candidate,
  { connections, stream, finding },
  seconds,
  { once, rampMs = RAMP_MS, settleSeconds = 0 } = {},
) {
  const argv = pinned(CPU.driver, [
    binary,
    ...['--url', candidate.url],
    ...['--body', candidate.bodyFile[stream ? 'stream' : finding ? 'finding' : 'json']],
    ...Object.entries(candidate.headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`]),
    ...['--conns', String(connections)],
    ...['--seconds', String(seconds)],
    ...['--settle', String(settleSeconds)],
    ...['--watch', String(candidate.pid)],
    // Spreads the starts of streams, because real clients do not start at the same time. Streams that start together
    // also pause together.
    ...(stream ? ['--chunks', String(stream.chunks), '--ramp-ms', String(rampMs)] : []),
    ...(once ? ['--once', '1'] : []),
  ])
  return new Promise((resolve, reject) => {
    const child = spawn(argv[0], argv.slice(1), { stdio: ['ignore', 'pipe', 'inherit'] })
    let output = ''
    child.stdout.on('data', (data) => {
      output += data
    })
    child.once('error', reject)
    child.once('close', (code) => {
      if (code === 0) resolve(JSON.parse(output))
      else
        reject(
          new BenchError(
            `the load generator exited with ${code}. Output of ${candidate.name}:\n${candidate.child.output()}`,
          ),
        )
    })
  })
}

/** Counts failed, truncated and reordered responses. */
export const countBroken = (result) => result.errors + result.non2xx + result.truncated + result.reordered

/** Seconds of one warm-up run. */
const SLICE_SECONDS = 3
/** A run that needs at least this share of the lowest CPU time so far does not count as an improvement. */
const STILL = 0.98
const STILL_RUNS = 4

/**
 * Warms up a candidate until its CPU time per unit stands still: until the lowest time of all runs does not fall by 2 %
 * within four runs. Gives up after `mostRuns`, because other programs may use the machine.
 * @param {(seconds: number) => Promise<number>} measure returns the CPU µs per request or chunk
 */
export async function untilStill(measure, mostRuns) {
  let least = Number.POSITIVE_INFINITY
  for (let run = 0, still = 0; run < mostRuns && still < STILL_RUNS; run++) {
    const us = await measure(SLICE_SECONDS)
    still = us < least * STILL ? 0 : still + 1
    least = Math.min(least, us)
  }
}
