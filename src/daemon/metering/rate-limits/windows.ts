/** The windows in which requests are counted: those of the calendar in UTC, from the shortest to the longest. */
export const WINDOWS = ['minute', 'hour', 'day', 'month'] as const
export type WindowName = (typeof WINDOWS)[number]

/** From `startMs` on, up to but not including `endMs`; milliseconds since 1970. */
export type Window = { readonly startMs: number; readonly endMs: number }

const LENGTH_MS = { minute: 60_000, hour: 3_600_000, day: 86_400_000 } as const

/** The window that holds this moment. */
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

/** So far may the clocks of daemons lie apart, or one be set back, without a window being begun twice. */
export const CLOCK_SKEW_MS = 60_000

/**
 * Whether requests of this moment are counted in a window that was begun before. One that begins a little later counts too:
 * a clock that is a little ahead, ours until it was corrected or another daemon's, has begun it, and going back would let
 * its requests through twice. One further ahead comes from a clock that was plainly wrong.
 */
export const isCurrent = ({ startMs, endMs }: Window, nowMs: number): boolean =>
  nowMs < endMs && nowMs >= startMs - CLOCK_SKEW_MS
