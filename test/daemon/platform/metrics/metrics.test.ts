import { describe, expect, test } from 'vitest'
import { describeEachEngine } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { type Gateway, sharedGateway, startGateway } from '../../../harness.ts'
import { chatJson, replyJson } from '../../../upstream.ts'
import { promtool, readExposition, valueIn } from './exposition.ts'
import { gatewayAfterWork, SECRET_TEXT, scrape } from './work.ts'

const CHAT = 'POST /api/external/chat/completions'

describe('a scrape after known work', () => {
  test('counts every request by surface, route, model, status and outcome', async () => {
    const { gateway } = await gatewayAfterWork()
    const { families } = await scrape(gateway)
    const counted = (families.get('aigw_requests_total')?.samples ?? [])
      .filter(({ labels }) => labels.route === CHAT)
      .map(({ labels: { surface, model, status, outcome }, value }) => [surface, model, status, outcome, value])
      .sort()
    expect(counted).toEqual([
      ['native', 'none', '400', 'invalid', 1],
      ['native', 'none', '403', 'blocked', 1],
      ['native', 'none', '429', 'limited', 1],
      ['native', 'test/*', '502', 'failed', 1],
      ['native', 'test/any', '200', 'cancelled', 1],
      ['native', 'test/any', '200', 'success', 3],
    ])
    expect(valueIn(families, 'aigw_request_duration_seconds_count', { route: CHAT })).toBe(8)
    expect(valueIn(families, 'aigw_first_token_seconds_count', { model: 'test/any' })).toBe(4)
    expect(valueIn(families, 'aigw_model_attempts_total', { status: 'served' })).toBe(4)
    expect(valueIn(families, 'aigw_model_attempts_total', { status: 'failed', reason: 'server_error' })).toBe(2)
    expect(valueIn(families, 'aigw_failovers_total', { model: 'test/*', reason: 'server_error' })).toBe(1)
    expect(valueIn(families, 'aigw_limits_reached_total', { limit: 'minute', scope: 'key' })).toBe(1)
    expect(
      valueIn(families, 'aigw_guard_findings_total', {
        guard: 'dlp',
        direction: 'input',
        action: 'block',
        enforced: 'true',
      }),
    ).toBe(1)
  })

  test('tokens and cost equal the bills', async () => {
    const { gateway } = await gatewayAfterWork()
    const { families } = await scrape(gateway)
    const bills = await gateway.usage()
    const sum = (of: (bill: (typeof bills)[number]) => number) => bills.reduce((total, bill) => total + of(bill), 0)
    expect(valueIn(families, 'aigw_tokens_total', { kind: 'input' })).toBe(sum((bill) => Number(bill.input_tokens)))
    expect(valueIn(families, 'aigw_tokens_total', { kind: 'output' })).toBe(sum((bill) => Number(bill.output_tokens)))
    expect(valueIn(families, 'aigw_cost_dollars_total')).toBeCloseTo(sum((bill) => Number(bill.cost_nanos)) / 1e9, 9)
  })

  test('contains no tenant, user, key, address or text of a caller', async () => {
    const { gateway, tenantId, userId, keyId, key } = await gatewayAfterWork()
    const { text } = await scrape(gateway)
    const { host } = new URL(gateway.upstream.url)
    for (const part of [
      tenantId,
      userId,
      keyId,
      key,
      gateway.adminKey,
      host,
      '127.0.0.1',
      'nobody',
      ...SECRET_TEXT.split(' '),
    ])
      expect([part, text.includes(part)]).toEqual([part, false])
  })

  test('is valid Prometheus text', async () => {
    const { gateway } = await gatewayAfterWork()
    const { text } = await scrape(gateway)
    expect(readExposition(text).size).toBeGreaterThan(30)
    promtool(['check', 'metrics'], ofGateway(text))
  })
})

/** Without the metrics of the library, whose names promtool criticises. */
const ofGateway = (text: string): string =>
  `${text
    .split('\n\n')
    .filter((family) => family.startsWith('# HELP aigw_'))
    .join('\n\n')
    .trimEnd()}\n`

test('the operator may ask for a label with the tenant', async () => {
  const { gateway, tenantId } = await gatewayAfterWork({ metrics: { tenantLabel: true } })
  const { families } = await scrape(gateway)
  expect(valueIn(families, 'aigw_requests_total', { tenant: tenantId, route: CHAT, outcome: 'success' })).toBe(3)
  expect(valueIn(families, 'aigw_tokens_total', { tenant: tenantId, kind: 'input' })).toBeGreaterThan(0)
})

describe('the number of series is bounded', () => {
  const gateway = sharedGateway()
  const models = async () => {
    const { families } = await scrape(gateway.current)
    return new Set(families.get('aigw_requests_total')?.samples.map(({ labels }) => labels.model))
  }

  test('unknown routes, models and providers share labels', async () => {
    for (let at = 0; at < 20; at++) {
      await gateway.current.call('GET', `/unknown/${at}`)
      await gateway.current.chat({ model: `unknown-${at}/x`, prompt: 'hi' })
    }
    const { families } = await scrape(gateway.current)
    expect(valueIn(families, 'aigw_requests_total', { route: 'other', status: '404' })).toBe(20)
    expect(valueIn(families, 'aigw_requests_total', { model: 'none', status: '400' })).toBe(20)
  })

  test('models that the provider does not have share a label, and so do models after the hundredth that answers', async () => {
    gateway.current.upstream.fallback(replyJson({ error: { message: 'no such model' } }, { status: 404 }))
    for (let at = 0; at < 20; at++) await gateway.current.chat({ model: `test/missing-${at}`, prompt: 'hi' })
    expect([...(await models())].sort()).toEqual(['none', 'test/*'])
    gateway.current.upstream.fallback(replyJson(chatJson('Hello.')))
    for (let at = 0; at < 110; at++) await gateway.current.chat({ model: `test/served-${at}`, prompt: 'hi' })
    expect((await models()).size).toBe(102)
  })
})

