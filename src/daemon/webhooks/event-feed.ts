import { LISTEN_PING_MS } from '../../shared/spec-limits.ts'
import { type Clock, isoTime } from '../../shared/time.ts'
import type { EventFeedFrame } from '../../shared/wire/event-feed.ts'
import type { Db } from '../platform/db/db.ts'
import type { OutboxEventRow } from '../platform/db/tables.ts'
import { type EventStream, sseFrame } from '../platform/http/sse.ts'
import { type EventPosition, listEvents } from '../records/events/outbox.ts'
import { toEnvelope } from './view.ts'

/** How often the store is polled for a listener's events. */
export const LISTEN_LOOK_MS = 500
/** The maximum delay between an event's time and its commit. The delay includes clock differences between daemons. */
const LISTEN_LATE_MS = 5_000
/** Maximum number of events per query and per page. */
export const LISTEN_EVENTS = 100

/**
 * Returns the cursor that clients use for a position: `<time>/<id>`. A cursor without an id precedes all events of that
 * time.
 */
const toCursor = ({ createdAt, id }: EventPosition): string => (id === '' ? createdAt : `${createdAt}/${id}`)

function toPosition(cursor: string): EventPosition {
  const [createdAt = '', id = ''] = cursor.split('/')
  return { createdAt, id }
}

const positionOf = ({ created_at, id }: OutboxEventRow): EventPosition => ({ createdAt: created_at, id })
const cursorOf = (row: OutboxEventRow): string => toCursor(positionOf(row))

/**
 * Returns one page of events after `since`. If `since` is not given, returns the latest page. The oldest event comes
 * first.
 */
export async function eventPage(db: Db, tenantId: string, since: string | undefined) {
  const after = since === undefined ? undefined : toPosition(since)
  const rows = await listEvents(db, tenantId, { after, limit: LISTEN_EVENTS })
  const last = rows.at(-1)
  return { events: rows.map(toEnvelope), next: last === undefined ? (since ?? null) : cursorOf(last) }
}

export type FeedDeps = { db: Db; clock: Clock; isDraining(): boolean }
type FeedOptions = {
  tenantId: string
  since: string | undefined
  signal: AbortSignal
  /** Called before each page of events. @throws if the caller no longer has the permission */
  requirePermission(): Promise<void>
}

/**
 * Streams the tenant's events as any daemon stores them, until the client disconnects or this daemon drains. Each event
 * is sent only once. An event that is stored late is also sent, even if an event with a later time has already been
 * sent.
 */
export async function followEvents(
  stream: EventStream,
  { db, clock, isDraining }: FeedDeps,
  { tenantId, since, signal, requirePermission }: FeedOptions,
): Promise<void> {
  const send = async (frames: string) => {
    quietSince = clock.monotonic()
    if (!stream.write(frames)) await stream.drained(signal)
  }
  let quietSince = clock.monotonic()
  let newest: EventPosition = since === undefined ? { createdAt: isoTime(clock.now()), id: '' } : toPosition(since)
  /**
   * Maps event ids to event times. Contains the events that were sent, and the events that existed before the stream
   * began.
   */
  const known = new Map<string, string>()
  if (since === undefined) {
    for await (const rows of recentPages()) for (const row of rows) known.set(row.id, row.created_at)
  }
  await send(toFrame({ type: 'ready', data: { cursor: toCursor(newest) } }))

  while (!signal.aborted && !isDraining()) {
    // Reads in pages, because there may be many events after `since`.
    for await (const rows of recentPages()) {
      await requirePermission()
      for (const row of rows) {
        if (known.has(row.id)) continue
        known.set(row.id, row.created_at)
        if (row.created_at > newest.createdAt) newest = positionOf(row)
        await send(toFrame({ type: 'event', data: { cursor: toCursor(newest), event: toEnvelope(row) } }))
      }
      forgetOld()
    }
    if (clock.monotonic() - quietSince >= LISTEN_PING_MS) await send(': ping\n\n')
    await pause(LISTEN_LOOK_MS, clock, signal)
  }
  stream.end('')

  function lookFrom(): EventPosition {
    // An event from a daemon whose clock is ahead must not hide later events of other daemons.
    const reachedMs = Math.min(Date.parse(newest.createdAt), clock.now())
    return { createdAt: isoTime(reachedMs - LISTEN_LATE_MS), id: '' }
  }

  /** Removes the ids of events that later queries cannot return, because they are too old. */
  function forgetOld(): void {
    const earliest = lookFrom().createdAt
    for (const [id, createdAt] of known) if (createdAt < earliest) known.delete(id)
  }

  async function* recentPages(): AsyncGenerator<OutboxEventRow[]> {
    let after: EventPosition | undefined = lookFrom()
    while (after !== undefined && !signal.aborted && !isDraining()) {
      const rows: OutboxEventRow[] = await listEvents(db, tenantId, { after, limit: LISTEN_EVENTS })
      yield rows
      const last = rows.at(-1)
      after = last !== undefined && rows.length === LISTEN_EVENTS ? positionOf(last) : undefined
    }
  }
}

const toFrame = (frame: EventFeedFrame): string => sseFrame(frame)

/** Resolves after `ms`, or earlier if the signal is aborted. In both cases, removes the timer and the listener. */
function pause(ms: number, clock: Clock, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve()
    const done = () => {
      timer.cancel()
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = clock.after(ms, done)
    signal.addEventListener('abort', done, { once: true })
  })
}
