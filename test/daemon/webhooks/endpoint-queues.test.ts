import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  type Claim,
  createEndpointQueues,
  type EndpointQueue,
  type EndpointQueues,
  type Run,
  WEBHOOK_SLOTS,
} from '../../../src/daemon/webhooks/dispatch/endpoint-queues.ts'
import { afterDelivery, isWarned, waitAfter } from '../../../src/daemon/webhooks/dispatch/health.ts'

const SLOTS = { brisk: 4, stuck: 2, slow: 8, all: 20 }

function openQueues(slots = SLOTS) {
  const unfilled = new Set<EndpointQueue>()
  const lost: Claim[] = []
  const queues = createEndpointQueues({
    needs: (queue) => void unfilled.add(queue),
    lost: (claim) => void lost.push(claim),
    slots,
  })
  return { queues, unfilled, lost }
}

function give(
  queues: EndpointQueues,
  endpointId: string,
  count: number,
  now: number,
  { leaseEndsAt = Number.POSITIVE_INFINITY, tenantId = 't' } = {},
): EndpointQueue {
  const queue = queues.get(endpointId)
  queue.settings = { tenantId, url: 'http://127.0.0.1/', secrets: [], updatedAt: '', readAt: now }
  for (let nth = 0; nth < count; nth++) {
    const id = `${endpointId} ${nth}`
    queue.ready.push({ id, endpointId, eventType: 'e', body: '', fence: 1, attempts: 0, counts: true, leaseEndsAt })
  }
  queues.enqueue(queue, now)
  return queue
}

function startAll(queues: EndpointQueues, now: number): Run[] {
  const runs: Run[] = []
  for (let run = queues.next(now); run; run = queues.next(now)) runs.push(run)
  return runs
}

test('lanes take turns, and each has at most two attempts in flight', () => {
  const { queues } = openQueues({ brisk: 50, stuck: 2, slow: 10, all: 200 })
  for (const id of ['a', 'b', 'c']) give(queues, id, 5, 0)
  expect(startAll(queues, 0).map(({ queue }) => queue.endpointId)).toEqual(['a', 'b', 'c', 'a', 'b', 'c'])
})

test('hanging attempts release their slots after 300 ms; stuck endpoints share two slots', () => {
  const { queues } = openQueues()
  for (const id of ['a', 'b', 'c']) give(queues, id, 9, 0)
  const hanging = startAll(queues, 0)
  expect(hanging).toHaveLength(4)
  give(queues, 'good', 1, 0)
  expect([queues.next(299), queues.slotAt()]).toEqual([undefined, 300])
  // Each hanging endpoint has an attempt that counts as slow by now, and gets no second one.
  expect(startAll(queues, 300).map(({ queue }) => queue.endpointId)).toEqual(['good'])
  for (const run of hanging) queues.ended(run, true, 5_000)
  for (const id of ['a', 'b', 'c']) give(queues, id, 0, 5_000)
  expect(startAll(queues, 5_000).length).toBeLessThanOrEqual(2)
  give(queues, 'other', 2, 5_000)
  expect(startAll(queues, 5_000).map(({ queue }) => queue.endpointId)).toEqual(['other', 'other'])
})

test('an endpoint that responds in time is no longer stuck, and stuck endpoints recover', () => {
  const { queues } = openQueues()
  const queue = give(queues, 'a', 9, 0)
  const [first] = startAll(queues, 0)
  queues.ended(first as Run, true, 5_000)
  expect([queues.room(queue, 5_000), queue.pace]).toEqual([0, 'stuck'])
  // Its third attempt is due 60 s after the second.
  expect([queues.room(queue, 65_000), queues.room(queue, 125_000)]).toEqual([0, expect.any(Number)])
  expect(queues.room(queue, 125_000)).toBeGreaterThan(0)
  queues.tidy(125_000)
  expect(queues.find('a')).toBe(queue)
})

