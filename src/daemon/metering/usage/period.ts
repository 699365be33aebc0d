import { windowAt } from '../rate-limits/windows.ts'

/** A calendar month in UTC: `2026-11`. Points and budgets are per month. */
export type Period = { readonly name: string; readonly startMs: number; readonly endMs: number }

let last: Period = { name: '', startMs: 0, endMs: 0 }

/** Returns the month that contains `nowMs`. */
export function periodAt(nowMs: number): Period {
  if (nowMs >= last.startMs && nowMs < last.endMs) return last
  const { startMs, endMs } = windowAt('month', nowMs)
  last = { name: new Date(startMs).toISOString().slice(0, 7), startMs, endMs }
  return last
}
