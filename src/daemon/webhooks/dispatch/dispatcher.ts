// Claims and sends deliveries, and stores their results. This file is long, because all of these steps share one state.
import { randomUUID } from 'node:crypto'
import type { Registry } from 'prom-client'
import { WEBHOOK_BATCH, WEBHOOK_SETTINGS_MS } from '../../../shared/spec-limits.ts'
import { type Clock, isoTime, type Timer } from '../../../shared/time.ts'
import { createCoalescedTask } from '../../platform/concurrency/coalesced-task.ts'
import type { Db } from '../../platform/db/db.ts'
import { engineOf } from '../../platform/db/engine.ts'
import { readLeaseTime } from '../../platform/db/lease-time.ts'
import type { WebhookDeliveryRow } from '../../platform/db/tables.ts'
import type { Log } from '../../platform/log.ts'
import type { MasterKey } from '../../platform/secrets/seal.ts'
import type { TargetGuard } from '../target-guard.ts'
import { createSender } from './attempt.ts'
import { claimDue } from './claims.ts'
import { createDueTimer } from './due-timer.ts'
import {
  type Claim,
  createEndpointQueues,
  type EndpointQueue,
  type EndpointSettings,
  type Run,
} from './endpoint-queues.ts'
import { type DeliverableEvent, envelopeOf, headersOf } from './envelope.ts'
import { fanOut, type PassedOn } from './fan-out.ts'
import { createDeliveryMetrics } from './metrics.ts'
import { createEndpointReader } from './settings.ts'
import { type Outcome, type Settled, settle } from './settle.ts'
import { createSteadyTime, isDue } from './steady-time.ts'
import { type Lease, listWaitingEndpoints, releaseAllLeases, renewLeases } from './store.ts'

/** The lease time of claimed deliveries. Other daemons take over deliveries whose lease has expired. */
const WEBHOOK_LEASE_MS = 30_000
/** How often to poll for deliveries and events that other daemons stored. */
const WEBHOOK_SWEEP_MS = 5_000
/**
 * How long a stopping daemon waits for attempts in flight. After this time, the attempts are aborted. They are repeated
 * later.
 */
const WEBHOOK_DRAIN_MS = 1_000

/** Sends the events of the outbox to the subscribed endpoints. */
export type Dispatcher = {
  /** Call this after committing events. The dispatcher then creates and sends their deliveries. */
  wake(): void
  /** Call this after changing an endpoint or its pending deliveries. */
  endpointChanged(endpointId: string): void
  /** Starts no further attempts, waits briefly for attempts in flight, and releases the claims. */
  close(): Promise<void>
}

export type DispatcherDeps = {
  db: Db
  clock: Clock
  log: Log
  guard: TargetGuard
  masterKey: MasterKey
  metrics: Registry
  /** Certificate authorities that replace the system's list. */
  ca?: string
}

// States of an endpoint's queue in this daemon, and their transitions (states of a delivery: see store.ts):
//   idle -> unfilled       `fill`: the store has due deliveries (`backlog`), or the settings are stale
//   unfilled -> filling    `fillQueues` claims as many deliveries as the queue can accept
//   filling -> ready    claims arrived (`take`), and the queue waits for a slot (`offer`)
//   filling -> idle     no delivery was due; `dueTimer` calls `fill` later
//   filling -> unfilled    the query failed; the next sweep repeats it
//   ready -> running    `pump` starts an attempt when a slot is free
//   running -> idle     the attempt ended; its outcome waits in `outcomes` until `settling` has stored it
//   ready -> idle       the endpoint changed or was disabled, or the daemon stops (`giveBack`)
// Some deliveries of a queue may be running while other deliveries of it are ready.

/**
 * Resumes the deliveries of earlier runs first, and delivers new events afterwards. Code that commits events must call
 * `wake`. A sweep every WEBHOOK_SWEEP_MS finds events and deliveries for which `wake` was not called. Several daemons
 * may each run a dispatcher on one PostgreSQL database.
 */
