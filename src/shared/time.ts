/** A running timer. `cancel` is safe to call at any time, even after the timer has fired. */
export type Timer = { cancel(): void }

/** The source of time. The daemon uses the system's clock. Tests inject a clock that they can advance. */
export type Clock = {
  /** Milliseconds since 1970, UTC. */
  now(): number
  /** A clock in milliseconds that never jumps back. Only differences are meaningful. */
  monotonic(): number
  /** Calls `run` once after `ms`. The timer never keeps the process alive. */
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

let knownSecond = Number.NaN
let knownText = ''

/** Formats a time as ISO 8601 in UTC with milliseconds. @throws RangeError for an invalid time */
export function isoTime(ms: number): string {
  const whole = Math.trunc(ms)
  const second = Math.floor(whole / 1000)
  // Caches the text of the last second, because toISOString takes as long as hashing 2 KB. Each request formats several
  // timestamps, and most of them are in the same second.
  if (second !== knownSecond) {
    knownText = new Date(second * 1000).toISOString().slice(0, -4)
    knownSecond = second
  }
  const rest = whole - second * 1000
  return `${knownText}${rest < 10 ? '00' : rest < 100 ? '0' : ''}${rest}Z`
}
