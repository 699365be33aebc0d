import { usageError } from '../errors.ts'

const UNIT_MS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 }

/** Milliseconds of `500ms`, `8s`, `1.5m` or `2h`; undefined for anything else. */
export function findDuration(text: string): number | undefined {
  const [, amount, unit] = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(text) ?? []
  const unitMs = unit === undefined ? undefined : UNIT_MS[unit]
  return amount === undefined || unitMs === undefined ? undefined : Math.round(Number(amount) * unitMs)
}

/** Like `findDuration`; throws a usage error that names the flag. */
export function getDuration(text: string, name: string): number {
  const durationMs = findDuration(text)
  if (durationMs !== undefined) return durationMs
  throw usageError(`${name} must be a duration, not '${text}'`, ['Write 500ms, 30s, 2m or 1h.'])
}
