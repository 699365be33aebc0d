import Anthropic from '@anthropic-ai/sdk'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { countingInputTokens } from '../../../../../src/daemon/metering/usage/input-tokens.ts'
import { runToEnd } from '../../../../../src/daemon/platform/pacing.ts'
import { payloadOf } from '../../../../../src/daemon/records/evidence/entry-payload.ts'
import type { KeySettings } from '../../../../../src/shared/wire/keys.ts'
import { addKey } from '../../../../accounts.ts'
import { type Gateway, startGateway } from '../../../../harness.ts'
import { sharedResources } from '../../../../shared-resources.ts'
import { addTestTenant } from '../../../../tenant-admin.ts'
import { hang, replyJson, startUpstream, type Upstream } from '../../../../upstream.ts'
import { addGuardedTenant } from '../../chat/guarded-tenant.ts'

const PATH = '/v1/messages/count_tokens'
const EMAIL = 'ada.lovelace@analytical.org'

let upstream: Upstream
let gateway: Gateway

beforeAll(async () => {
  upstream = await startUpstream()
  upstream.fallback(replyJson({ input_tokens: 321 }))
  gateway = await startGateway({
    providers: [
      {
        name: 'claude',
        kind: 'anthropic',
        baseUrl: upstream.url,
        apiKey: 'a',
        headers: {},
        models: undefined,
        prices: {},
      },
    ],
    points: { Essential: 2 },
  })
  sharedResources.add(gateway)
})
afterAll(async () => {
  sharedResources.delete(gateway)
  await gateway.close()
  await upstream.close()
})

const say = (content: string) => [{ role: 'user' as const, content }]
const hello = { model: 'claude/claude-opus-4-5', messages: say('Hello there.') }
const count = (body: object = {}, options = {}) => gateway.call('POST', PATH, { ...hello, ...body }, options)

/** A key of a separate tenant. */
async function ownKey(settings: Partial<KeySettings> = {}): Promise<{ key: string; tenantId: string }> {
  const tenant = await addTestTenant(gateway)
  return { key: (await addKey(tenant.db, tenant.admin, { settings })).secret, tenantId: tenant.id }
}

const entriesOf = async (tenantId: string) =>
  (await gateway.app.db.selectFrom('evidence_entries').selectAll().where('tenant_id', '=', tenantId).execute()).map(
    payloadOf,
  )

describe('a model of Anthropic', () => {
  test("is counted by its provider, who receives exactly the model's input", async () => {
    const tools = [{ name: 'look', description: 'Looks', input_schema: { type: 'object' as const } }]
    const before = upstream.requests.length
    const client = new Anthropic({ apiKey: gateway.adminKey, baseURL: gateway.url, maxRetries: 0 })
    const counted = await client.messages.countTokens({
      ...hello,
      system: 'Be brief.',
      tools,
      tool_choice: { type: 'any' },
      thinking: { type: 'enabled', budget_tokens: 2_000 },
    })
    expect(counted).toEqual({
      input_tokens: 321,
      gateway: expect.objectContaining({ served_model: hello.model, estimated: false }),
    })
    expect(upstream.requests.slice(before)).toMatchObject([
      { path: '/v1/messages/count_tokens', headers: { 'x-api-key': 'a' } },
    ])
    expect(upstream.requests.at(-1)?.body).toEqual({
      model: 'claude-opus-4-5',
      system: 'Be brief.',
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Hello there.' }] }],
      tools,
      tool_choice: { type: 'any' },
      thinking: { type: 'enabled', budget_tokens: expect.any(Number) },
    })
  })

  test.each([
    ['an outage', replyJson({ type: 'error', error: { type: 'api_error', message: 'x' } }, { status: 500 }), 502],
    [
      'a rate limit',
      replyJson({ type: 'error', error: { type: 'rate_limit_error', message: 'x' } }, { status: 429 }),
      429,
    ],
    [
      'a refusal',
      replyJson({ type: 'error', error: { type: 'invalid_request_error', message: 'x' } }, { status: 400 }),
      400,
    ],
    ['an answer without a count', replyJson({ input_tokens: 'many' }), 502],
    ['a negative count', replyJson({ input_tokens: -1 }), 502],
    ['an answer that is not an object', replyJson([321]), 502],
  ])(
    "whose provider responds with %s gets an error in Anthropic's format, never an estimate",
    async (_, script, status) => {
      upstream.script(script)
      const answer = await count()
      expect([answer.status, answer.body]).toEqual([status, expect.objectContaining({ type: 'error' })])
      expect(answer.body).not.toHaveProperty('input_tokens')
    },
  )

  test('whose count fails is still called for an answer', async () => {
    const { key } = await ownKey()
    for (let times = 0; times < 6; times++) {
      upstream.script(replyJson({}, { status: 500 }))
      expect((await count({}, { key })).status).toBe(502)
    }
    const content = [{ type: 'text', text: 'Hi.' }]
    const said = { type: 'message', role: 'assistant', content, stop_reason: 'end_turn' }
    upstream.script(replyJson({ ...said, usage: { input_tokens: 1, output_tokens: 1 } }))
    const answer = await gateway.chat({ prompt: 'hi', models: [hello.model, 'local/extract'] }, { key })
    expect(answer.body).toMatchObject({ metadata: { served_model: hello.model } })
  })

  test('is aborted when the client disconnects', async () => {
    upstream.script(hang)
    const leave = new AbortController()
    const counting = count({ messages: say('I shall be gone.') }, { signal: leave.signal })
    let asked = await upstream.nextRequest()
    while (!asked.rawBody.includes('gone')) asked = await upstream.nextRequest()
    leave.abort()
    await expect(counting).rejects.toThrow()
    await asked.aborted
  })
})

