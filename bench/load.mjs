import { spawn } from 'node:child_process'
import { BenchError } from './build.mjs'
import { CPU, pinned } from './machine.mjs'

const RAMP_MS = 1000

/**
 * @typedef {{name: string, connections: number, stream?: {chunks: number, intervalMs: number}, finding?: true}} Case
 *   A closed loop on `connections` connections. `stream` is set for streamed answers. With `finding`, a guard finds an
 *   e-mail address in each request.
 * @typedef {{n: number, p50: number, p99: number, max: number}} Percentiles microseconds
 * @typedef {{seconds: number, completed: number, chunks: number, errors: number, non2xx: number, truncated: number,
 *   reordered: number, open_max: number, own_cpu_us: number, watched_cpu_us: number, latency: Percentiles, first_chunk: Percentiles, delay: Percentiles}} LoadResult
 */

/**
 * Runs one case against one candidate with load.c, and measures the candidate's CPU time during the run.
 * @param {{once?: boolean, rampMs?: number}} [options] `once`: one request per connection, within `seconds`; `rampMs`:
 *   the time over which the first streams start.
 * @returns {Promise<LoadResult>}
 */
export function runLoad(binary, candidate, { connections, stream, finding }, seconds, { once, rampMs = RAMP_MS } = {}) {
  const argv = pinned(CPU.driver, [
    binary,
    ...['--url', candidate.url],
    ...['--body', candidate.bodyFile[stream ? 'stream' : finding ? 'finding' : 'json']],
    ...Object.entries(candidate.headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`]),
    ...['--conns', String(connections)],
    ...['--seconds', String(seconds)],
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
