// What providers said about failed attempts: who may read it, and who may not.
import { beforeAll, describe, expect, test } from 'vitest'
import { purgeProviderMessages } from '../../../../src/daemon/records/logs/provider-messages.ts'
import { parseKeySet } from '../../../../src/shared/evidence/keys.ts'
import { verifyReceipt } from '../../../../src/shared/evidence/receipt.ts'
import { DAY_MS } from '../../../../src/shared/time.ts'
import { COUNT_TOKENS_PATH } from '../../../../src/shared/wire/messages.ts'
import { OPENAI_CHAT_PATH, OPENAI_EMBEDDINGS_PATH } from '../../../../src/shared/wire/openai.ts'
import { describeEachEngine } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { type Gateway, sharedGateway, startGateway } from '../../../harness.ts'
import { addTestTenant, type Call, type TestTenant } from '../../../tenant-admin.ts'
import { chatStream, replyJson, replySteps } from '../../../upstream.ts'

const CHAT = '/api/external/chat/completions'
const SAID = 'The deployment lighthouse-7 is being moved, ask its keeper.'
const failing = (message: string, { status = 401, headers = {} } = {}) =>
  replyJson({ error: { message, code: 'moved' } }, { status, headers })

/** The attempts of a request as an administrator sees them. */
async function attemptsOf(call: Call, requestId: unknown) {
  const { status, body, text } = await call('GET', `/api/external/activity-logs?requestId=${requestId}`)
  expect(status, text).toBe(200)
  const [entry] = body.data.logs.filter(({ metadata }: { metadata: { attempts?: object } }) => metadata.attempts)
  return entry.metadata.attempts
}
const messagesOf = async (call: Call, requestId: unknown) =>
  (await attemptsOf(call, requestId)).map(({ providerMessage }: { providerMessage?: string }) => providerMessage)

describeEachEngine('the message of a provider', (engine) => {
  const shared = sharedGateway({ engine, evidence: { receipts: true } })
  let tenant: TestTenant
  let user: Call
  let requestId: string
  let bundleId: string
  let answers: string[]

  beforeAll(async () => {
    const gateway = shared.current
    tenant = await addTestTenant(gateway)
    user = await tenant.callFor(await tenant.addUser())
    gateway.upstream.script(failing(SAID), failing('Also down.', { status: 503 }))
    const failed = await user('POST', CHAT, { prompt: 'hi', index: 'Zero-Knowledge', models: ['test/a', 'test/b'] })
    requestId = String(failed.headers['x-request-id'])
    bundleId = failed.body.bundle_id
    answers = [failed.text, JSON.stringify(failed.headers)]
  })

  test('is shown to an administrator of the tenant who reads this request', async () => {
    const theirs = { status: 'failed', latencyMs: expect.any(Number) }
    const expected = [
      { ...theirs, model: 'test/a', reason: 'auth_failed', providerStatus: 401, providerMessage: SAID },
      { ...theirs, model: 'test/b', reason: 'server_error', providerStatus: 503, providerMessage: 'Also down.' },
    ]
    expect(await attemptsOf(tenant.call, requestId)).toEqual(expected)
    const { body } = await tenant.call('GET', `/api/external/activity-logs?bundleId=${bundleId}`)
    expect(body.data.logs).toMatchObject([{ id: bundleId, metadata: { attempts: expected } }])
  })

  test('is shown to no other reader, and in no other way', async () => {
    const other = await addTestTenant(shared.current)
    const colleague = await tenant.callAs({ name: 'auditor', permissions: '{"users":["admin"]}' } as never)
    const texts = [...answers]
    const read = async (call: Call, path: string, expected = 200) => {
      const { status, text } = await call('GET', path)
      expect([path, status]).toEqual([path, expected])
      texts.push(text)
      return text
    }
    const oneRequest = `/api/external/activity-logs?requestId=${requestId}`
    // The user whose request it was, a colleague with other rights, and an administrator of another tenant.
    for (const call of [user, colleague]) await read(call, oneRequest, 403)
    expect(JSON.parse(await read(other.call, oneRequest)).data.logs).toEqual([])
    expect(JSON.parse(await read(other.call, `/api/external/activity-logs?bundleId=${bundleId}`)).data.logs).toEqual([])
    await read(other.call, `/api/external/receipts/${bundleId}`, 404)

    // Lists, also for administrators.
    expect(await read(tenant.call, '/api/external/activity-logs')).toContain(bundleId)
    await read(tenant.call, '/api/external/activity-logs?search=lighthouse')
    await read(tenant.call, `/api/external/audit-logs?requestId=${requestId}`)

    // Receipts and evidence, for both. The receipt remains verifiable.
    const keys = parseKeySet((await user('GET', '/.well-known/aigw-keys.json')).body)
    for (const call of [user, tenant.call]) {
      const { receipt } = JSON.parse(await read(call, `/api/external/receipts/${bundleId}`))
      expect(verifyReceipt(receipt, keys)).toEqual({ ok: true })
      expect(receipt.attempts).toMatchObject([{ reason: 'auth_failed' }, { reason: 'server_error' }])
    }
    await read(user, `/api/public/verify/${bundleId}`)
    await read(user, `/verify/${bundleId}`)
    const evidence = '/api/external/transparency'
    const { chains } = JSON.parse(await read(tenant.call, `${evidence}/chains`))
    for (const { chain } of chains) await read(tenant.call, `${evidence}/chains/${chain}/entries`)
    for (const path of ['entries', 'search?q=lighthouse', 'compliance-report', 'compliance-report?format=csv']) {
      await read(tenant.call, `${evidence}/${path}`)
    }

    // Events, which webhooks and the feed deliver, and every table except its own.
    const { db } = shared.current.app
    texts.push(JSON.stringify(await db.selectFrom('outbox_events').selectAll().execute()))
    texts.push(JSON.stringify(await db.selectFrom('evidence_entries').selectAll().execute()))
    texts.push(JSON.stringify(await db.selectFrom('log_blocks').selectAll().execute()))
    expect(texts.filter((text) => /lighthouse-7|being moved|Also down/.test(text))).toEqual([])
    expect(texts.join()).toContain('api:model_failover')
  })

  test('is in the log only at level debug', async () => {
    const lines = shared.current.log.filter(({ facts }) => JSON.stringify(facts).includes('lighthouse-7'))
    expect(lines).toEqual([
      {
        level: 'debug',
        message: 'message of the provider',
        facts: expect.objectContaining({ request_id: requestId, model: 'test/a', provider_message: SAID }),
      },
    ])
  })
})

