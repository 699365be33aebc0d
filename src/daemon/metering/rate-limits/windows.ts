/** The calendar windows in which requests are counted, in UTC, from the shortest to the longest. */
export const WINDOWS = ['minute', 'hour', 'day', 'month'] as const
export type WindowName = (typeof WINDOWS)[number]

/** From `startMs` (inclusive) to `endMs` (exclusive), in milliseconds since 1970. */
export type Window = { readonly startMs: number; readonly endMs: number }

const LENGTH_MS = { minute: 60_000, hour: 3_600_000, day: 86_400_000 } as const

/** The window that contains `nowMs`. */
export function windowAt(name: WindowName, nowMs: number): Window {
  if (name === 'month') {
    const now = new Date(nowMs)
    const [year, month] = [now.getUTCFullYear(), now.getUTCMonth()]
    return { startMs: Date.UTC(year, month), endMs: Date.UTC(year, month + 1) }
  }
  const length = LENGTH_MS[name]
  const startMs = Math.floor(nowMs / length) * length
  return { startMs, endMs: startMs + length }
}

/**
 * Tolerance for differences between the daemons' clocks, and for a clock that is set back. Within this tolerance, a
 * window starts only once.
 */
export const CLOCK_SKEW_MS = 60_000

/**
 * Whether a request at `nowMs` counts in this window; the window has already been started. A window whose start is
 * slightly in the future also counts: a daemon with a faster clock started it. Starting the earlier window again would
 * admit that window's requests twice. A window further in the future came from a wrong clock and is ignored.
 */
export const isCurrent = ({ startMs, endMs }: Window, nowMs: number): boolean =>
  nowMs < endMs && nowMs >= startMs - CLOCK_SKEW_MS
