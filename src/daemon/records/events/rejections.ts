import { REJECTION_REPORTS_PER_MINUTE } from '../../../shared/spec-limits.ts'
import { type Clock, isoTime } from '../../../shared/time.ts'
import { createCoalescedTask } from '../../platform/concurrency/coalesced-task.ts'
import type { Db } from '../../platform/db/db.ts'
import { ADDRESS_WINDOW_MS, type CountRejection, createAddressCounter } from '../../platform/http/address-rate.ts'
import type { Log } from '../../platform/log.ts'
import { type RejectedRequests, rejectedRequests } from './events.ts'
import { findOperatorTenant } from './operator-tenant.ts'
import { insertEvents } from './outbox.ts'

/** Reports client addresses with many rejected requests. */
export type RejectionReports = {
  /**
   * Returns the counter of a family of routes. When an address reaches `reportedAt` in a minute, one event is stored. A
   * wider block of IPv6 reaches a multiple of it, so a client with many addresses is reported too.
   */
  counter(
    routes: RejectedRequests['routes'],
    limits: { reportedAt: number /** Maximum number of addresses to count separately. */; addresses: number },
  ): CountRejection
  /** Stores the reports that are still pending. */
  close(): Promise<void>
}

/**
 * Counts in memory, and stores the events after the requests that caused them. A restart loses the counts. If the store
 * is unavailable, the event is lost, and the log still contains the report.
 */
export function createRejectionReports({
  db,
  clock,
  log,
  announceEvents,
}: {
  db: Db
  clock: Clock
  log: Log
  announceEvents(): void
}): RejectionReports {
  let pending: RejectedRequests[] = []
  /** The reports of the current minute, of all routes. */
  let reported = { windowStartMs: 0, reports: 0 }
  const storing = createCoalescedTask(storePending, (error) =>
    log.error({ error }, 'events about rejected requests could not be stored'),
  )

  async function storePending(): Promise<void> {
    const reports = pending
    pending = []
    for (const report of reports) log.warn(report, 'many requests of an address were rejected')
    const tenantId = await findOperatorTenant(db)
    if (tenantId === undefined || reports.length === 0) return
    const createdAt = isoTime(clock.now())
    const events = reports.map((report) => rejectedRequests({ tenantId, createdAt }, report))
    if (await insertEvents(db, events)) announceEvents()
  }

  function report(data: RejectedRequests, windowStartMs: number): void {
    if (reported.windowStartMs !== windowStartMs) reported = { windowStartMs, reports: 0 }
    reported.reports += 1
    if (reported.reports > REJECTION_REPORTS_PER_MINUTE) return
    pending.push(data)
    storing.ask()
  }

  return {
    counter(routes, { reportedAt, addresses }) {
      const counter = createAddressCounter({ clock, limit: reportedAt, addresses })
      return (address) => {
        const { windowStartMs, isWithin, counts } = counter.add(address)
        if (!isWithin) return
        const windowStart = isoTime(windowStartMs)
        const windowSeconds = ADDRESS_WINDOW_MS / 1000
        for (const { network, requests, limit } of counts)
          if (requests === limit)
            report({ address: network || null, routes, count: requests, windowStart, windowSeconds }, windowStartMs)
      }
    },
    close: storing.idle,
  }
}