export async function startDispatcher(deps: DispatcherDeps): Promise<Dispatcher> {
  const { db, clock, log } = deps
  const owner = randomUUID()
  const metrics = createDeliveryMetrics([deps.metrics], deps)
  const sender = createSender(deps)
  const reader = createEndpointReader(deps)
  const now = createSteadyTime(clock)
  const queues = createEndpointQueues({ needs, lost: ({ id }) => void held.delete(id) })
  const dueTimer = createDueTimer({ all: queues.all, due: fill }, clock, now)
  /** Queues to refresh or fill in the next run of `claiming`. */
  const unfilled = new Set<EndpointQueue>()
  /** Queues for which a store query is in flight. */
  let filling: ReadonlySet<EndpointQueue> = new Set()
  /** The claims of this daemon whose results are not stored yet. */
  const held = new Map<string, Claim>()
  const running = new Set<Promise<void>>()
  let outcomes: Outcome[] = []
  let passedOn: PassedOn | undefined
  let stopping = false
  let cutting = false
  let sweepTimer: Timer | undefined
  let slotTimer: Timer | undefined

  const failed = (work: string) => (error: unknown) =>
    log.error({ error, work }, 'webhooks: an operation on the store failed')
  const fanOuts = createCoalescedTask(makeDeliveries, failed('create deliveries'))
  const claiming = createCoalescedTask(fillQueues, failed('claim deliveries'))
  const settling = createCoalescedTask(storeOutcomes, failed('store results'))
  const sweeping = createCoalescedTask(sweep, failed('find due deliveries'))

  async function newLease(): Promise<Lease & { endsAt: number }> {
    const endsAt = clock.monotonic() + WEBHOOK_LEASE_MS
    const leaseNow = await readLeaseTime(db, now())
    return { owner, now: isoTime(leaseNow), until: isoTime(leaseNow + WEBHOOK_LEASE_MS), endsAt }
  }

  async function makeDeliveries(): Promise<void> {
    if (stopping) return
    const lease = await newLease()
    const promised = new Map<EndpointQueue, number>()
    const { made, more, ...stopped } = await fanOut(db, {
      now: now(),
      lease,
      reader,
      passedOn,
      takes(endpointId) {
        const queue = queues.get(endpointId)
        const taken = promised.get(queue) ?? 0
        // Sends deliveries from the store first, because they are older than the new events.
        if (queue.backlog || filling.has(queue) || taken >= queues.room(queue, clock.monotonic())) return false
        promised.set(queue, taken + 1)
        return true
      },
    })
    passedOn = stopped.passedOn
    const touched = new Set<EndpointQueue>()
    for (const { row, event, settings } of made) {
      const queue = queues.get(row.endpoint_id)
      touched.add(queue)
      if (settings) learn(queue, settings)
      if (row.lease_owner === owner) {
        take(queue, toClaim(row, event, row.fence, lease.endsAt))
      } else if (row.state === 'pending') queue.backlog = true
    }
    for (const queue of touched) offer(queue)
    pump()
    if (more) fanOuts.ask()
  }

  async function fillQueues(): Promise<void> {
    if (stopping) return
    const wanted = new Map<string, number>()
    const chosen = new Set<EndpointQueue>()
    for (const queue of unfilled) {
      if (chosen.size >= WEBHOOK_BATCH.endpoints) break
      unfilled.delete(queue)
      chosen.add(queue)
      const room = queue.backlog ? queues.room(queue, clock.monotonic()) : 0
      wanted.set(queue.endpointId, room)
      // Clears the flag before the query: if `fill` is called during the query, this may be for rows that the query
      // does not return.
      if (room > 0) queue.backlog = false
    }
    if (chosen.size === 0) return
    filling = chosen
    const claim = async () => {
      const lease = await newLease()
      return { lease, found: await claimDue(db, wanted, { now: now(), lease, reader }) }
    }
    const { lease, found } = await claim()
      .catch((error) => {
        for (const endpointId of wanted.keys()) queues.get(endpointId).backlog = true
        throw error
      })
      .finally(() => {
        filling = new Set()
      })
    for (const { endpointId, settings, claimed, more, nextDueAt } of found) {
      const queue = queues.get(endpointId)
      if (!settings) {
        giveBack(queue)
        continue
      }
      learn(queue, settings)
      if (more && (wanted.get(endpointId) ?? 0) > 0) queue.backlog = true
      for (const due of claimed) {
        const event = { id: due.event_id, type: due.event_type, created_at: due.event_created_at, data: due.data }
        take(queue, toClaim(due, event, due.fence + 1, lease.endsAt))
      }
      if (nextDueAt !== undefined) dueTimer.set(queue, nextDueAt)
      offer(queue)
    }
    pump()
    if (unfilled.size > 0) claiming.ask()
  }

  async function storeOutcomes(): Promise<void> {
    const batch = outcomes.splice(0, WEBHOOK_BATCH.deliveries)
    if (batch.length === 0) return
    const dropped = ({ claim }: Outcome, error: unknown) =>
      log.error({ error, delivery: claim.id }, 'webhooks: the store rejected a result')
    const settled = await settle(db, batch, { now: now(), dropped }).catch((error) => {
      // The next sweep retries these outcomes. Until then, `renewHeld` renews the leases; otherwise, another daemon
      // would send the deliveries again.
      outcomes = [...batch, ...outcomes]
      throw error
    })
    for (const { claim, attempt } of batch) {
      held.delete(claim.id)
      if (attempt || stopping) continue
      fill(queues.get(claim.endpointId))
    }
    for (const { claim, state, dueAt } of settled.outcomes) {
      if (dueAt !== undefined) dueTimer.set(queues.get(claim.endpointId), dueAt)
      else if (state !== 'pending' && state !== 'cancelled') metrics.ended(state)
    }
    settled.alarms.forEach(raise)
    if (outcomes.length > 0) settling.ask()
  }

  function raise({ endpoint, health }: Settled['alarms'][number]): void {
    const facts = { endpoint: endpoint.id, tenant: endpoint.tenant_id, failuresInARow: health.failures }
    if (health.enabled === 1) {
      log.warn(facts, 'webhooks: an endpoint keeps failing')
      return
    }
    log.warn(facts, 'webhooks: an endpoint was disabled after too many consecutive failures')
    metrics.disabled()
    const queue = queues.find(endpoint.id)
    if (queue) giveBack(queue)
  }

  /**
   * Finds work without a `wake`: events and deliveries of stopped daemons, and results that could not be stored during
   * an outage.
   */
  async function sweep(): Promise<void> {
    if (stopping) return
    settling.ask()
    fanOuts.ask()
    await renewHeld()
    for (const { id, due_at } of await listWaitingEndpoints(db, isoTime(await readLeaseTime(db, now())))) {
      const queue = queues.get(id)
      if (isDue(due_at, now())) fill(queue)
      else dueTimer.set(queue, Date.parse(due_at))
    }
    queues.tidy(clock.monotonic())
  }

  /** Renews leases before they expire, if their claims still wait for a slot or for their result to be stored. */
  async function renewHeld(): Promise<void> {
    const soon = clock.monotonic() + WEBHOOK_LEASE_MS / 2
    const claims = [...held.values()].filter(({ leaseEndsAt }) => leaseEndsAt <= soon)
    if (claims.length === 0) return
    const lease = await newLease()
    await renewLeases(db, claims, lease.until)
    for (const claim of claims) claim.leaseEndsAt = lease.endsAt
  }

  function sweepAgain(): void {
    sweeping.ask()
    sweepTimer = clock.after(WEBHOOK_SWEEP_MS, sweepAgain)
  }

  function needs(queue: EndpointQueue): void {
    unfilled.add(queue)
    if (!stopping) claiming.ask()
  }

  /** Records that the store has due deliveries for this queue. */
  function fill(queue: EndpointQueue): void {
    queue.backlog = true
    needs(queue)
  }

  /** Keeps only the newer row: reads may overlap, and the read that returns the older row may finish last. */
  function learn(queue: EndpointQueue, settings: EndpointSettings): void {
    const known = queue.settings
    const isFresh = known !== undefined && known.readAt + WEBHOOK_SETTINGS_MS > clock.monotonic()
    if (!isFresh || known.updatedAt <= settings.updatedAt) queue.settings = settings
  }

  function take(queue: EndpointQueue, claim: Claim): void {
    held.set(claim.id, claim)
    queue.ready.push(claim)
  }

  /** Adds the queue to the queues that wait for a slot, and requests more deliveries if it runs low. */
  function offer(queue: EndpointQueue): void {
    if (queue.backlog && queues.room(queue, clock.monotonic()) > 0 && queue.ready.length === 0) needs(queue)
    queues.enqueue(queue, clock.monotonic())
  }

  /** Releases all claims for which no attempt has begun. */
  function giveBack(queue: EndpointQueue): void {
    for (const claim of queue.ready.splice(0)) outcomes.push({ claim, attempt: undefined })
    settling.ask()
  }

  function pump(): void {
    if (stopping) return
    for (let run = queues.next(clock.monotonic()); run; run = queues.next(clock.monotonic())) {
      const attempt: Promise<void> = send(run).then(() => void running.delete(attempt))
      running.add(attempt)
    }
    const slotAt = queues.slotAt()
    if (slotAt === undefined || slotTimer) return
    slotTimer = clock.after(Math.max(0, slotAt - clock.monotonic()), () => {
      slotTimer = undefined
      pump()
    })
  }

  async function send(run: Run): Promise<void> {
    const { claim, queue } = run
    const { url, secrets } = queue.settings as EndpointSettings
    const result = await sender.send({ url, headers: headersOf(claim, secrets, clock.now()), body: claim.body })
    queues.ended(run, result.timedOut, clock.monotonic())
    if (cutting) outcomes.push({ claim, attempt: undefined })
    else {
      metrics.attempted(result)
      outcomes.push({ claim, attempt: { ...result, endedAt: now() } })
    }
    settling.ask()
    offer(queue)
    pump()
  }

  if (engineOf(db).name === 'sqlite') await releaseAllLeases(db)
  sweepAgain()

  return {
    wake: () => fanOuts.ask(),
    endpointChanged(endpointId) {
      const queue = queues.get(endpointId)
      giveBack(queue)
      fill(queue)
    },
    async close() {
      stopping = true
      sweepTimer?.cancel()
      slotTimer?.cancel()
      dueTimer.stop()
      await Promise.all([fanOuts.idle(), claiming.idle(), sweeping.idle()])
      await endRunning()
      for (const queue of queues.all()) giveBack(queue)
      await settling.idle()
    },
  }

  async function endRunning(): Promise<void> {
    let timer: Timer | undefined
    const inTime = new Promise<void>((resolve) => {
      timer = clock.after(WEBHOOK_DRAIN_MS, resolve)
    })
    await Promise.race([Promise.all(running), inTime])
    timer?.cancel()
    cutting = true
    await sender.close()
    await Promise.all(running)
  }
}

function toClaim(
  delivery: Pick<WebhookDeliveryRow, 'id' | 'endpoint_id' | 'attempts' | 'is_test' | 'resend_of'>,
  event: DeliverableEvent,
  fence: number,
  leaseEndsAt: number,
): Claim {
  return {
    id: delivery.id,
    endpointId: delivery.endpoint_id,
    eventType: event.type,
    body: envelopeOf(event),
    fence,
    attempts: delivery.attempts,
    counts: delivery.is_test === 0 && delivery.resend_of === null,
    leaseEndsAt,
  }
}