test('settings older than 2 s, or a lease that may expire first, prevent sending', () => {
  const { queues, unfilled, lost } = openQueues()
  const stale = give(queues, 'stale', 1, 0)
  const late = give(queues, 'late', 1, 2_000, { leaseEndsAt: 6_000 })
  expect(startAll(queues, 2_000)).toEqual([])
  expect([unfilled.has(stale), unfilled.has(late)]).toEqual([true, true])
  expect(lost.map(({ endpointId }) => endpointId)).toEqual(['late'])
  expect([stale.ready.length, late.backlog]).toEqual([1, true])
})

test('for any sequence, no limit is exceeded and no ready delivery is lost', () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant('give' as const), queue: fc.nat(9), count: fc.integer({ min: 1, max: 5 }) }),
    fc.record({ kind: fc.constant('end' as const), which: fc.nat(), timedOut: fc.boolean() }),
    fc.record({ kind: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 400 }) }),
  )
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const { queues } = openQueues()
      const runs: Run[] = []
      let now = 0
      const start = () => {
        for (const run of startAll(queues, now)) runs.push(run)
        const perQueue = new Map<EndpointQueue, number>()
        for (const { queue } of runs) perQueue.set(queue, (perQueue.get(queue) ?? 0) + 1)
        expect(Math.max(0, ...perQueue.values())).toBeLessThanOrEqual(2)
        expect(runs.length).toBeLessThanOrEqual(SLOTS.all)
        expect(runs.filter(({ kind }) => kind === 'stuck').length).toBeLessThanOrEqual(SLOTS.stuck)
        expect(runs.filter(({ kind }) => kind === 'brisk').length).toBeLessThanOrEqual(SLOTS.brisk)
        expect(runs.filter(({ kind }) => kind === 'slow').length).toBeLessThanOrEqual(14)
      }
      for (const one of steps) {
        if (one.kind === 'give') give(queues, `e${one.queue}`, one.count, now, { tenantId: `t${one.queue % 3}` })
        else if (one.kind === 'wait') now += one.ms
        else {
          const [run] = runs.length > 0 ? runs.splice(one.which % runs.length, 1) : []
          if (run) queues.ended(run, one.timedOut, now)
        }
        for (const queue of queues.all()) if (queue.settings) queue.settings.readAt = now
        start()
      }
      // All deliveries are sent in the end.
      for (
        let left = 0;
        left < 1_000 && (runs.length > 0 || [...queues.all()].some(({ ready }) => ready.length > 0));
        left++
      ) {
        for (const run of runs.splice(0)) queues.ended(run, false, now)
        for (const queue of queues.all()) if (queue.settings) queue.settings.readAt = now
        start()
      }
      expect([...queues.all()].every(({ ready }) => ready.length === 0)).toBe(true)
    }),
    { numRuns: 200 },
  )
})

test('an endpoint that takes more than 300 ms gets one attempt at a time, until it is faster', () => {
  const { queues } = openQueues()
  give(queues, 'a', 9, 0)
  const [first, second] = startAll(queues, 0)
  queues.ended(first as Run, false, 301)
  expect(startAll(queues, 301)).toEqual([])
  queues.ended(second as Run, false, 400)
  const [third, ...others] = startAll(queues, 400)
  expect([third?.kind, others]).toEqual(['slow', []])
  queues.ended(third as Run, false, 500)
  expect(startAll(queues, 500).map(({ kind }) => kind)).toEqual(['brisk', 'brisk'])
})

test.each(['brisk', 'stuck'] as const)('tenants take turns before the lanes of one tenant do (%s)', (pace) => {
  const { queues } = openQueues({ brisk: 3, stuck: 3, slow: 8, all: 20 })
  for (let nth = 0; nth < 50; nth++) Object.assign(queues.get(`crowd ${nth}`), { pace, paceUntil: 1_000 })
  for (let nth = 0; nth < 50; nth++) give(queues, `crowd ${nth}`, 2, 0, { tenantId: 'crowd' })
  Object.assign(queues.get('alone'), { pace, paceUntil: 1_000 })
  give(queues, 'alone', 1, 0, { tenantId: 'other' })
  expect(startAll(queues, 0).map(({ queue }) => queue.endpointId)).toEqual(['crowd 0', 'alone', 'crowd 1'])
})

/**
 * The effect of bad endpoints on 100 good ones that get an event twice a second for 70 s, as milliseconds of waiting
 * for a slot.
 */
