// Every route that calls models leaves a receipt and a usage total. A new route must be added here.
import { expect, test } from 'vitest'
import { payloadOf } from '../../src/daemon/records/evidence/entry-payload.ts'
import { addGuardedTenant } from '../daemon/gateway/chat/guarded-tenant.ts'
import { sharedGateway } from '../harness.ts'

const messages = [{ role: 'user', content: 'Where is the lift?' }]
const contents = [{ role: 'user', parts: [{ text: 'Where is the lift?' }] }]
const content = contents[0]

/** A valid request of each route, and the operation of its receipt. */
const CALLS: Record<string, [operation: string, body: object]> = {
  '/api/external/chat/completions': ['chat.completion', { index: 'Zero-Knowledge', messages }],
  '/api/external/v1/chat/completions': ['chat.completion', { messages }],
  '/api/external/v1/responses': ['chat.completion', { input: 'Where is the lift?' }],
  '/api/external/v1/messages': ['chat.completion', { max_tokens: 50, messages }],
  '/api/external/v1/messages/count_tokens': ['token.count', { messages }],
  '/api/external/v1/completions': ['chat.completion', { prompt: 'Where is' }],
  '/api/external/v1/embeddings': ['embedding', { input: 'Where is the lift?' }],
  '/api/external/v1/moderations': ['moderation', { input: 'Where is the lift?' }],
  '/api/external/v1/rerank': ['rerank', { query: 'Where is the lift?', documents: ['In the hall.'] }],
  '/api/external/v1beta/models/{model}:generateContent': ['chat.completion', { contents }],
  '/api/external/v1beta/models/{model}:streamGenerateContent': ['chat.completion', { contents }],
  '/api/external/v1beta/models/{model}:countTokens': ['token.count', { contents }],
  '/api/external/v1beta/models/{model}:embedContent': ['embedding', { content }],
  '/api/external/v1beta/models/{model}:batchEmbedContents': [
    'embedding',
    { requests: [{ model: 'models/test/any', content }] },
  ],
}

/** These routes run the guards only. They call no provider, and nothing is billed. */
const GUARD_ROUTES = /\/prompt-shield\/|\/policy-check$/

const shared = sharedGateway()

test('every route that calls models is listed here', () => {
  const paths = shared.current.app.routes.filter(({ callsModels }) => callsModels).map(({ path }) => path)
  expect(paths.filter((path) => !GUARD_ROUTES.test(path)).sort()).toEqual(Object.keys(CALLS).sort())
})

test.each(Object.entries(CALLS))('POST %s leaves one receipt with its usage', async (path, [operation, body]) => {
  const { post, tenant, keyId } = await addGuardedTenant(shared.current)
  const answer = await post(path.replace('{model}', 'test/any'), { model: 'test/any', ...body })
  expect([answer.status, answer.text]).toEqual([200, expect.any(String)])
  const bundleId = answer.headers['x-smltp-bundle-id']
  const rows = await tenant.db.selectFrom('evidence_entries').selectAll().where('tenant_id', '=', tenant.id).execute()
  const receipts = rows.map(payloadOf).filter((payload) => payload?.kind === 'request')
  expect(receipts).toEqual([
    expect.objectContaining({
      bundle_id: bundleId,
      operation,
      result: 'success',
      key_id: keyId,
      endpoint: `POST ${path}`,
      model: 'test/any',
      usage: expect.objectContaining({ input_tokens: expect.any(Number), output_tokens: expect.any(Number) }),
    }),
  ])
  const receipt = await tenant.call('GET', `/api/external/receipts/${bundleId}`)
  expect([receipt.status, JSON.stringify(receipt.body)]).toEqual([200, expect.stringContaining(String(bundleId))])
})
