/** Expiry times of keys. */
import { isoTime } from '../../../shared/time.ts'
import { usageError } from '../../errors.ts'

const HOUR_MS = 3_600_000
const UNIT_MS: Record<string, number> = { h: HOUR_MS, d: 24 * HOUR_MS, w: 7 * 24 * HOUR_MS }
const DATE = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2}))?$/
/** The maximum time that JavaScript can represent (ECMA-262, Time Values and Time Range). */
const LAST_MS = 8_640_000_000_000_000

/**
 * `at` is ISO 8601, or null for a key that never expires. If `isRelative` is true, `at` depends on the time of the run.
 */
export type Expiry = { at: string | null; isRelative: boolean }

/** Whether the date exists. Without this check, JavaScript would silently parse 30 February as 2 March. */
const isDay = (date: string): boolean => {
  const ms = Date.parse(`${date}T00:00:00Z`)
  return !Number.isNaN(ms) && isoTime(ms).startsWith(date)
}

/**
 * Parses `90d`, `12h`, `4w`, a date (midnight UTC), a time with its zone, or `never`. Throws a usage error for anything
 * else.
 */
export function toExpiry(text: string, nowMs: number): Expiry {
  if (text === 'never') return { at: null, isRelative: false }
  const [, amount, unit] = /^(\d+)([hdw])$/.exec(text) ?? []
  const unitMs = unit === undefined ? undefined : UNIT_MS[unit]
  const isRelative = unitMs !== undefined
  const ms = isRelative
    ? nowMs + Number(amount) * unitMs
    : DATE.test(text) && isDay(text.slice(0, 10))
      ? Date.parse(text)
      : Number.NaN
  if (ms <= LAST_MS) return { at: isoTime(ms), isRelative }
  throw usageError(`--expires must be a time, not '${text}'`, [
    'Write 90d, 12h or 4w from now on, 2030-01-31, 2030-01-31T12:00:00Z, or never.',
  ])
}
