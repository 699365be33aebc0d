import { WEBHOOK_ATTEMPT_MS, WEBHOOK_CLAIM_AHEAD, WEBHOOK_SETTINGS_MS } from '../../../shared/spec-limits.ts'
import { createTenantRotation } from './tenant-rotation.ts'

/** Maximum number of concurrent attempts to one endpoint. */
const WEBHOOK_ENDPOINT_CONCURRENCY = 2
/**
 * Maximum number of concurrent attempts of one daemon. `all` is the total. `brisk` limits attempts that have run for
 * less than WEBHOOK_SLOW_MS. `stuck` limits attempts to endpoints whose last attempt timed out. All other slots are for
 * slow attempts. Endpoints that are known to be slow get at most `slow` of these slots, so that slots remain for other
 * attempts that become slow.
 */
export const WEBHOOK_SLOTS = { brisk: 256, stuck: 64, slow: 600, all: 1_500 } as const
const WEBHOOK_SLOW_MS = 300
/**
 * How long an endpoint remains classified as slow or stuck. This time exceeds the longest wait between two attempts.
 */
const WEBHOOK_PACE_MS = 120_000

/** The settings of an endpoint, as read from the store. */
export type EndpointSettings = {
  tenantId: string
  url: string
  /** Signing secrets, the newest first. */
  secrets: readonly string[]
  /** ISO 8601. Of two versions of a row, the version with the later time is newer. */
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
  /** The number of attempts that have ended. */
  attempts: number
  /**
   * Whether the result of this delivery affects the health of the endpoint. Tests and manual resends do not affect it.
   */
  counts: boolean
  /** Monotonic milliseconds. */
  leaseEndsAt: number
}

/** How an endpoint's last attempt went: in time, slower than WEBHOOK_SLOW_MS, or timed out. */
type Pace = 'brisk' | 'slow' | 'stuck'

/** The deliveries of one active endpoint in this daemon, and their state. */
export type EndpointQueue = {
  endpointId: string
  settings: EndpointSettings | undefined
  ready: Claim[]
  running: number
  /** The number of `running` attempts that have already taken longer than WEBHOOK_SLOW_MS. */
  runningSlow: number
  pace: Pace
  /** The time at which `pace` expires, in monotonic milliseconds. */
  paceUntil: number
  /** Whether the store may have more due deliveries. */
  backlog: boolean
  /** The due time of the next delivery in the store, in monotonic milliseconds. Infinity if there is none. */
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
  /** Returns how many more deliveries the queue can accept. */
  room(queue: EndpointQueue, now: number): number
  /** If a queue has ready deliveries, adds it to the queues that wait for a slot. */
  enqueue(queue: EndpointQueue, now: number): void
  /** Returns the next attempt to start. Returns undefined if nothing is ready or no slot is free. */
  next(now: number): Run | undefined
  ended(run: Run, timedOut: boolean, now: number): void
  /**
   * Returns the time at which a running attempt will count as slow and free its slot. Returns undefined if no queue
   * waits for a slot.
   */
  slotAt(): number | undefined
  /** Removes idle queues. */
  tidy(now: number): void
}

export type EndpointQueuesOptions = {
  /**
   * Called if the settings of a queue are stale. Also called if the queue runs low while the store may have more
   * deliveries.
   */
  needs(queue: EndpointQueue): void
  /**
   * Called if the lease of a claim is about to expire. This daemon then does not send the delivery. The next daemon
   * that claims the delivery sends it.
   */
  lost(claim: Claim): void
  slots?: { brisk: number; stuck: number; slow: number; all: number }
}

/**
 * Chooses the next delivery to send, so that no endpoint or tenant starves another. Each endpoint has a queue with a
 * few concurrent attempts. Tenants take turns, and so do the queues of a tenant. There are three kinds of attempts,
 * each with its own slots:
 * - brisk: the endpoint has no known problem. After WEBHOOK_SLOW_MS, the attempt counts as slow and frees its brisk
 *   slot. If many endpoints stop responding at the same time, other endpoints are delayed only once, by at most
 *   WEBHOOK_SLOW_MS. If no slow slot is free, the attempt keeps its brisk slot.
 * - slow: a brisk attempt that became slow, or an attempt to an endpoint whose last attempt was slow. Slow attempts use
 *   only slow slots, unless they became slow while no slow slot was free.
 * - stuck: an attempt to an endpoint whose last attempt timed out. All stuck attempts share a small part of the slots.
 *
 * An endpoint that is not brisk, or has a slow attempt in flight, gets one attempt at a time. The slow attempts of a
 * tenant are limited. If a tenant has reached the limit, its brisk attempts wait until some of its slow attempts end.
 */
export function createEndpointQueues({ needs, lost, slots = WEBHOOK_SLOTS }: EndpointQueuesOptions): EndpointQueues {
  const queues = new Map<string, EndpointQueue>()
  const waiting = {
    brisk: createTenantRotation<EndpointQueue>(),
    slow: createTenantRotation<EndpointQueue>(),
    stuck: createTenantRotation<EndpointQueue>(),
  }
  /** Brisk attempts, the oldest first. Ended attempts are removed when they reach the front. */
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
  /** A queue is refilled as soon as it is only half full, so that more deliveries arrive before it is empty. */
  const isLow = (queue: EndpointQueue, now: number): boolean => queue.ready.length < capacity(queue, now) / 2

  /** Returns the next delivery whose lease lasts longer than an attempt. */
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

/** Whether the settings of a queue are recent enough to send deliveries. */
const isFresh = ({ settings }: EndpointQueue, now: number): boolean =>
  settings !== undefined && settings.readAt + WEBHOOK_SETTINGS_MS > now
