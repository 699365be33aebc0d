import { WEBHOOK_CLAIM_AHEAD } from '../../../shared/spec-limits.ts'
import type { Db } from '../../platform/db/db.ts'
import type { EndpointSettings } from './endpoint-queues.ts'
import type { EndpointReader } from './settings.ts'
import { isDue } from './steady-time.ts'
import { claimDeliveries, type DueDelivery, findDue, findSubscribers, holdPending, type Lease } from './store.ts'

/** The claimed deliveries of one endpoint. */
export type ClaimedQueue = {
  endpointId: string
  /** Undefined if the endpoint must not receive deliveries, because it is deleted, disabled or unreadable. */
  settings: EndpointSettings | undefined
  claimed: DueDelivery[]
  /** Whether the store may contain more due deliveries than were claimed. */
  more: boolean
  /** The due time of the next delivery. Undefined if no delivery is pending, or one is due now. */
  nextDueAt: number | undefined
}

/**
 * Rereads these endpoints and claims their due deliveries, in one transaction. Pending deliveries of a disabled or
 * unreadable endpoint become `held`.
 * @param wanted the maximum number of deliveries for each endpoint; if it is 0, only the endpoint's settings are read
 */
export async function claimDue(
  db: Db,
  wanted: ReadonlyMap<string, number>,
  { now, lease, reader }: { now: number; lease: Lease; reader: EndpointReader },
): Promise<ClaimedQueue[]> {
  const endpointIds = [...wanted.keys()]
  const claim = async (tx: Db): Promise<ClaimedQueue[]> => {
    const found = new Map((await findSubscribers(tx, endpointIds)).map((subscriber) => [subscriber.id, subscriber]))
    const settingsOf = new Map<string, EndpointSettings>()
    for (const subscriber of found.values()) {
      const settings = subscriber.enabled === 1 ? reader.settingsOf(subscriber) : undefined
      if (settings) settingsOf.set(subscriber.id, settings)
    }
    // Reads one row more than wanted. This row shows whether there are more deliveries, and when the next one is due.
    const limits = endpointIds.flatMap((endpointId) => {
      const room = Math.min(wanted.get(endpointId) ?? 0, WEBHOOK_CLAIM_AHEAD)
      return room > 0 && settingsOf.has(endpointId) ? [{ endpointId, limit: room + 1 }] : []
    })
    const waiting = await findDue(tx, limits, lease.now)
    const queues: ClaimedQueue[] = []
    for (const endpointId of endpointIds) {
      const settings = settingsOf.get(endpointId)
      if (!settings) {
        if (found.has(endpointId)) await holdPending(tx, endpointId, lease.now)
        queues.push({ endpointId, settings, claimed: [], more: false, nextDueAt: undefined })
        continue
      }
      const rows = waiting.get(endpointId)
      const due = (rows ?? []).filter(({ due_at }) => isDue(due_at, now))
      const claimed = due.slice(0, Math.min(wanted.get(endpointId) ?? 0, WEBHOOK_CLAIM_AHEAD))
      const next = rows?.find(({ due_at }) => !isDue(due_at, now))
      queues.push({
        endpointId,
        settings,
        claimed,
        more: rows === undefined || due.length > claimed.length,
        nextDueAt: next && Date.parse(next.due_at),
      })
    }
    await claimDeliveries(
      tx,
      queues.flatMap(({ claimed }) => claimed.map(({ id }) => id)),
      lease,
    )
    return queues
  }
  return db.transaction().execute(claim)
}
