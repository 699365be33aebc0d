import {
  WEBHOOK_ATTEMPT_MS,
  WEBHOOK_CLAIM_AHEAD,
  WEBHOOK_ENDPOINT_CONCURRENCY,
  WEBHOOK_PACE_MS,
  WEBHOOK_SETTINGS_MS,
  WEBHOOK_SLOTS,
  WEBHOOK_SLOW_MS,
} from '../../../shared/spec-limits.ts'
import { createTenantRotation } from './tenant-rotation.ts'

/** An endpoint as it was read from the store. */
export type EndpointSettings = {
  tenantId: string
  url: string
  /** What signs, the newest first. */
  secrets: readonly string[]
  /** ISO 8601: which of two is the newer. */
  updatedAt: string
  /** Monotonic milliseconds. */
  readAt: number
}

/** A delivery that this daemon may send, as long as its lease lasts. */
export type Claim = {
  id: string
  endpointId: string
  eventType: string
  body: string
  fence: number
  /** Attempts that have ended before. */
  attempts: number
  /** Whether its end says something of its endpoint: tests and what is sent again by hand do not. */
  counts: boolean
  /** Monotonic milliseconds. */
  leaseEndsAt: number
}

/** How the last attempt of an endpoint went: in time, in more than WEBHOOK_SLOW_MS, or not at all. */
type Pace = 'brisk' | 'slow' | 'stuck'

/** What this daemon knows of one endpoint that has something to do. */
export type EndpointQueue = {
  endpointId: string
  settings: EndpointSettings | undefined
  ready: Claim[]
  running: number
  /** Those of `running` that take longer than WEBHOOK_SLOW_MS. */
  runningSlow: number
  pace: Pace
  /** Until when that is believed; monotonic milliseconds. */
  paceUntil: number
  /** The store may hold more that is due. */
  backlog: boolean
  /** When the store has something to do next; monotonic milliseconds, infinite when it has nothing. */
  dueAt: number
  queued: boolean
}

/** One attempt under way. */
export type Run = {
  queue: EndpointQueue
  claim: Claim
  tenantId: string
  startedAt: number
  kind: Pace
  ended: boolean
}

export type EndpointQueues = {
  get(endpointId: string): EndpointQueue
  find(endpointId: string): EndpointQueue | undefined
  all(): Iterable<EndpointQueue>
  /** How many deliveries more a lane takes. */
  room(queue: EndpointQueue, now: number): number
  /** Puts a lane with something ready in the row of those that wait for a slot. */
  enqueue(queue: EndpointQueue, now: number): void
  /** The next attempt to start, undefined when nothing is ready or no slot is free. */
  next(now: number): Run | undefined
  ended(run: Run, timedOut: boolean, now: number): void
  /** When an attempt that takes a slot now will count as slow; undefined when no lane waits for that. */
  slotAt(): number | undefined
  /** Forgets lanes with nothing to do. */
  tidy(now: number): void
}

export type EndpointQueuesOptions = {
  /** Called for a lane whose settings are too old, or that runs out of deliveries while the store may hold more. */
  needs(queue: EndpointQueue): void
  /** Called for a claim whose lease is nearly over: whoever claims it next sends it. */
  lost(claim: Claim): void
  slots?: { brisk: number; stuck: number; slow: number; all: number }
}

/**
 * Which delivery is sent next, so that no endpoint and no tenant can take what the others need. Each endpoint has a lane of a
 * few attempts; tenants take turns, and the lanes of a tenant. Three kinds of attempt have slots of their own:
 * - brisk: of an endpoint of which nothing bad is known. Once it takes longer than WEBHOOK_SLOW_MS it counts as slow and
 *   gives its slot to the next, so any number of endpoints that stop answering at once hold the others up for that long, and
 *   once. Only when all slots for slow ones are taken does it stay where it is.
 * - slow: an older one, or one of an endpoint whose last attempt was. The slots of brisk and stuck ones are never used.
 * - stuck: of an endpoint whose last attempt was cut off. All of these together have a small part of the slots.
 * An endpoint that is not brisk, or has a slow attempt under way, has one attempt at a time. A tenant with so many slow
 * attempts that its next brisk ones could stay where they are waits for its own.
 */
