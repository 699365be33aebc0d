// Sends `provider:down` and `provider:recovered`, once per outage of a model, however many daemons see it.
import { type Clock, isoTime } from '../../../shared/time.ts'
import type { OutageReports } from '../../models/breaker.ts'
import { createCoalescedTask } from '../../platform/concurrency/coalesced-task.ts'
import type { Db } from '../../platform/db/db.ts'
import { insertRows } from '../../platform/db/insert-rows.ts'
import type { ProviderOutageRow } from '../../platform/db/tables.ts'
import type { Log } from '../../platform/log.ts'
import { providerDown, providerRecovered } from '../../records/events/events.ts'
import { insertEvents } from '../../records/events/outbox.ts'

export type Outages = OutageReports & {
  /** Reads the outages that other daemons, or this one before a restart, have reported. */
  refresh(): Promise<void>
  /** Waits for reports that are not stored yet. */
  close(): Promise<void>
}

type Change = { tenantId: string; slot: string; down?: { reason: ProviderOutageRow['reason'] } }

/**
 * The row of an outage and its event are written in one transaction. Only the daemon that inserts or deletes the row
 * sends the event. An outage ends with the next complete answer on any daemon.
 */
export function createOutages({
  db,
  clock,
  log,
  announceEvents,
}: {
  db: Db
  clock: Clock
  log: Pick<Log, 'error'>
  announceEvents(): void
}): Outages {
  const open = new Set<string>()
  let pending: Change[] = []
  const storing = createCoalescedTask(storePending, (error) => log.error({ error }, 'an outage could not be stored'))
  const nameOf = ({ tenantId, slot }: Change) => `${tenantId} ${slot}`

  async function storePending(): Promise<void> {
    const changes = pending
    pending = []
    for (const [at, change] of changes.entries()) {
      try {
        if (await store(change)) announceEvents()
      } catch (error) {
        // The next failure or answer reports these again.
        for (const other of changes.slice(at)) {
          if (other.down) open.delete(nameOf(other))
          else open.add(nameOf(other))
        }
        throw error
      }
    }
  }

  /** Returns whether an event was stored. */
  function store({ tenantId, slot, down }: Change): Promise<boolean> {
    const now = clock.now()
    const at = { tenantId, createdAt: isoTime(now) }
    const ofModel = { provider: slot.split('/', 1)[0] ?? slot, model: slot }
    return db.transaction().execute(async (tx) => {
      if (down) {
        const row = { tenant_id: tenantId, slot, reason: down.reason, since: at.createdAt }
        if ((await insertRows(tx, 'provider_outages', [row], { onConflict: 'ignore' })) === 0) return false
        const data = {
          ...ofModel,
          since: row.since,
          reason: down.reason as Parameters<typeof providerDown>[1]['reason'],
        }
        return insertEvents(tx, [providerDown(at, data)])
      }
      const ended = await tx
        .deleteFrom('provider_outages')
        .where('tenant_id', '=', tenantId)
        .where('slot', '=', slot)
        .returning('since')
        .executeTakeFirst()
      if (!ended) return false
      const downSeconds = Math.max(0, Math.round((now - Date.parse(ended.since)) / 1000))
      return insertEvents(tx, [providerRecovered(at, { ...ofModel, since: ended.since, downSeconds })])
    })
  }

  function report(change: Change): void {
    pending.push(change)
    storing.ask()
  }

  return {
    down(tenantId, slot, reason) {
      const change = { tenantId, slot, down: { reason } }
      if (open.has(nameOf(change))) return
      open.add(nameOf(change))
      report(change)
    },
    answered(tenantId, slot) {
      // Usually no model is down, and every answer passes here.
      if (open.size === 0) return
      const change = { tenantId, slot }
      if (open.delete(nameOf(change))) report(change)
    },
    async refresh() {
      await storing.idle()
      const rows = await db.selectFrom('provider_outages').select(['tenant_id', 'slot']).execute()
      if (pending.length > 0) return
      open.clear()
      for (const { tenant_id, slot } of rows) open.add(nameOf({ tenantId: tenant_id, slot }))
    },
    close: storing.idle,
  }
}
