import { expect, test } from 'vitest'
import { payloadOf } from '../../../../../src/daemon/records/evidence/entry-payload.ts'
import { RerankResponse } from '../../../../../src/shared/wire/rerank.ts'
import { describeEachEngine } from '../../../../engines.ts'
import { sharedGateway, startGateway } from '../../../../harness.ts'
import { addGuardedTenant } from '../../chat/guarded-tenant.ts'

const PATH = '/v1/rerank'
const hello = {
  model: 'test/any',
  query: 'Where is the lift?',
  documents: ['In the hall.', { text: 'In the cellar.' }, 'No.'],
}

describeEachEngine('documents', (engine) => {
  test('are ranked, the best first; the request is billed and has a receipt', async () => {
    const gateway = await startGateway({ engine })
    const ask = () =>
      gateway.call(
        'POST',
        PATH,
        { ...hello, top_n: 2, return_documents: true, rank_fields: ['a'] },
        { headers: { 'idempotency-key': 'k' } },
      )
    const { status, headers, body, text } = await ask()
    expect([status, body]).toEqual([
      200,
      {
        id: String(headers['x-request-id']).replace('req-', 'rerank-'),
        object: 'list',
        model: 'test/any',
        results: [
          { index: 2, relevance_score: 1, document: { text: 'No.' } },
          { index: 1, relevance_score: expect.closeTo(2 / 3), document: { text: 'In the cellar.' } },
        ],
        usage: { prompt_tokens: expect.any(Number), total_tokens: expect.any(Number) },
        gateway: expect.objectContaining({
          served_model: 'test/any',
          dropped: [{ field: 'rank_fields', why: 'gateway' }],
        }),
      },
    ])
    expect(RerankResponse.safeParse(body).error).toBeUndefined()
    expect(gateway.upstream.requests.at(-1)).toMatchObject({
      path: '/v1/rerank',
      body: { model: 'any', query: hello.query, documents: ['In the hall.', 'In the cellar.', 'No.'], top_n: 2 },
    })
    expect((await ask()).text).toBe(text)
    expect(gateway.upstream.requests).toHaveLength(1)
    expect(await gateway.usage()).toMatchObject([{ route: '/api/external/v1/rerank', output_tokens: 0 }])
    const entries = await gateway.app.db.selectFrom('evidence_entries').selectAll().execute()
    expect(entries.map(payloadOf)).toContainEqual(
      expect.objectContaining({ operation: 'rerank', bundle_id: headers['x-smltp-bundle-id'], result: 'success' }),
    )
  })
})

const shared = sharedGateway()

test.each([
  [{ model: 'local/extract' }, 'does not support reranking'],
  [{ documents: [] }, 'documents must not be empty'],
  [{ query: '' }, 'query must not be empty'],
  [{ top_n: 0 }, 'top_n must be at least 1'],
  [{ model: undefined }, 'must provide a model'],
])('a 400 says what is wrong: %#', async (body, message) => {
  const answer = await shared.current.call('POST', PATH, { ...hello, ...body })
  expect([answer.status, answer.body.error.message]).toEqual([400, expect.stringContaining(message)])
})

test('guards inspect the query and every document', async () => {
  const EMAIL = 'ada.lovelace@analytical.org'
  const { post } = await addGuardedTenant(shared.current, { policy: { pii: { enabled: true, action: 'block' } } })
  for (const body of [{ query: EMAIL }, { documents: ['In the hall.', EMAIL] }]) {
    const before = shared.current.upstream.requests.length
    expect((await post(PATH, { ...hello, ...body })).status).toBe(403)
    expect(shared.current.upstream.requests).toHaveLength(before)
  }
})
