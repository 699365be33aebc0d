import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { IDEMPOTENCY_POLL_MS } from '../../../../src/daemon/gateway/governed/claims.ts'
import { systemClock } from '../../../../src/shared/time.ts'
import { billsOf } from '../../../bills.ts'
import { type Deferred, deferred } from '../../../deferred.ts'
import { postgresEngine, sqliteEngine } from '../../../engines.ts'
import { type Answer, type Gateway, sharedGateway } from '../../../harness.ts'
import { chatJson, chatStream, type Exchange, replyJson, replyRaw, replySteps } from '../../../upstream.ts'
import { watched } from '../../../watched-clock.ts'

const usage = { prompt_tokens: 3, completion_tokens: 2 }
const messages = [{ role: 'user', content: 'hi' }]

const SURFACES = [
  ['chat', '/api/external/chat/completions', { prompt: 'hi', index: 'Zero-Knowledge' }],
  ['streamed chat', '/api/external/chat/completions', { prompt: 'hi', index: 'Zero-Knowledge', stream: true }],
  ["chat in OpenAI's words", '/v1/chat/completions', { messages }],
  ["streamed chat in OpenAI's words", '/v1/chat/completions', { messages, stream: true }],
  ["chat in Anthropic's words", '/v1/messages', { messages, max_tokens: 10 }],
  ["streamed chat in Anthropic's words", '/v1/messages', { messages, max_tokens: 10, stream: true }],
  ['embeddings', '/v1/embeddings', { input: 'hi' }],
] as const

const embeddings = {
  object: 'list',
  data: [{ object: 'embedding', index: 0, embedding: [0.5, -0.25] }],
  usage: { prompt_tokens: 2, total_tokens: 2 },
}

/** A good answer to any request. */
function answerWell(exchange: Exchange): void | Promise<void> {
  const { path, body } = exchange.request
  if (path.endsWith('/embeddings')) return replyJson(embeddings)(exchange)
  const isStreamed = (body as { stream?: boolean }).stream === true
  const reply = isStreamed ? replyRaw(chatStream(['a', 'b'], { usage })) : replyJson(chatJson('ab', { usage }))
  return reply(exchange)
}

const DAEMONS = [
  ['one daemon on SQLite', sqliteEngine, false],
  ['one daemon on PostgreSQL', postgresEngine, false],
  ['two daemons on PostgreSQL', postgresEngine, true],
] as const

describe.each(DAEMONS)('with one Idempotency-Key, on %s', (_, engine, isPair) => {
  const clock = watched(systemClock)
  const one = sharedGateway({ engine, clock })
  const two = isPair ? sharedGateway(() => ({ clock, beside: one.current })) : one

  test.each(SURFACES)(
    '100 identical concurrent requests are one call, one bill and 100 equal answers: %s',
    async (name, path, body) => {
      const { upstream } = one.current
      const held = deferred()
      const calls = upstream.requests.length
      const bills = (await one.current.usage()).length
      upstream.script((exchange) => held.promise.then(() => answerWell(exchange)))
      const isWaiting = clock.waits(IDEMPOTENCY_POLL_MS)
      const answers = Promise.all(
        Array.from({ length: 100 }, (_, at) => {
          const gateway = at % 2 === 0 ? one.current : two.current
          return gateway.call(
            'POST',
            path,
            { model: 'test/any', ...body },
            { headers: { 'idempotency-key': name.replaceAll(' ', '-') } },
          )
        }),
      )
      await upstream.nextRequest()
      if (isPair) await isWaiting
      held.resolve()
      const told = await answers
      const [first] = told
      expect(
        new Set(told.map(({ status, text, headers }) => `${status} ${headers['content-type']} ${text}`)).size,
      ).toBe(1)
      expect(first?.status).toBe(200)
      expect(told.filter(({ headers }) => headers['idempotent-replayed'] === undefined)).toHaveLength(1)
      expect(new Set(told.map(({ headers }) => headers['x-request-id'])).size).toBe(100)
      expect(upstream.requests).toHaveLength(calls + 1)
      expect(await one.current.usage()).toHaveLength(bills + 1)
    },
  )

  test('any order of requests, disconnects and other bodies gives one bill and one answer, also for waiting clients', async () => {
    let run = 0
    await fc.assert(
      fc.asyncProperty(fc.boolean(), fc.array(step, { minLength: 2, maxLength: 14 }), (isStreamed, steps) =>
        play([one.current, two.current], `run-${run++}`, isStreamed, steps),
      ),
      { numRuns: isPair ? 12 : 25 },
    )
  })
})

