import { expect, test } from 'vitest'
import { ReportUsageResponse } from '../../../../src/shared/wire/usage.ts'
import { describeEachEngine } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { sharedGateway } from '../../../harness.ts'
import { addTestTenant } from '../../../tenant-admin.ts'

const NOW = Date.parse('2026-05-20T12:00:00.000Z')
const USAGE = { requests: 2, input_tokens: 30, output_tokens: 4, nanos: 2_000_000_000, billed_nanos: 500_000_000 }
const [ADA, BOB, KEY] = ['a'.repeat(24), 'b'.repeat(24), 'c'.repeat(24)] as const

describeEachEngine('GET /api/admin/usage', (engine) => {
  const shared = sharedGateway({ engine, clock: createFakeClock(NOW) })

  test('200: sums the usage of the tenant by any groups', async () => {
    const [tenant, other] = [await addTestTenant(shared.current), await addTestTenant(shared.current)]
    const row = (day: string, user_id: string, model: string, tenant_id = tenant.id) => ({
      ...{ ...USAGE, points: 3, tenant_id, day, user_id, api_key_id: KEY, model, tag: '' },
    })
    await tenant.db
      .insertInto('usage_days')
      .values([
        row('2026-05-13', ADA, 'p/one'),
        row('2026-05-14', ADA, 'p/one'),
        row('2026-05-20', ADA, 'p/two'),
        row('2026-05-20', BOB, 'p/one'),
        row('2026-05-20', BOB, 'p/one', other.id),
      ])
      .execute()
    const report = async (query = '') => {
      const { status, text, body } = await tenant.call('GET', `/api/admin/usage?${query}`)
      expect(status, text).toBe(200)
      return ReportUsageResponse.strict().parse(body)
    }
    const one = { requests: 2, inputTokens: 30, outputTokens: 4, points: 3, dollars: 0.5, listPrice: 2 }
    const two = { requests: 4, inputTokens: 60, outputTokens: 8, points: 6, dollars: 1, listPrice: 4 }
    expect(await report()).toEqual({
      success: true,
      period: { startDate: '2026-05-14', endDate: '2026-05-20' },
      rows: [
        { day: '2026-05-14', ...one },
        { day: '2026-05-20', ...two },
      ],
      truncated: false,
    })
    expect((await report('groupBy=user,model&startDate=2026-05-01')).rows).toEqual([
      { userId: ADA, model: 'p/one', ...two },
      { userId: ADA, model: 'p/two', ...one },
      { userId: BOB, model: 'p/one', ...one },
    ])
    expect((await report(`groupBy=key&userId=${BOB}`)).rows).toEqual([{ apiKeyId: KEY, ...one }])
    expect((await report('model=p/two')).rows).toEqual([{ day: '2026-05-20', ...one }])
  })

  test('400 VALIDATION_ERROR for an unknown group and for a period that ends before it starts', async () => {
    const tenant = await addTestTenant(shared.current)
    for (const query of ['groupBy=month', 'startDate=2026-05-02&endDate=2026-05-01', 'startDate=today']) {
      const { status, body } = await tenant.call('GET', `/api/admin/usage?${query}`)
      expect([query, status, body.error.code]).toEqual([query, 400, 'VALIDATION_ERROR'])
    }
  })
})
