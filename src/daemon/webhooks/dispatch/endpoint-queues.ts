import { WEBHOOK_ATTEMPT_MS, WEBHOOK_CLAIM_AHEAD, WEBHOOK_SETTINGS_MS } from '../../../shared/spec-limits.ts'
import { createTenantRotation } from './tenant-rotation.ts'

/** Maximum number of concurrent attempts to one endpoint. */
const WEBHOOK_ENDPOINT_CONCURRENCY = 2
/**
 * Maximum number of concurrent attempts of one daemon; `all` is the total. `brisk` attempts are younger than
 * WEBHOOK_SLOW_MS. `stuck` are those to endpoints whose last attempt timed out. The rest may become slow. Known slow
 * endpoints start at most `slow` attempts, so that others can still become slow.
 */
export const WEBHOOK_SLOTS = { brisk: 256, stuck: 64, slow: 600, all: 1_500 } as const
const WEBHOOK_SLOW_MS = 300
/** How long an endpoint stays classified as slow or stuck. Longer than the longest wait between two attempts. */
const WEBHOOK_PACE_MS = 120_000

/** An endpoint, as read from the store. */
export type EndpointSettings = {
  tenantId: string
  url: string
  /** Signing secrets, the newest first. */
  secrets: readonly string[]
  /** ISO 8601. The later of two readings is the newer row. */
  updatedAt: string
  /** Monotonic milliseconds. */
  readAt: number
}

/** A delivery that this daemon may send until its lease expires. */
export type Claim = {
  id: string
  endpointId: string
  eventType: string
  body: string
  fence: number
  /** Attempts that have ended. */
  attempts: number
  /** Whether its result counts for the health of its endpoint. Tests and manual resends do not count. */
  counts: boolean
  /** Monotonic milliseconds. */
  leaseEndsAt: number
}

/** How the last attempt of an endpoint went: in time, slower than WEBHOOK_SLOW_MS, or timed out. */
type Pace = 'brisk' | 'slow' | 'stuck'

/** The deliveries and state of one active endpoint in this daemon. */
export type EndpointQueue = {
  endpointId: string
  settings: EndpointSettings | undefined
  ready: Claim[]
  running: number
  /** How many of `running` take longer than WEBHOOK_SLOW_MS. */
  runningSlow: number
  pace: Pace
  /** When `pace` expires; monotonic milliseconds. */
  paceUntil: number
  /** The store may have more due deliveries. */
  backlog: boolean
  /** When the next delivery in the store is due; monotonic milliseconds, infinite without one. */
  dueAt: number
  queued: boolean
}

/** One attempt in flight. */
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
  /** How many more deliveries a queue takes. */
  room(queue: EndpointQueue, now: number): number
  /** Adds a queue with ready deliveries to those that wait for a slot. */
  enqueue(queue: EndpointQueue, now: number): void
  /** The next attempt to start; undefined when nothing is ready or no slot is free. */
  next(now: number): Run | undefined
  ended(run: Run, timedOut: boolean, now: number): void
  /** When a running attempt will count as slow and free its slot; undefined when no queue waits for one. */
  slotAt(): number | undefined
  /** Removes idle queues. */
  tidy(now: number): void
}

export type EndpointQueuesOptions = {
  /** Called for a queue whose settings are stale, or that runs low while the store may have more. */
  needs(queue: EndpointQueue): void
  /** Called for a claim whose lease is about to expire. The next daemon that claims the delivery sends it. */
  lost(claim: Claim): void
  slots?: { brisk: number; stuck: number; slow: number; all: number }
}

/**
 * Chooses the delivery that is sent next, so that no endpoint and no tenant starves the others. Each endpoint has a
 * queue with a few concurrent attempts. Tenants take turns, and so do the queues of a tenant. Attempts are of three
 * kinds, each with its own slots:
 * - brisk: the endpoint has no known problem. After WEBHOOK_SLOW_MS the attempt counts as slow and frees its brisk
 * slot. So if many endpoints stop answering at once, they delay the others once, for that long. If all slow slots are
 * taken, the attempt keeps its brisk slot.
 * - slow: a brisk attempt that became slow, or an attempt of an endpoint whose last attempt was slow. Slow attempts
 * never use brisk or stuck slots.
 * - stuck: the last attempt of the endpoint timed out. All stuck attempts share a small part of the slots.
 * An endpoint that is not brisk, or has a slow attempt in flight, has one attempt at a time. A tenant has a limit of
 * slow attempts: above it, its brisk attempts wait until its slow ones end.
 */
export function createEndpointQueues({ needs, lost, slots = WEBHOOK_SLOTS }: EndpointQueuesOptions): EndpointQueues {
  const queues = new Map<string, EndpointQueue>()
  const waiting = {
    brisk: createTenantRotation<EndpointQueue>(),
    slow: createTenantRotation<EndpointQueue>(),
    stuck: createTenantRotation<EndpointQueue>(),
  }
  /** Brisk attempts, the oldest first; ended ones are removed when they reach the front. */
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
  /** Refill at half capacity, so that more deliveries arrive before the queue is empty. */
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

/** Whether the settings of a queue are recent enough to send with them. */
const isFresh = ({ settings }: EndpointQueue, now: number): boolean =>
  settings !== undefined && settings.readAt + WEBHOOK_SETTINGS_MS > now
