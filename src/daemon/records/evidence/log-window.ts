import { invalidField } from '../../../shared/errors.ts'
import { LOG_WINDOW_DAYS } from '../../../shared/spec-limits.ts'
import { DAY_MS, isoTime } from '../../../shared/time.ts'

/** The period that the caller requests, as ISO times. */
export type Period = { startDate?: string | undefined; endDate?: string | undefined }

/**
 * Returns the period that a list covers. If the start is missing, the period begins LOG_WINDOW_DAYS before its end. If
 * the end is missing, the period ends now. `filter` has an end only if the caller has set one. Clocks of daemons
 * differ, so a filter that ends now could exclude the newest entries.
 * @throws VALIDATION_ERROR if the period ends before it starts
 */
export function windowOf({ startDate, endDate }: Period, nowMs: number) {
  // The start may be in the future, because the clock of the caller or of another daemon may be ahead.
  const end = endDate ?? latest(isoTime(nowMs), startDate)
  const start = startDate ?? isoTime(Date.parse(end) - LOG_WINDOW_DAYS * DAY_MS)
  if (start > end) {
    throw invalidField('startDate', 'startDate must not be after endDate.', startDate)
  }
  return { shown: { startDate: start, endDate: end }, filter: { startDate: start, endDate } }
}

const latest = (now: string, startDate: string | undefined): string =>
  startDate !== undefined && startDate > now ? startDate : now
