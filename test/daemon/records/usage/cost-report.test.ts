import { describe, expect, test } from 'vitest'
import { toDecimalDollars } from '../../../../src/daemon/records/usage/decimal-dollars.ts'
import { CostReportResponse } from '../../../../src/shared/wire/usage.ts'
import { addKey } from '../../../accounts.ts'
import { describeEachEngine } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { sharedGateway, startGateway } from '../../../harness.ts'
import { addTestTenant } from '../../../tenant-admin.ts'

const NOW = Date.parse('2026-05-20T12:00:00.000Z')
const REPORT = '/api/external/usage/report'
const hello = [{ role: 'user', content: 'hi' }]

describe('toDecimalDollars', () => {
  test.each([
    [0n, '0'],
    [1n, '0.000000001'],
    [1_500_000n, '0.0015'],
    [12_000_000_000n, '12'],
    [9_007_199_254_740_993_000n, '9007199254.740993'],
  ])('%s nano-dollars are %s', (nanos, decimal) => expect(toDecimalDollars(nanos)).toBe(decimal))
})

describeEachEngine('GET /usage/report', (engine) => {
  const shared = sharedGateway({ engine, clock: createFakeClock(NOW) })

  test('200: sums by any groups, with names and exact decimals', async () => {
    const [tenant, other] = [await addTestTenant(shared.current), await addTestTenant(shared.current)]
    const ada = await tenant.addUser({ name: 'Ada' })
    const { row: key } = await addKey(tenant.db, ada, { name: 'ci' })
    const row = (more: object) => ({
      ...{ tenant_id: tenant.id, day: '2026-05-02', user_id: ada.id, api_key_id: key.id, model: 'p/one', tag: '' },
      ...{ requests: 1, input_tokens: 10, output_tokens: 2, nanos: 3, billed_nanos: 1, points: 2, ...more },
    })
    await tenant.db
      .insertInto('usage_days')
      .values([
        row({}),
        row({ tag: 'team-a', model: 'p/two/large', nanos: 9_007_199_254_740_991, billed_nanos: 0 }),
        row({ tag: 'team-a', nanos: 2, day: '2026-05-20' }),
        row({ day: '2026-04-30' }),
        row({ tenant_id: other.id, requests: 7 }),
      ])
      .execute()
    const report = async (query: string, call = tenant.call) => {
      const { status, text, body } = await call('GET', `${REPORT}?${query}`)
      expect(status, text).toBe(200)
      return CostReportResponse.strict().parse(body)
    }
    const sums = { requests: 1, inputTokens: 10, outputTokens: 2, points: 2, dollars: '0.000000001' }
    expect(await report('by=tag,provider')).toEqual({
      success: true,
      period: { since: '2026-05-01', until: '2026-05-20' },
      by: ['tag', 'provider'],
      rows: [
        { tag: '', provider: 'p', ...sums, listPrice: '0.000000003' },
        {
          ...{ tag: 'team-a', provider: 'p', requests: 2, inputTokens: 20, outputTokens: 4, points: 4 },
          ...{ dollars: '0.000000001', listPrice: '9007199.254740993' },
        },
      ],
      truncated: false,
    })
    expect((await report('by=user,key&since=2026-04-30&until=2026-04-30')).rows).toEqual([
      { userId: ada.id, userName: 'Ada', apiKeyId: key.id, apiKeyName: 'ci', ...sums, listPrice: '0.000000003' },
    ])
    expect((await report('by=model')).rows.map(({ model }) => model)).toEqual(['p/one', 'p/two/large'])
    expect((await report('')).rows.map(({ day }) => day)).toEqual(['2026-05-02', '2026-05-20'])

    const { rows } = await report('by=tenant', (method, path) => shared.current.call(method, path))
    const byTenant = new Map(rows.map((one) => [one.tenantId, one.requests]))
    expect([byTenant.get(tenant.id), byTenant.get(other.id)]).toEqual([3, 7])
    const refused = await tenant.call('GET', `${REPORT}?by=day,tenant`)
    expect([refused.status, refused.body.error.code]).toEqual([403, 'INSUFFICIENT_PERMISSIONS'])
  })

  test('400 VALIDATION_ERROR for an unknown group and for a period that ends before it starts', async () => {
    for (const query of ['by=month', 'since=2026-05-02&until=2026-05-01', 'since=today']) {
      const { status, body } = await shared.current.call('GET', `${REPORT}?${query}`)
      expect([query, status, body.error.code]).toEqual([query, 400, 'VALIDATION_ERROR'])
    }
  })
})

describeEachEngine('the tag of a request', (engine) => {
  test('is in the receipt and in reports, on every surface that calls models', async () => {
    const gateway = await startGateway({ engine })
    const metadata = { tag: 'in-body', other: 'x' }
    const header = { headers: { 'x-aigw-tag': 'in-header' } }
    const calls: [string, object, object?][] = [
      ['/api/external/chat/completions', { prompt: 'hi', index: 'Zero-Knowledge', model: 'test/any' }, header],
      ['/api/external/v1/chat/completions', { model: 'test/any', messages: hello, metadata }],
      ['/api/external/v1/chat/completions', { model: 'test/any', messages: hello, metadata }, header],
      [
        '/api/external/v1/messages',
        { model: 'test/any', messages: hello, max_tokens: 9, metadata: { tag: 'in-body' } },
      ],
      ['/api/external/v1/responses', { model: 'test/any', input: 'hi', metadata }],
      ['/api/external/v1/completions', { model: 'test/any', prompt: 'hi' }, header],
      ['/api/external/v1/embeddings', { model: 'test/any', input: 'hi' }, header],
      // A malformed tag in the client's own metadata is no tag.
      ['/api/external/v1/chat/completions', { model: 'test/any', messages: hello, metadata: { tag: 'a b' } }],
      ['/api/external/v1/chat/completions', { model: 'test/any', messages: hello }],
    ]
    for (const [path, body, options] of calls) {
      const { status, text } = await gateway.call('POST', path, body, options)
      expect([path, status], text).toEqual([path, 200])
    }
    const { rows: receipts } = { rows: await gateway.app.db.selectFrom('evidence_entries').select('id').execute() }
    const tags: unknown[] = []
    for (const { id } of receipts) {
      const { status, body } = await gateway.call('GET', `/api/external/receipts/${id}`)
      if (status === 200 && body.receipt?.kind === 'request') tags.push(body.receipt.metadata.tag)
    }
    expect(tags.sort()).toEqual([...Array(3).fill('in-body'), ...Array(4).fill('in-header'), undefined, undefined])
    await expect
      .poll(async () => (await gateway.call('GET', `${REPORT}?by=tag`)).body.rows, { timeout: 20_000 })
      .toMatchObject([
        { tag: '', requests: 2 },
        { tag: 'in-body', requests: 3 },
        { tag: 'in-header', requests: 4 },
      ])
    // Only the rest of the metadata reaches the provider.
    const sent = gateway.upstream.requests.map(({ body }) => (body as { metadata?: unknown }).metadata)
    expect(sent[1]).toEqual({ other: 'x' })
    expect(sent[3]).toBeUndefined()
  })

  test('400 for a malformed header, before a model is called', async () => {
    const gateway = await startGateway({ engine })
    for (const tag of ['a b', '=1', 'a'.repeat(65), 'ä']) {
      const { status, text } = await gateway.chat({ prompt: 'hi' }, { headers: { 'x-aigw-tag': tag } })
      expect([tag, status], text).toEqual([tag, 400])
      expect(text).toContain('X-AIGW-Tag')
    }
    expect(gateway.upstream.requests).toEqual([])
  })
})
