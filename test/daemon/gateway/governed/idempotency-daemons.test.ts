import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import {
  IDEMPOTENCY_LEASE_MS,
  IDEMPOTENCY_POLL_MS,
  IDEMPOTENCY_RENEW_MS,
} from '../../../../src/daemon/gateway/governed/claims.ts'
import { purgeExpired } from '../../../../src/daemon/gateway/governed/idempotency.ts'
import { systemClock } from '../../../../src/shared/time.ts'
import { deferred } from '../../../deferred.ts'
import { postgresEngine } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { type Gateway, startGateway, textOf } from '../../../harness.ts'
import { chatJson, chatStream, hang, replyJson, replyRaw, replySteps } from '../../../upstream.ts'
import { advanceUntil, watched } from '../../../watched-clock.ts'

const usage = { prompt_tokens: 3, completion_tokens: 2 }
const k1 = { headers: { 'idempotency-key': 'k-1' } }
const ask = (gateway: Gateway, prompt = 'hi') => gateway.chat({ prompt }, k1)

/** An upstream answer that is delayed until it is resolved. */
function heldAnswer(text: string, { streamed = false } = {}) {
  const held = deferred()
  const script = streamed
    ? replySteps([held.promise, chatStream([text], { usage })])
    : replySteps([held.promise, JSON.stringify(chatJson(text, { usage }))], { contentType: 'application/json' })
  return { script, release: () => held.resolve() }
}

const storedKeys = ({ app }: Gateway) =>
  app.db.selectFrom('idempotency_results').select(['request_id', 'lease_until', 'status']).execute()

const outcomes = async (gateway: Gateway) => (await gateway.usage()).map(({ outcome }) => outcome)

describe('an Idempotency-Key on two daemons with one store', () => {
  /** Two daemons; the second waits for the first on `clock`. */
  async function twoDaemons(clock = watched(systemClock)) {
    const one = await startGateway({ engine: postgresEngine })
    const two = await startGateway({ clock, beside: one })
    return { one, two, clock }
  }

  test.each([{ streamed: false }, { streamed: true }])(
    'that one daemon runs: the other waits and returns the same bytes (%o)',
    async ({ streamed }) => {
      const { one, two, clock } = await twoDaemons()
      const answer = heldAnswer('once', { streamed })
      one.upstream.script(answer.script)
      const on = (gateway: Gateway) =>
        streamed ? gateway.stream({ prompt: 'hi' }, k1) : gateway.chat({ prompt: 'hi' }, k1)
      const first = on(one)
      await one.upstream.nextRequest()
      const isWaiting = clock.waits(IDEMPOTENCY_POLL_MS)
      const second = on(two)
      await isWaiting
      answer.release()
      const [told, replayed] = await Promise.all([first, second])
      expect([replayed.status, replayed.text]).toEqual([200, told.text])
      expect(replayed.headers).toMatchObject({
        'idempotent-replayed': 'true',
        'content-type': told.headers['content-type'],
      })
      expect(told.headers['idempotent-replayed']).toBeUndefined()
      expect(one.upstream.requests).toHaveLength(1)
      expect(await outcomes(one)).toEqual(['complete'])
      expect(await storedKeys(one)).toEqual([expect.objectContaining({ lease_until: null, status: 200 })])
    },
  )

  test('is 422 with another body, while the first request still runs on the other daemon', async () => {
    const { one, two, clock } = await twoDaemons()
    const answer = heldAnswer('once')
    one.upstream.script(answer.script)
    const first = ask(one)
    await one.upstream.nextRequest()
    expect((await ask(two, 'ho')).status).toBe(422)
    const isWaiting = clock.waits(IDEMPOTENCY_POLL_MS)
    const second = ask(two)
    await isWaiting
    expect((await ask(two, 'ho')).status).toBe(422)
    answer.release()
    expect((await first).text).toBe((await second).text)
  })

  test('whose first request failed: the other daemon runs it once for all waiting clients', async () => {
    const { one, two, clock } = await twoDaemons()
    const held = deferred()
    one.upstream.script(
      async (exchange) => {
        await held.promise
        await replyJson({}, { status: 500 })(exchange)
      },
      replyJson(chatJson('second try', { usage })),
    )
    const first = ask(one)
    await one.upstream.nextRequest()
    const isWaiting = clock.waits(IDEMPOTENCY_POLL_MS)
    const second = Array.from({ length: 5 }, () => ask(two))
    await isWaiting
    held.resolve()
    expect((await first).status).toBe(502)
    const answers = await Promise.all(second)
    expect(answers.map(({ body }) => body.choices[0]?.message.content)).toEqual(Array(5).fill('second try'))
    expect(one.upstream.requests).toHaveLength(2)
    expect(await outcomes(one)).toEqual(['complete'])
  })

  test('is released with the bill of an answer that broke', async () => {
    const { one, two } = await twoDaemons()
    one.upstream.script(replySteps([chatStream(['a'], { finishReason: null, done: false })], { ending: 'close' }))
    expect((await one.stream({ prompt: 'hi' }, k1)).done).toBe(false)
    expect(await storedKeys(one)).toEqual([])
    one.upstream.script(replyRaw(chatStream(['a', 'b'], { usage })))
    expect(textOf((await two.stream({ prompt: 'hi' }, k1)).frames)).toBe('ab')
  })

  test('of a client that disconnects while another daemon runs it: no waiter remains', async () => {
    const { one, two, clock } = await twoDaemons()
    const answer = heldAnswer('once')
    one.upstream.script(answer.script)
    const first = ask(one)
    await one.upstream.nextRequest()
    const leave = new AbortController()
    const isWaiting = clock.waits(IDEMPOTENCY_POLL_MS)
    const second = two.chat({ prompt: 'hi' }, { ...k1, signal: leave.signal })
    await isWaiting
    leave.abort()
    await expect(second).rejects.toThrow()
    // Closing fails if a timer is left.
    await two.close()
    answer.release()
    expect((await first).status).toBe(200)
  })

  test('is released by a daemon that stops midway', async () => {
    const { one, two } = await twoDaemons()
    one.upstream.script(hang)
    const first = two.chat({ prompt: 'hi' }, k1)
    await one.upstream.nextRequest()
    await Promise.all([two.restart(), first.then(({ status }) => expect(status).toBe(503))])
    expect(await storedKeys(one)).toEqual([])
    expect((await ask(one)).status).toBe(200)
  })
})