describe("the provider's request id", () => {
  const shared = sharedGateway({ evidence: { receipts: true } })

  test('of an answer is in the log of its request, in its receipt and in the line of its attempt', async () => {
    const gateway = shared.current
    const headers = { 'request-id': 'req_of-the-provider' }
    const whole = { choices: [{ index: 0, message: { role: 'assistant', content: 'yes' }, finish_reason: 'stop' }] }
    const events = chatStream(['yes'])
    gateway.upstream.script(replyJson(whole, { headers }), replySteps([events], { headers }))
    const call: Call = (method, path) => gateway.call(method, path)
    for (const ask of [gateway.chat, gateway.stream]) {
      const answer = await ask({ prompt: 'hi' })
      const requestId = answer.headers['x-request-id']
      const served = { model: 'test/any', status: 'served' }
      expect(await attemptsOf(call, requestId)).toEqual([
        { ...served, providerRequestId: 'req_of-the-provider', latencyMs: expect.any(Number) },
      ])
      const { body } = await call('GET', `/api/external/receipts/${answer.headers['x-smltp-bundle-id']}`)
      expect(body.receipt.attempts).toMatchObject([{ ...served, provider_request_id: 'req_of-the-provider' }])
      expect(body.receipt.attempts[0].provider_status).toBeUndefined()
      expect(verifyReceipt(body.receipt, parseKeySet((await call('GET', '/.well-known/aigw-keys.json')).body))).toEqual(
        {
          ok: true,
        },
      )
      expect(gateway.log.filter(({ facts }) => facts.request_id === requestId)).toMatchObject([
        { message: 'model attempt served', facts: { provider_request_id: 'req_of-the-provider' } },
      ])
    }
  })

  test('is in the line about an answer that broke off', async () => {
    const gateway = shared.current
    const begun = chatStream(['half'], { finishReason: null, done: false })
    gateway.upstream.script(replySteps([begun], { headers: { 'x-request-id': 'broken-one' } }))
    const { headers } = await gateway.stream({ prompt: 'hi' })
    const lines = gateway.log.filter(({ facts }) => facts.request_id === headers['x-request-id'])
    expect(lines).toMatchObject([
      { message: 'model attempt served', facts: { provider_request_id: 'broken-one' } },
      {
        message: 'answer broke off',
        facts: { provider_request_id: 'broken-one', error: { upstreamRequestId: 'broken-one' } },
      },
    ])
  })
})