describeEachEngine('a scrape', (engine) => {
  test('shows the store, the ledger, queues and sockets', async () => {
    const gateway = await startGateway({ engine })
    await gateway.chat({ prompt: 'hi' })
    const { families } = await scrape(gateway)
    expect(valueIn(families, 'aigw_store_bytes')).toBeGreaterThan(100_000)
    expect(valueIn(families, 'aigw_ledger_commit_seconds_count')).toBeGreaterThan(0)
    expect(valueIn(families, 'aigw_ledger_batch_records_sum')).toBeGreaterThan(0)
    expect(valueIn(families, 'aigw_ledger_commit_failures_total')).toBe(0)
    expect(valueIn(families, 'aigw_client_sockets')).toBeGreaterThan(0)
    expect(valueIn(families, 'aigw_provider_sockets', { provider: 'test', state: 'free' })).toBe(1)
    expect(valueIn(families, 'aigw_requests_running')).toBe(1)
    expect(valueIn(families, 'aigw_queue_depth', { gate: 'key' })).toBe(0)
    expect(valueIn(families, 'process_resident_memory_bytes')).toBeGreaterThan(0)
    expect(families.get('nodejs_eventloop_lag_p99_seconds')?.samples).toHaveLength(1)
  })

  test('counts a limit that is reached', async () => {
    const { gateway } = await gatewayAfterWork({ engine })
    const { families } = await scrape(gateway)
    expect(valueIn(families, 'aigw_limits_reached_total', { limit: 'minute', scope: 'key' })).toBe(1)
  })
})

test('shows how many requests wait at a gate, how long they waited and how many were rejected', async () => {
  const clock = createFakeClock()
  const concurrency = { perProvider: 1, waitingPerKey: 1 }
  const gateway = await startGateway({ clock, concurrency })
  const answer = heldUpstream(gateway)
  const first = gateway.chat({ prompt: 'hi' })
  await gateway.upstream.nextRequest()
  const second = gateway.chat({ prompt: 'hi' })
  while (valueIn((await scrape(gateway)).families, 'aigw_queue_depth', { gate: 'provider' }) === 0);
  expect((await gateway.chat({ prompt: 'hi' })).status).toBe(503)
  clock.advance(400)
  answer()
  await Promise.all([first, second])
  const { families } = await scrape(gateway)
  expect(valueIn(families, 'aigw_queue_depth', { gate: 'provider' })).toBe(0)
  expect(valueIn(families, 'aigw_queue_rejections_total', { gate: 'provider' })).toBe(1)
  expect(valueIn(families, 'aigw_queue_wait_seconds_count', { gate: 'provider' })).toBe(1)
  expect(valueIn(families, 'aigw_queue_wait_seconds_sum', { gate: 'provider' })).toBeCloseTo(0.4, 6)
})

/** The first request waits for the returned function. */
function heldUpstream({ upstream }: Gateway): () => void {
  let release = () => {}
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  upstream.script(async (exchange) => {
    await held
    await replyJson(chatJson('Hello.'))(exchange)
  })
  return () => release()
}

test('shows open circuits of a model, and that it is probed', async () => {
  const clock = createFakeClock()
  const gateway = await startGateway({ clock })
  gateway.upstream.fallback(replyJson({ error: { message: 'down' } }, { status: 500 }))
  for (let failure = 0; failure < 5; failure++) await gateway.chat({ prompt: 'hi' })
  const circuits = async (state: string) =>
    valueIn((await scrape(gateway)).families, 'aigw_circuits_open', { model: 'test/*', state })
  expect([await circuits('open'), await circuits('half_open')]).toEqual([1, 0])
  clock.advance(10_000)
  expect([await circuits('open'), await circuits('half_open')]).toEqual([0, 1])
  gateway.upstream.fallback(replyJson(chatJson('Hello.')))
  await gateway.chat({ prompt: 'hi' })
  expect([await circuits('open'), await circuits('half_open')]).toEqual([0, 0])
})

describe('log.requests', () => {
  const linesOf = ({ log }: Gateway) => log.filter(({ message }) => message === 'request')

  test('logs one line per request, with its facts and without content', async () => {
    const { gateway, tenantId, keyId, userId } = await gatewayAfterWork({ logRequests: true })
    const chats = linesOf(gateway).filter(({ facts }) => facts.route === CHAT)
    expect(chats.map(({ facts: { status, outcome } }) => [status, outcome])).toEqual([
      [200, 'success'],
      [200, 'success'],
      [200, 'success'],
      [502, 'failed'],
      [403, 'blocked'],
      [200, 'cancelled'],
      [400, 'invalid'],
      [429, 'limited'],
    ])
    expect(chats[2]?.facts).toMatchObject({
      surface: 'native',
      tenant_id: tenantId,
      key_id: keyId,
      user_id: userId,
      operation: 'chat.completion',
      streamed: false,
      model: 'test/any',
      ending: 'complete',
      input_tokens: 11,
      output_tokens: 5,
      attempts: [
        { model: 'test/*', status: 'failed', reason: 'server_error' },
        { model: 'test/any', status: 'served' },
      ],
    })
    const text = JSON.stringify(linesOf(gateway))
    for (const word of [...SECRET_TEXT.split(' '), 'Hello', 'ghp_', 'nobody'])
      expect([word, text.includes(word)]).toEqual([word, false])
  })

  test('is off by default', async () => {
    const { gateway } = await gatewayAfterWork()
    expect(linesOf(gateway)).toEqual([])
  })
})