function simulate({ bad, tookMs, timedOut, tenants }: Bad): { p99Ms: number; slowestMs: number; sent: number } {
  const { queues } = openQueues(WEBHOOK_SLOTS)
  const steps = new Map<number, (() => void)[]>()
  const at = (ms: number, run: () => void) => {
    const runs = steps.get(ms)
    if (runs) runs.push(run)
    else steps.set(ms, [run])
  }
  let now = 0
  const dueAt = new Map<Claim, number>()
  const event = (endpointId: string, tenantId: string) => {
    const queue = give(queues, endpointId, 1, now, { tenantId })
    const claim = queue.ready.at(-1)
    if (claim) dueAt.set(claim, now)
  }
  // The bad endpoints always have deliveries.
  for (let nth = 0; nth < bad; nth++)
    at(nth % 5, () => void give(queues, `bad ${nth}`, 4, now, { tenantId: `t${nth % tenants}` }))
  for (let nth = 0; nth < 100; nth++)
    for (let ms = nth * 5; ms < 70_000; ms += 500) at(ms, () => event(`good ${nth}`, `t${nth % tenants}`))
  const waitedMs: number[] = []
  for (; now < 70_000; now++) {
    for (const run of steps.get(now) ?? []) run()
    for (const queue of queues.all()) if (queue.settings) queue.settings.readAt = now
    for (const run of startAll(queues, now)) {
      const due = dueAt.get(run.claim)
      if (due !== undefined) waitedMs.push(now - due)
      at(now + (due === undefined ? tookMs : 5), () => {
        queues.ended(run, due === undefined && timedOut, now)
        if (due === undefined) give(queues, run.claim.endpointId, 1, now, { tenantId: run.tenantId })
      })
    }
    steps.delete(now)
  }
  waitedMs.sort((a, b) => a - b)
  return {
    sent: waitedMs.length,
    p99Ms: waitedMs[Math.floor(waitedMs.length * 0.99)] ?? 0,
    slowestMs: waitedMs.at(-1) ?? 0,
  }
}

type Bad = { bad: number; tookMs: number; timedOut: boolean; tenants: number }

test.each<Bad & { p99Ms: number; slowestMs: number }>([
  { bad: 900, tookMs: 5_000, timedOut: true, tenants: 100, p99Ms: 500, slowestMs: 1_200 },
  { bad: 900, tookMs: 5_000, timedOut: true, tenants: 1, p99Ms: 500, slowestMs: 1_200 },
  { bad: 900, tookMs: 4_900, timedOut: false, tenants: 100, p99Ms: 500, slowestMs: 1_200 },
  { bad: 900, tookMs: 4_900, timedOut: false, tenants: 1, p99Ms: 500, slowestMs: 1_200 },
])(
  '$bad endpoints of $tenants tenants that take $tookMs ms (cut off: $timedOut) hardly delay 100 good ones',
  ({ p99Ms, slowestMs, ...bad }) => {
    const good = simulate(bad)
    expect(good).toMatchObject({ sent: 14_000 })
    expect(good.p99Ms).toBeLessThanOrEqual(p99Ms)
    expect(good.slowestMs).toBeLessThanOrEqual(slowestMs)
  },
)

test('consecutive failures: exactly the 20th disables, one success resets to 0, a disabled endpoint stays unchanged', () => {
  let health = { enabled: 1, failures: 0 }
  const warnedAt: number[] = []
  for (let nth = 1; nth <= 19; nth++) {
    health = afterDelivery(health, 'failed')
    if (isWarned(health)) warnedAt.push(nth)
    expect(health).toEqual({ enabled: 1, failures: nth })
  }
  expect(warnedAt).toEqual([10, 15])
  expect(afterDelivery(health, 'delivered')).toEqual({ enabled: 1, failures: 0 })
  const disabled = afterDelivery(health, 'failed')
  expect(disabled).toEqual({ enabled: 0, failures: 20 })
  expect(afterDelivery(disabled, 'delivered')).toEqual(disabled)
  expect(afterDelivery(disabled, 'failed')).toEqual(disabled)
  expect([0, 1, 2, 3].map(waitAfter)).toEqual([0, 10_000, 60_000, undefined])
})