describe('the message is cleaned', () => {
  const shared = sharedGateway()
  let tenant: TestTenant
  beforeAll(async () => {
    tenant = await addTestTenant(shared.current)
  })
  const PROMPT = 'Where did the heron leave its umbrella?'
  const text = { role: 'user', content: PROMPT }
  const ECHO = `Cannot answer "${PROMPT.toUpperCase()}" with the key sk-upstream-secret, jane.doe@example.com.`

  test.each<[string, string, object]>([
    ['chat', CHAT, { prompt: PROMPT, index: 'Zero-Knowledge', model: 'test/any' }],
    ['streamed chat', CHAT, { prompt: PROMPT, index: 'Zero-Knowledge', model: 'test/any', stream: true }],
    ['OpenAI chat', OPENAI_CHAT_PATH, { model: 'test/any', messages: [text] }],
    ['embeddings', OPENAI_EMBEDDINGS_PATH, { model: 'test/any', input: [PROMPT] }],
  ])('%s', async (_, path, body) => {
    shared.current.upstream.script(failing(ECHO))
    const { headers } = await tenant.call('POST', path, body)
    expect(await messagesOf(tenant.call, headers['x-request-id'])).toEqual(['Cannot answer "…" with the key ….'])
  })

  test('token counts', async () => {
    const gateway = await startGateway({
      providers: [
        {
          name: 'ant',
          kind: 'anthropic',
          baseUrl: shared.current.upstream.url,
          apiKey: 'sk-upstream-secret',
          headers: {},
          models: undefined,
        },
      ],
    })
    shared.current.upstream.script(failing(ECHO))
    const { headers } = await gateway.call('POST', COUNT_TOKENS_PATH, { model: 'ant/any', messages: [text] })
    const call: Call = (method, path) => gateway.call(method, path)
    expect(await messagesOf(call, headers['x-request-id'])).toEqual(['Cannot answer "…" with the key ….'])
  })

  test('of an answer that broke off: neither the request nor the answer is quoted', async () => {
    const begun = chatStream(['It was left on the jetty. '], { finishReason: null, done: false })
    const error = `data: ${JSON.stringify({ error: { message: `Lost after "It was left on the jetty", ${PROMPT} Overloaded.` } })}\n\n`
    shared.current.upstream.script(replySteps([begun, error]))
    const body = { prompt: PROMPT, index: 'Zero-Knowledge', model: 'test/any', stream: true }
    const { headers } = await tenant.call('POST', CHAT, body)
    expect(await attemptsOf(tenant.call, headers['x-request-id'])).toMatchObject([
      { status: 'failed', reason: 'server_error', providerMessage: 'Lost after "…? Overloaded.' },
    ])
    // A buffered answer was discarded, so it cannot be compared.
    shared.current.upstream.script(replySteps([begun, error]))
    const buffered = await tenant.call('POST', CHAT, { ...body, redundancy: { commit: 'complete' } })
    expect(await messagesOf(tenant.call, buffered.headers['x-request-id'])).toEqual([undefined])
  })

  test('is left out if the request is too long to compare, and if the provider said nothing', async () => {
    shared.current.upstream.script(failing('It is down.'), failing(''), replyJson({ error: {} }, { status: 500 }))
    for (const content of ['heron '.repeat(90_000), 'hi', 'hi']) {
      const { headers } = await tenant.call('POST', OPENAI_CHAT_PATH, {
        model: 'test/any',
        messages: [{ ...text, content }],
      })
      expect(await messagesOf(tenant.call, headers['x-request-id'])).toEqual([undefined])
    }
  })

  test('is in no error of the client', async () => {
    shared.current.upstream.script(
      failing('The lighthouse is down.'),
      failing('The lighthouse is full.', { status: 400 }),
    )
    for (const status of [502, 400]) {
      const { status: got, text } = await shared.current.chat({ prompt: 'hi' })
      expect([got, text.includes('lighthouse')]).toEqual([status, false])
    }
  })
})

describeEachEngine('messages', (engine) => {
  test.each([
    { retentionDays: 0, keptDays: 30 },
    { retentionDays: 365, keptDays: 30 },
    { retentionDays: 7, keptDays: 7 },
  ])(
    'are deleted after $keptDays days if content is kept for $retentionDays days',
    async ({ retentionDays, keptDays }) => {
      const clock = createFakeClock()
      const gateway: Gateway = await startGateway({ engine, clock })
      const { db } = gateway.app
      const fail = async () => {
        gateway.upstream.script(failing(SAID), failing('Also down.'))
        await gateway.chat({ prompt: 'hi', models: ['test/a', 'test/b'] })
      }
      const kept = async () => (await db.selectFrom('provider_messages').select('message').execute()).length
      const purge = () => purgeProviderMessages({ db, clock, retentionDays })
      await fail()
      clock.advance(DAY_MS)
      await fail()
      expect(await kept()).toBe(4)
      clock.advance((keptDays - 1) * DAY_MS)
      await purge()
      expect(await kept()).toBe(4)
      clock.advance(1)
      await purge()
      expect(await kept()).toBe(2)
      clock.advance(DAY_MS)
      await purge()
      expect(await kept()).toBe(0)
    },
  )
})
