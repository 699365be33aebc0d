import { invalidField } from '../../../shared/errors.ts'
import { LOG_WINDOW_DAYS } from '../../../shared/spec-limits.ts'
import { DAY_MS, isoTime } from '../../../shared/time.ts'

/** The period that a caller named, in ISO times. */
export type Period = { startDate?: string | undefined; endDate?: string | undefined }

/**
 * The period that a list covers, the LOG_WINDOW_DAYS before its end or now unless its start was named. `filter` has no end
 * that was not named: the clocks of daemons differ, and what is newest must not be missing for that.
 * @throws VALIDATION_ERROR for one that ends before it starts
 */
export function windowOf({ startDate, endDate }: Period, nowMs: number) {
  // The clock of whoever asks, or of another daemon, may be ahead of this one.
  const end = endDate ?? latest(isoTime(nowMs), startDate)
  const start = startDate ?? isoTime(Date.parse(end) - LOG_WINDOW_DAYS * DAY_MS)
  if (start > end) {
    throw invalidField('startDate', 'startDate must not be after endDate.', startDate)
  }
  return { shown: { startDate: start, endDate: end }, filter: { startDate: start, endDate } }
}

const latest = (now: string, startDate: string | undefined): string =>
  startDate !== undefined && startDate > now ? startDate : now
