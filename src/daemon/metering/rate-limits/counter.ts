import { isoTime } from '../../../shared/time.ts'
import type { RateCounterRow } from '../../platform/db/tables.ts'
import type { Count } from './quotas.ts'
import { isCurrent, type WindowName, windowAt } from './windows.ts'

/** Identifies one counter of a key. */
export type CounterKey = Pick<RateCounterRow, 'tenant_id' | 'api_key_id' | 'counter'>

/** Creates the row of a counter, with a count of 0. */
export const emptyRow = (key: CounterKey, window: WindowName, nowMs: number): RateCounterRow => {
  const startsAt = isoTime(windowAt(window, nowMs).startMs)
  return { ...key, window_start: startsAt, used: 0, last_used_at: startsAt }
}

/** One counter of a key in its current window. `row` is updated in place and stored without conversion. */
export class Counter implements Count {
  readonly row: RateCounterRow
  /** The state of the event that reports an exhausted window: a promise while it is being stored, then `'durably'`. */
  announced: Promise<void> | 'durably' | undefined
  readonly #window: WindowName
  #startMs: number
  #endMs: number

  constructor(window: WindowName, row: RateCounterRow) {
    this.row = row
    this.#window = window
    this.#startMs = Date.parse(row.window_start)
    this.#endMs = windowAt(window, this.#startMs).endMs
  }

  get used(): number {
    return this.row.used
  }

  get startMs(): number {
    return this.#startMs
  }

  get endMs(): number {
    return this.#endMs
  }

  /** Starts a new window if the current one has ended. */
  moveTo(nowMs: number): void {
    if (isCurrent({ startMs: this.#startMs, endMs: this.#endMs }, nowMs)) return
    const { startMs, endMs } = windowAt(this.#window, nowMs)
    this.#startMs = startMs
    this.#endMs = endMs
    this.row.window_start = isoTime(startMs)
    this.row.used = 0
    this.announced = undefined
  }
}
