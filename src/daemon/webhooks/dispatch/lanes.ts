import {
  WEBHOOK_ATTEMPT_MS,
  WEBHOOK_CLAIM_AHEAD,
  WEBHOOK_LANE,
  WEBHOOK_PACE_MS,
  WEBHOOK_SETTINGS_MS,
  WEBHOOK_SLOTS,
  WEBHOOK_SLOW_MS,
} from '../../../shared/spec-limits.ts'
import { createTurns } from './turns.ts'

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
export type Lane = {
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
export type Run = { lane: Lane; claim: Claim; tenantId: string; startedAt: number; kind: Pace; ended: boolean }

export type Lanes = {
  get(endpointId: string): Lane
  find(endpointId: string): Lane | undefined
  all(): Iterable<Lane>
  /** How many deliveries more a lane takes. */
  room(lane: Lane, now: number): number
  /** Puts a lane with something ready in the row of those that wait for a slot. */
  queue(lane: Lane, now: number): void
  /** The next attempt to start, undefined when nothing is ready or no slot is free. */
  next(now: number): Run | undefined
  ended(run: Run, timedOut: boolean, now: number): void
  /** When an attempt that takes a slot now will count as slow; undefined when no lane waits for that. */
  slotAt(): number | undefined
  /** Forgets lanes with nothing to do. */
  tidy(now: number): void
}

export type LanesOptions = {
  /** Called for a lane whose settings are too old, or that runs out of deliveries while the store may hold more. */
  needs(lane: Lane): void
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
export function createLanes({ needs, lost, slots = WEBHOOK_SLOTS }: LanesOptions): Lanes {
  const lanes = new Map<string, Lane>()
  const waiting = { brisk: createTurns<Lane>(), slow: createTurns<Lane>(), stuck: createTurns<Lane>() }
  /** Brisk attempts, the oldest first; ended ones are left out when they come to the front. */
  const brisk: Run[] = []
  const counts = { brisk: 0, slow: 0, stuck: 0 }
  const slowOfTenant = new Map<string, number>()
  const slowAtMost = slots.all - slots.brisk - slots.stuck
  const mayGo = (tenantId: string): boolean => (slowOfTenant.get(tenantId) ?? 0) < slowAtMost - slots.brisk / 2

  const paceOf = (lane: Lane, now: number): Pace => (lane.paceUntil > now ? lane.pace : 'brisk')
  const width = (lane: Lane, now: number): number =>
    paceOf(lane, now) === 'brisk' && lane.runningSlow === 0 ? WEBHOOK_LANE : 1

  function countSlow({ lane, tenantId }: Run, change: 1 | -1): void {
    counts.slow += change
    lane.runningSlow += change
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
    for (let lane = waiting[kind].take(mayGo); lane; lane = waiting[kind].take(mayGo)) {
      lane.queued = false
      if (lane.running >= width(lane, now)) continue
      if (kind === 'brisk' && paceOf(lane, now) !== 'brisk') {
        queue(lane, now)
        continue
      }
      const claim = isFresh(lane, now) ? takeReady(lane, now) : undefined
      if (!claim || (lane.backlog && isLow(lane, now))) needs(lane)
      if (!claim || !lane.settings) continue
      const run: Run = { lane, claim, tenantId: lane.settings.tenantId, startedAt: now, kind, ended: false }
      lane.running++
      if (kind === 'slow') countSlow(run, 1)
      else counts[kind]++
      if (kind === 'brisk') brisk.push(run)
      queue(lane, now)
      return run
    }
    return undefined
  }

  const capacity = (lane: Lane, now: number): number =>
    paceOf(lane, now) === 'brisk' ? WEBHOOK_CLAIM_AHEAD : WEBHOOK_LANE
  /** Asked for when half is gone, so that more is there before the rest is. */
  const isLow = (lane: Lane, now: number): boolean => lane.ready.length < capacity(lane, now) / 2

  /** The next delivery whose lease outlasts an attempt. */
  function takeReady(lane: Lane, now: number): Claim | undefined {
    for (let claim = lane.ready.shift(); claim; claim = lane.ready.shift()) {
      if (claim.leaseEndsAt > now + WEBHOOK_ATTEMPT_MS) return claim
      lane.backlog = true
      lost(claim)
    }
    return undefined
  }

  function queue(lane: Lane, now: number): void {
    if (lane.queued || !lane.settings || lane.ready.length === 0 || lane.running >= width(lane, now)) return
    lane.queued = true
    waiting[paceOf(lane, now)].add(lane.settings.tenantId, lane)
  }

  return {
    get(endpointId) {
      let lane = lanes.get(endpointId)
      if (!lane) {
        lane = {
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
        lanes.set(endpointId, lane)
      }
      return lane
    },
    find: (endpointId) => lanes.get(endpointId),
    all: () => lanes.values(),
    room: (lane, now) => Math.max(0, capacity(lane, now) - lane.ready.length - lane.running),
    queue,
    next(now) {
      age(now)
      return (
        (counts.brisk < slots.brisk ? start('brisk', now) : undefined) ??
        (counts.stuck < slots.stuck ? start('stuck', now) : undefined) ??
        (counts.slow < slots.slow ? start('slow', now) : undefined)
      )
    },
    ended(run, timedOut, now) {
      const { lane, kind } = run
      run.ended = true
      lane.running--
      if (kind === 'slow') countSlow(run, -1)
      else counts[kind]--
      lane.pace = timedOut ? 'stuck' : run.startedAt + WEBHOOK_SLOW_MS < now ? 'slow' : 'brisk'
      lane.paceUntil = now + WEBHOOK_PACE_MS
      queue(lane, now)
    },
    slotAt() {
      if (waiting.brisk.empty || counts.brisk < slots.brisk || counts.slow >= slowAtMost) return undefined
      const oldest = brisk.find(({ ended }) => !ended)
      return oldest && oldest.startedAt + WEBHOOK_SLOW_MS
    },
    tidy(now) {
      for (const lane of lanes.values()) {
        const idle = lane.ready.length === 0 && lane.running === 0 && !lane.backlog && !lane.queued
        if (idle && lane.dueAt === Number.POSITIVE_INFINITY && paceOf(lane, now) === 'brisk')
          lanes.delete(lane.endpointId)
      }
    },
  }
}

/** Whether what a lane has ready may be sent as it was read. */
const isFresh = ({ settings }: Lane, now: number): boolean =>
  settings !== undefined && settings.readAt + WEBHOOK_SETTINGS_MS > now
