/** Durations and times of flags. */
import { usageError } from '../errors.ts'

const UNIT_MS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 }

/** Returns the milliseconds of `500ms`, `8s`, `1.5m` or `2h`, or undefined for any other text. */
export function findDuration(text: string): number | undefined {
  const [, amount, unit] = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(text) ?? []
  const unitMs = unit === undefined ? undefined : UNIT_MS[unit]
  return amount === undefined || unitMs === undefined ? undefined : Math.round(Number(amount) * unitMs)
}

/** Like `findDuration`, but throws a usage error that names the flag. */
export function getDuration(text: string, name: string): number {
  const durationMs = findDuration(text)
  if (durationMs !== undefined) return durationMs
  throw usageError(`${name} must be a duration, not '${text}'`, ['Write 500ms, 30s, 2m or 1h.'])
}

/**
 * Parses a flag whose unit is seconds. Accepts a number such as `300`, or a duration such as `5m`. For any other text,
 * throws a usage error that names the flag.
 */
export function toSeconds(text: string, flag: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text)
  const durationMs = findDuration(text)
  if (durationMs !== undefined) return Math.floor(durationMs / 1000)
  throw usageError(`${flag} must be seconds or a duration, not '${text}'`, ['Write 300, 90s, 5m or 24h.'])
}

/**
 * Parses a time such as `1767225600` or `2026-01-01T00:00:00Z` and returns it in Unix seconds. For any other text,
 * throws a usage error that names the flag.
 */
export function toUnixSeconds(text: string, flag: string): number {
  if (/^\d{1,12}$/.test(text)) return Number(text)
  const ms = /^\d{4}-\d{2}-\d{2}T/.test(text) ? Date.parse(text) : Number.NaN
  if (!Number.isNaN(ms)) return Math.floor(ms / 1000)
  throw usageError(`${flag} must be a time, not '${text}'`, ['Write Unix seconds, or 2026-01-31T12:00:00Z.'])
}