export function createEndpointQueues({ needs, lost, slots = WEBHOOK_SLOTS }: EndpointQueuesOptions): EndpointQueues {
  const queues = new Map<string, EndpointQueue>()
  const waiting = {
    brisk: createTenantRotation<EndpointQueue>(),
    slow: createTenantRotation<EndpointQueue>(),
    stuck: createTenantRotation<EndpointQueue>(),
  }
  /** Brisk attempts, the oldest first; ended ones are left out when they come to the front. */
  const brisk: Run[] = []
  const counts = { brisk: 0, slow: 0, stuck: 0 }
  const slowOfTenant = new Map<string, number>()
  const slowAtMost = slots.all - slots.brisk - slots.stuck
  const mayGo = (tenantId: string): boolean => (slowOfTenant.get(tenantId) ?? 0) < slowAtMost - slots.brisk / 2

  const paceOf = (queue: EndpointQueue, now: number): Pace => (queue.paceUntil > now ? queue.pace : 'brisk')
  const width = (queue: EndpointQueue, now: number): number =>
    paceOf(queue, now) === 'brisk' && queue.runningSlow === 0 ? WEBHOOK_ENDPOINT_CONCURRENCY : 1

  function countSlow({ queue, tenantId }: Run, change: 1 | -1): void {
    counts.slow += change
    queue.runningSlow += change
    const ofTenant = (slowOfTenant.get(tenantId) ?? 0) + change
    if (ofTenant > 0) slowOfTenant.set(tenantId, ofTenant)
    else slowOfTenant.delete(tenantId)
  }

  function age(now: number): void {
    for (let oldest = brisk[0]; oldest; oldest = brisk[0]) {
      if (!oldest.ended && (oldest.startedAt + WEBHOOK_SLOW_MS > now || counts.slow >= slowAtMost)) return
      brisk.shift()
      if (oldest.ended) continue
      oldest.kind = 'slow'
      counts.brisk--
      countSlow(oldest, 1)
    }
  }

  function start(kind: Pace, now: number): Run | undefined {
    for (let queue = waiting[kind].take(mayGo); queue; queue = waiting[kind].take(mayGo)) {
      queue.queued = false
      if (queue.running >= width(queue, now)) continue
      if (kind === 'brisk' && paceOf(queue, now) !== 'brisk') {
        enqueue(queue, now)
        continue
      }
      const claim = isFresh(queue, now) ? takeReady(queue, now) : undefined
      if (!claim || (queue.backlog && isLow(queue, now))) needs(queue)
      if (!claim || !queue.settings) continue
      const run: Run = { queue, claim, tenantId: queue.settings.tenantId, startedAt: now, kind, ended: false }
      queue.running++
      if (kind === 'slow') countSlow(run, 1)
      else counts[kind]++
      if (kind === 'brisk') brisk.push(run)
      enqueue(queue, now)
      return run
    }
    return undefined
  }

  const capacity = (queue: EndpointQueue, now: number): number =>
    paceOf(queue, now) === 'brisk' ? WEBHOOK_CLAIM_AHEAD : WEBHOOK_ENDPOINT_CONCURRENCY
  /** Asked for when half is gone, so that more is there before the rest is. */
  const isLow = (queue: EndpointQueue, now: number): boolean => queue.ready.length < capacity(queue, now) / 2

  /** The next delivery whose lease outlasts an attempt. */
  function takeReady(queue: EndpointQueue, now: number): Claim | undefined {
    for (let claim = queue.ready.shift(); claim; claim = queue.ready.shift()) {
      if (claim.leaseEndsAt > now + WEBHOOK_ATTEMPT_MS) return claim
      queue.backlog = true
      lost(claim)
    }
    return undefined
  }

  function enqueue(queue: EndpointQueue, now: number): void {
    if (queue.queued || !queue.settings || queue.ready.length === 0 || queue.running >= width(queue, now)) return
    queue.queued = true
    waiting[paceOf(queue, now)].add(queue.settings.tenantId, queue)
  }

  return {
    get(endpointId) {
      let queue = queues.get(endpointId)
      if (!queue) {
        queue = {
          endpointId,
          settings: undefined,
          ready: [],
          running: 0,
          runningSlow: 0,
          pace: 'brisk',
          paceUntil: 0,
          backlog: false,
          dueAt: Number.POSITIVE_INFINITY,
          queued: false,
        }
        queues.set(endpointId, queue)
      }
      return queue
    },
    find: (endpointId) => queues.get(endpointId),
    all: () => queues.values(),
    room: (queue, now) => Math.max(0, capacity(queue, now) - queue.ready.length - queue.running),
    enqueue,
    next(now) {
      age(now)
      return (
        (counts.brisk < slots.brisk ? start('brisk', now) : undefined) ??
        (counts.stuck < slots.stuck ? start('stuck', now) : undefined) ??
        (counts.slow < slots.slow ? start('slow', now) : undefined)
      )
    },
    ended(run, timedOut, now) {
      const { queue, kind } = run
      run.ended = true
      queue.running--
      if (kind === 'slow') countSlow(run, -1)
      else counts[kind]--
      queue.pace = timedOut ? 'stuck' : run.startedAt + WEBHOOK_SLOW_MS < now ? 'slow' : 'brisk'
      queue.paceUntil = now + WEBHOOK_PACE_MS
      enqueue(queue, now)
    },
    slotAt() {
      if (waiting.brisk.empty || counts.brisk < slots.brisk || counts.slow >= slowAtMost) return undefined
      const oldest = brisk.find(({ ended }) => !ended)
      return oldest && oldest.startedAt + WEBHOOK_SLOW_MS
    },
    tidy(now) {
      for (const queue of queues.values()) {
        const idle = queue.ready.length === 0 && queue.running === 0 && !queue.backlog && !queue.queued
        if (idle && queue.dueAt === Number.POSITIVE_INFINITY && paceOf(queue, now) === 'brisk')
          queues.delete(queue.endpointId)
      }
    },
  }
}

/** Whether what a lane has ready may be sent as it was read. */
const isFresh = ({ settings }: EndpointQueue, now: number): boolean =>
  settings !== undefined && settings.readAt + WEBHOOK_SETTINGS_MS > now