describe('the lease of a claim', () => {
  /**
   * The first daemon's clock stands still unless a test advances it, so its lease is never renewed and expires for the
   * others.
   */
  async function stalledAndOther() {
    const clock = watched(createFakeClock())
    const stalled = await startGateway({ engine: postgresEngine, clock: createFakeClock() })
    const other = await startGateway({ clock, beside: stalled })
    return { stalled, other, clock }
  }

  test('that has expired: another daemon takes over, and the first returns its answer without a bill', async () => {
    const { stalled, other, clock } = await stalledAndOther()
    const late = heldAnswer('late')
    stalled.upstream.script(late.script, replyJson(chatJson('taken over', { usage })))
    const first = ask(stalled)
    await stalled.upstream.nextRequest()
    clock.advance(IDEMPOTENCY_LEASE_MS)
    const taken = await ask(other)
    expect([taken.status, taken.headers['idempotent-replayed']]).toEqual([200, undefined])
    late.release()
    const answered = await first
    expect([answered.text, answered.headers['idempotent-replayed']]).toEqual([taken.text, 'true'])
    expect(answered.text).toContain('taken over')
    expect(await outcomes(stalled)).toEqual(['complete'])
    expect(await storedKeys(stalled)).toEqual([expect.objectContaining({ lease_until: null })])
  })

  test.each([
    ['good', { ending: 'end' }],
    ['cut', { ending: 'close' }],
  ] as const)(
    'that has expired: a stream that reaches its %s end too late gets no end and no bill',
    async (kind, ending) => {
      const { stalled, other, clock } = await stalledAndOther()
      const held = deferred()
      const start = chatStream(['late '], { finishReason: null, done: false })
      const rest = kind === 'good' ? [chatStream(['answer'], { usage })] : []
      stalled.upstream.script(
        replySteps([start, held.promise, ...rest], ending),
        replyRaw(chatStream(['taken over'], { usage })),
      )
      const stream = await stalled.openStream({ prompt: 'hi' }, k1)
      const begun = await stream.next()
      clock.advance(IDEMPOTENCY_LEASE_MS)
      const taken = await other.stream({ prompt: 'hi' }, k1)
      expect([textOf(taken.frames), taken.done]).toEqual(['taken over', true])
      held.resolve()
      const told = `${begun.value}${await readOut(stream)}`
      expect(told).toContain('late ')
      expect(told).not.toContain('[DONE]')
      expect(await outcomes(stalled)).toEqual(['complete'])
      const again = await stalled.stream({ prompt: 'hi' }, k1)
      expect([again.text, again.headers['idempotent-replayed']]).toEqual([taken.text, 'true'])
    },
  )

  test('that expires while daemons wait for it: one of them takes over, and the others wait for that one', async () => {
    const { stalled, other, clock } = await stalledAndOther()
    const third = await startGateway({ clock, beside: stalled })
    const late = heldAnswer('late')
    stalled.upstream.script(late.script, replyJson(chatJson('taken over', { usage })))
    const first = ask(stalled)
    await stalled.upstream.nextRequest()
    const answers: Promise<Awaited<ReturnType<typeof ask>>>[] = []
    for (const gateway of [other, third]) {
      const isWaiting = clock.waits(IDEMPOTENCY_POLL_MS)
      answers.push(...Array.from({ length: 5 }, () => ask(gateway)))
      await isWaiting
    }
    clock.advance(IDEMPOTENCY_LEASE_MS)
    await advanceUntil(stalled.upstream.nextRequest(), clock, IDEMPOTENCY_POLL_MS)
    const told = Promise.all(answers)
    await advanceUntil(told, clock, IDEMPOTENCY_POLL_MS)
    late.release()
    expect(new Set([await first, ...(await told)].map(({ text }) => text)).size).toBe(1)
    expect(stalled.upstream.requests).toHaveLength(2)
    expect(await outcomes(stalled)).toEqual(['complete'])
  })

  test('is renewed while the request runs', async () => {
    const clock = watched(createFakeClock())
    const one = await startGateway({ engine: postgresEngine, clock })
    const two = await startGateway({ clock, beside: one })
    const answer = heldAnswer('at last')
    const isRenewing = clock.waits(IDEMPOTENCY_RENEW_MS)
    one.upstream.script(answer.script)
    const first = ask(one)
    await isRenewing
    await one.upstream.nextRequest()
    const isWaiting = clock.waits(IDEMPOTENCY_POLL_MS)
    const second = ask(two)
    await isWaiting
    for (let passedMs = 0; passedMs < 2 * IDEMPOTENCY_LEASE_MS; passedMs += IDEMPOTENCY_RENEW_MS) {
      const isRenewed = clock.waits(IDEMPOTENCY_RENEW_MS)
      const hasLooked = clock.waits(IDEMPOTENCY_POLL_MS)
      clock.advance(IDEMPOTENCY_RENEW_MS)
      await Promise.all([isRenewed, hasLooked])
    }
    answer.release()
    const told = Promise.all([first, second])
    await advanceUntil(told, clock, IDEMPOTENCY_POLL_MS)
    const [answered, replayed] = await told
    expect([replayed.text, replayed.headers['idempotent-replayed']]).toEqual([answered.text, 'true'])
    expect(one.upstream.requests).toHaveLength(1)
  })

  test('survives a short store outage, which is logged, and waiters keep waiting', async () => {
    const clock = watched(createFakeClock())
    const one = await startGateway({ engine: postgresEngine, clock })
    const two = await startGateway({ clock, beside: one })
    const answer = heldAnswer('at last')
    one.upstream.script(answer.script)
    const isRenewing = clock.waits(IDEMPOTENCY_RENEW_MS)
    const first = ask(one)
    await isRenewing
    await one.upstream.nextRequest()
    const isWaiting = clock.waits(IDEMPOTENCY_POLL_MS)
    const second = ask(two)
    await isWaiting
    await sql`alter table idempotency_results rename to away`.execute(one.app.db)
    const hasTried = Promise.all([clock.waits(IDEMPOTENCY_RENEW_MS), clock.waits(IDEMPOTENCY_POLL_MS)])
    clock.advance(IDEMPOTENCY_RENEW_MS)
    await hasTried
    await sql`alter table away rename to idempotency_results`.execute(one.app.db)
    for (const { log } of [one, two]) {
      expect(log).toContainEqual(
        expect.objectContaining({ level: 'warn', message: expect.stringContaining('claims of') }),
      )
    }
    answer.release()
    const told = Promise.all([first, second])
    await advanceUntil(told, clock, IDEMPOTENCY_POLL_MS)
    const [answered, replayed] = await told
    expect([answered.status, replayed.text]).toEqual([200, answered.text])
  })

  test('without further requests is purged after 24 hours, and not before', async () => {
    const { stalled, other, clock } = await stalledAndOther()
    const late = heldAnswer('late')
    stalled.upstream.script(late.script)
    const first = ask(stalled)
    await stalled.upstream.nextRequest()
    clock.advance(24 * 3_600_000 - 1)
    await purgeExpired({ db: other.app.db, clock })
    expect(await storedKeys(other)).toHaveLength(1)
    clock.advance(1)
    await purgeExpired({ db: other.app.db, clock })
    expect(await storedKeys(other)).toEqual([])
    stalled.upstream.script(replyJson(chatJson('again', { usage })))
    late.release()
    // Without its claim it cannot bill, so it claims the key again.
    expect((await first).text).toContain('again')
    expect(await outcomes(stalled)).toEqual(['complete'])
  })
})

/** The rest of the stream, until it ends or breaks. */
async function readOut(stream: AsyncIterator<Buffer>): Promise<string> {
  let text = ''
  try {
    for (let step = await stream.next(); !step.done; step = await stream.next()) text += step.value
  } catch (error) {
    text += `(${error})`
  }
  return text
}
