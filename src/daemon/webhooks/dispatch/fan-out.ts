import { sql } from 'kysely'
import { WEBHOOK_BATCH } from '../../../shared/spec-limits.ts'
import { isoTime } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import { insertRows } from '../../platform/db/insert-rows.ts'
import { rowList } from '../../platform/db/row-list.ts'
import type { WebhookDeliveryRow } from '../../platform/db/tables.ts'
import { newDelivery } from '../delivery.ts'
import type { EndpointSettings } from './endpoint-queues.ts'
import type { DeliverableEvent } from './envelope.ts'
import type { EndpointReader } from './settings.ts'
import { findWaitingEvents, type Lease, listSubscribers, markFannedOut, type Subscriber } from './store.ts'

/** A new delivery. If `row.lease_owner` is set, this daemon has claimed it. */
export type MadeDelivery = { row: WebhookDeliveryRow; event: DeliverableEvent; settings: EndpointSettings | undefined }

/** The progress within an event: its deliveries exist for all endpoints with ids up to and including `endpointId`. */
export type PassedOn = { eventId: string; endpointId: string }

export type FanOutOptions = {
  /** Milliseconds since 1970. */
  now: number
  lease: Lease
  reader: EndpointReader
  /** Whether this daemon can send a new delivery to that endpoint soon, and should therefore claim it. */
  takes(endpointId: string): boolean
  /**
   * The position at which the previous call stopped. Without it, the call starts at the first endpoint and skips
   * existing deliveries.
   */
  passedOn?: PassedOn | undefined
}

/**
 * `more`: whether pending events may remain. `passedOn`: the position at which the call stopped, if it stopped within
 * an event.
 */
export type FannedOut = { made: MadeDelivery[]; more: boolean; passedOn: PassedOn | undefined }

/**
 * For each pending event, creates one delivery for each endpoint that subscribes to the event. Each transaction creates
 * a limited number of deliveries, so that it stays short. An event stays pending until all of its deliveries exist. If
 * an endpoint is disabled or its secret is unreadable, its deliveries are created as `held`.
 */
export async function fanOut(db: Db, options: FanOutOptions): Promise<FannedOut> {
  const now = isoTime(options.now)
  return db.transaction().execute(async (tx) => {
    const events = await findWaitingEvents(tx, WEBHOOK_BATCH.events)
    if (events.length === 0) return { made: [], more: false, passedOn: undefined }
    const subscribers = await listSubscribers(tx, [...new Set(events.map(({ tenant_id }) => tenant_id))])
    const { pairs, done, passedOn } = chooseDeliveries(events, subscribers, options)
    const made = pairs.map(([event, subscriber]) => toMade(event, subscriber, options))
    const inserted = await insertRows(
      tx,
      'webhook_deliveries',
      made.map(({ row }) => row),
      { onConflict: 'ignore' },
    )
    await markFannedOut(tx, done, now)
    const whole = inserted === made.length ? made : await onlyInserted(tx, made)
    const more = done.length < events.length || events.length === WEBHOOK_BATCH.events
    return { made: whole, more, passedOn }
  })
}

type WaitingEvent = DeliverableEvent & { tenant_id: string }

/**
 * Chooses at most WEBHOOK_BATCH.deliveries deliveries to create. Also returns the events whose deliveries are complete
 * once these are stored.
 */
function chooseDeliveries(
  events: readonly WaitingEvent[],
  subscribers: readonly Subscriber[],
  { reader, passedOn }: FanOutOptions,
): { pairs: [WaitingEvent, Subscriber][]; done: string[]; passedOn: PassedOn | undefined } {
  const listeners = new Map<string, { subscriber: Subscriber; subscribes(type: string): boolean }[]>()
  for (const subscriber of subscribers) {
    const listener = { subscriber, subscribes: reader.subscriptionsOf(subscriber) }
    const others = listeners.get(subscriber.tenant_id)
    if (others) others.push(listener)
    else listeners.set(subscriber.tenant_id, [listener])
  }
  const pairs: [WaitingEvent, Subscriber][] = []
  const done: string[] = []
  for (const event of events) {
    const reached = event.id === passedOn?.eventId ? passedOn.endpointId : ''
    const owed = (listeners.get(event.tenant_id) ?? []).filter(
      ({ subscriber: { id }, subscribes }) => id > reached && subscribes(event.type),
    )
    const now = owed.slice(0, WEBHOOK_BATCH.deliveries - pairs.length)
    for (const { subscriber } of now) pairs.push([event, subscriber])
    if (now.length < owed.length) {
      const last = now.at(-1)
      return { pairs, done, passedOn: last && { eventId: event.id, endpointId: last.subscriber.id } }
    }
    done.push(event.id)
  }
  return { pairs, done, passedOn: undefined }
}

function toMade(
  event: WaitingEvent,
  subscriber: Subscriber,
  { now, lease, reader, takes }: FanOutOptions,
): MadeDelivery {
  const row = newDelivery(event, subscriber.id, now)
  const settings = subscriber.enabled === 1 ? reader.settingsOf(subscriber) : undefined
  if (!settings) return { event, settings, row: { ...row, state: 'held' } }
  if (!takes(subscriber.id)) return { event, settings, row }
  return { event, settings, row: { ...row, lease_owner: lease.owner, lease_until: lease.until, fence: 1 } }
}

/** Removes deliveries that are already stored: for example, an administrator may have recovered them. */
async function onlyInserted(tx: Db, made: readonly MadeDelivery[]): Promise<MadeDelivery[]> {
  const listed = rowList(
    tx,
    { id: 'text' },
    made.map(({ row: { id } }) => ({ id })),
  )
  const { rows: found } = await sql<{ id: string }>`
    select id from webhook_deliveries where id in (select id from ${listed} as listed)
  `.execute(tx)
  const ids = new Set(found.map(({ id }) => id))
  return made.filter(({ row }) => ids.has(row.id))
}