test('any other model is counted here, as its bill would be without its own count', async () => {
  const before = upstream.requests.length
  const counts = []
  for (const messages of [say('Hello'), say('Hello there, how do you do today?')]) {
    const { status, body } = await count({ model: 'test/any', messages, system: 'Be brief.' })
    expect([status, body.gateway]).toEqual([
      200,
      expect.objectContaining({ served_model: 'test/any', estimated: true }),
    ])
    expect(body.input_tokens).toBe(runToEnd(countingInputTokens({ system: 'Be brief.', messages, options: undefined })))
    counts.push(body.input_tokens)
  }
  expect(counts[1]).toBeGreaterThan(counts[0])
  expect(upstream.requests).toHaveLength(before)
})

test('it is free, leaves a receipt, and is accepted when all points are used', async () => {
  const { key, tenantId } = await ownKey()
  for (let times = 0; times < 2; times++) expect((await gateway.chat({ prompt: 'hi' }, { key })).status).toBe(200)
  expect((await gateway.chat({ prompt: 'hi' }, { key })).body).toMatchObject({ error: 'Completion limit exceeded' })
  for (let times = 0; times < 3; times++) {
    const { status, headers } = await count({}, { key })
    expect(status).toBe(200)
    const [entry] = (await entriesOf(tenantId)).slice(-1)
    expect(entry).toMatchObject({
      operation: 'token.count',
      result: 'success',
      bundle_id: headers['x-smltp-bundle-id'],
      cost: { nanos: 0, points: 0 },
      usage: { input_tokens: 321, output_tokens: 0, estimated: false },
      attempts: [{ model: hello.model, status: 'served', entitlement: { verdict: 'allowed' } }],
    })
  }
  expect((await gateway.usage()).filter(({ tenant_id }) => tenant_id === tenantId)).toHaveLength(2)
  const { body } = await gateway.call('GET', '/api/external/usage', undefined, { key })
  expect(body.points).toMatchObject({ remaining: 0 })
  expect(body.api_key.daily).toMatchObject({ used: 6 })
})

test('a repeat with its Idempotency-Key is not counted again', async () => {
  const before = upstream.requests.length
  const ask = () => count({}, { headers: { 'idempotency-key': 'count-1' } })
  const [first, second] = [await ask(), await ask()]
  expect([second.status, second.text, second.headers['idempotent-replayed']]).toEqual([200, first.text, 'true'])
  expect(upstream.requests).toHaveLength(before + 1)
})

test('only text that guards leave in a message is counted, and blocked text is not', async () => {
  for (const [action, status] of [
    ['mask', 200],
    ['block', 403],
  ] as const) {
    const { post } = await addGuardedTenant(gateway, { policy: { pii: { enabled: true, action } } })
    const before = upstream.requests.length
    const answer = await post(PATH, { ...hello, messages: say(`Write to ${EMAIL}`) })
    expect(answer.status).toBe(status)
    const sent = upstream.requests.slice(before).map(({ rawBody }) => rawBody)
    expect(sent).toHaveLength(status === 200 ? 1 : 0)
    expect(sent.join()).not.toContain(EMAIL)
  }
})

test.each([
  [{ model: null }, 400, 'must provide a model'],
  [{ model: 'nowhere/x' }, 400, 'not configured'],
  [{ messages: [] }, 400, 'messages'],
  [{ messages: undefined }, 400, 'messages'],
])('an invalid message has no count: %#', async (body, status, message) => {
  const answer = await count(body)
  expect([answer.status, answer.body]).toEqual([
    status,
    expect.objectContaining({
      type: 'error',
      error: { type: 'invalid_request_error', message: expect.stringContaining(message), code: expect.any(String) },
    }),
  ])
})

test("the key's list of models applies, and its fallbacks are not counted", async () => {
  const { key } = await ownKey({
    allowedModels: ['claude/*'],
    failoverDefaults: {
      models: [hello.model, 'claude/other'],
      timeout_ms: undefined,
      first_token_timeout_ms: undefined,
      on: undefined,
    },
  })
  expect((await count({ model: 'test/any' }, { key })).status).toBe(403)
  upstream.script(replyJson({}, { status: 500 }))
  const { status, body } = await count({}, { key })
  expect([status, body.attempts]).toEqual([502, [expect.objectContaining({ model: hello.model })]])
})