type Ending = 'good' | 'failed' | 'cut'
type Step =
  | { type: 'ask'; daemon: 0 | 1; prompt: string }
  | { type: 'leave'; ask: number }
  | { type: 'upstream'; ending: Ending }
  | { type: 'others' }

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      type: fc.constant('ask' as const),
      daemon: fc.constantFrom(0 as const, 1 as const),
      prompt: fc.oneof({ weight: 4, arbitrary: fc.constant('hi') }, { weight: 1, arbitrary: fc.constant('ho') }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('leave' as const), ask: fc.nat(13) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant('upstream' as const),
      ending: fc.constantFrom<Ending[]>('good', 'failed', 'cut'),
    }),
  },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('others' as const) }) },
)

/** Plays the steps and waits for the end. No client may then have been billed twice or have received another answer. */
async function play(gateways: readonly [Gateway, Gateway], name: string, stream: boolean, steps: readonly Step[]) {
  const [{ upstream, app }] = gateways
  const body = (prompt: string) => ({ model: `test/${name}`, prompt, stream })
  const options = { headers: { 'idempotency-key': name } }
  const arrived: Deferred<Ending>[] = []
  let isOver = false
  upstream.fallback(async (exchange) => {
    const ending = deferred<Ending>()
    arrived.push(ending)
    if (isOver) ending.resolve('good')
    await ENDINGS[await ending.promise](exchange)
  })

  const asks: { prompt: string; leave: AbortController; answer: Promise<Answer | undefined> }[] = []
  for (const step of steps) {
    if (step.type === 'ask') {
      const leave = new AbortController()
      const { prompt, daemon } = step
      const answer = gateways[daemon].chat(body(prompt), { ...options, signal: leave.signal }).catch((error) => {
        if (!leave.signal.aborted) throw error
        return undefined
      })
      asks.push({ prompt, leave, answer })
    } else if (step.type === 'leave') asks[step.ask]?.leave.abort()
    else if (step.type === 'upstream') arrived.shift()?.resolve(step.ending)
    // Unrelated requests give the earlier ones time to proceed.
    else for (const gateway of gateways) await gateway.call('GET', '/api/external/whoami')
  }
  isOver = true
  for (const ending of arrived) ending.resolve('good')

  const told = await Promise.all(asks.map(async ({ prompt, answer }) => ({ prompt, answer: await answer })))
  const isWhole = (answer: Answer) => answer.status === 200 && (!stream || answer.text.endsWith('[DONE]\n\n'))
  const good = told.filter(({ answer }) => answer && isWhole(answer))
  for (const { answer } of told) expect([200, 422, 502, undefined]).toContain(answer?.status)
  expect(new Set(good.map(({ prompt, answer }) => `${prompt} ${answer?.text}`)).size).toBeLessThanOrEqual(1)

  // Whatever clients received, the key now has one answer and keeps it.
  const [winner = 'hi'] = good.map(({ prompt }) => prompt)
  // The call of a client that left continues, so the next client may still learn that it failed; after that no call
  // remains.
  const first = await gateways[1].chat(body(winner), options)
  const isLate = first.status === 502 || (first.status === 200 && !isWhole(first))
  const last = isLate ? await gateways[1].chat(body(winner), options) : first
  const kept = last.status === 422 ? await gateways[1].chat(body(winner === 'hi' ? 'ho' : 'hi'), options) : last
  expect(kept.status).toBe(200)
  if (good.length > 0) expect([kept, good[0]?.answer?.text]).toEqual([last, kept.text])
  const again = await gateways[0].chat(body(last === kept ? winner : winner === 'hi' ? 'ho' : 'hi'), options)
  expect([again.text, again.headers['idempotent-replayed']]).toEqual([kept.text, 'true'])
  const bills = (await billsOf(app.db)).filter((bill) => bill.served_model === `test/${name}`)
  expect(bills.filter(({ outcome }) => outcome === 'complete')).toHaveLength(1)
  const stored = await app.db
    .selectFrom('idempotency_results')
    .selectAll()
    .where('idempotency_key', '=', name)
    .execute()
  expect(stored).toEqual([expect.objectContaining({ lease_until: null, body: kept.text })])
}

const ENDINGS: Record<Ending, (exchange: Exchange) => void | Promise<void>> = {
  good: answerWell,
  failed: replyJson({}, { status: 500 }),
  cut: replySteps([chatStream(['a'], { finishReason: null, done: false })], { ending: 'close' }),
}
