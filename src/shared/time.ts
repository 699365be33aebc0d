/** A running timer; `cancel` is safe to call at any time, also after it fired. */
export type Timer = { cancel(): void }

/** Where time comes from. The daemon uses the system's; tests hand in one that they advance. */
export type Clock = {
  /** Milliseconds since 1970, UTC. */
  now(): number
  /** Milliseconds that never jump back; only differences mean something. */
  monotonic(): number
  /** Calls `run` once after `ms`. Never keeps the process alive. */
  after(ms: number, run: () => void): Timer
}

export const DAY_MS = 86_400_000

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms)
    timer.unref()
    return { cancel: () => clearTimeout(timer) }
  },
}

let lastMs = Number.NaN
let lastText = ''

/** ISO 8601, UTC, with milliseconds. */
export function isoTime(ms: number): string {
  // Batches write the same moment into thousands of rows.
  if (ms !== lastMs) {
    lastText = new Date(ms).toISOString()
    lastMs = ms
  }
  return lastText
}
