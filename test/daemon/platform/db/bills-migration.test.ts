import { type Kysely, sql } from 'kysely'
import { expect, test } from 'vitest'
import { DIALECTS } from '../../../../src/daemon/platform/db/migrate.ts'
import { usage } from '../../../../src/daemon/platform/db/migrations/0002-usage.ts'
import { billing } from '../../../../src/daemon/platform/db/migrations/0005-billing.ts'
import { oneRecord } from '../../../../src/daemon/platform/db/migrations/0016-one-record.ts'
import { logSummaries } from '../../../../src/daemon/platform/db/migrations/0018-log-summaries.ts'
import { taggedUsage } from '../../../../src/daemon/platform/db/migrations/0034-reports.ts'
import { createMasterKey } from '../../../../src/daemon/platform/secrets/seal.ts'
import { createLogProjector } from '../../../../src/daemon/records/evidence/log-projector.ts'
import { openSigningKeys } from '../../../../src/daemon/records/evidence/signing-keys.ts'
import { verifyTenant } from '../../../../src/daemon/records/evidence/verification.ts'
import { systemClock } from '../../../../src/shared/time.ts'
import { addTenant } from '../../../accounts.ts'
import { describeEachEngine, storeForEach } from '../../../engines.ts'
import { addEntries, newRequestChain, requestPayload } from '../../../evidence-rows.ts'
import { TEST_MASTER_KEY } from '../../../webhook-rows.ts'

const log = { error: (details: object) => expect(details).toEqual({}) }
const USAGE_TABLES = ['usage_days', 'log_positions', 'log_blocks', 'log_owners']

type Bill = {
  requestId: string
  at?: string
  period?: string
  user?: string
  model?: string
  tokens?: number
  nanos?: number
  mode?: string
}

describeEachEngine('the bills of a store from before receipts were the bills', (engine) => {
  const store = storeForEach(engine)
  const dialect = DIALECTS[engine.name]
  const run = async (statements: readonly string[]) => {
    for (const statement of statements) await sql.raw(statement).execute(store.db)
  }

  /** Changes the schema back to that of migration 0015. */
  async function goBack(): Promise<void> {
    await run(USAGE_TABLES.map((table) => `drop table ${table}`))
    await run([...usage(dialect), ...billing(dialect)].filter((statement) => statement.includes('usage_records')))
  }

  const addBill = (tenantId: string, bill: Bill) => {
    const { requestId, at = '2026-03-10T12:00:00.000Z', user = 'ada', model = 'p/m', tokens = 5, nanos = 1_000 } = bill
    const { mode = 'user-completions', period = at.slice(0, 7) } = bill
    return sql`insert into usage_records (request_id, tenant_id, api_key_id, user_id, created_at, route, streamed,
        requested_model, served_model, index_used, outcome, input_tokens, output_tokens, cache_read_tokens,
        cache_write_tokens, reasoning_tokens, tokens_estimated, attempts, latency_ms, billing_mode, billing_period,
        cost_nanos, points)
      values (${requestId}, ${tenantId}, 'key', ${user}, ${at}, '/chat', 0, ${model}, ${model}, 'none', 'complete',
        ${tokens}, ${tokens * 2}, 0, 0, 0, 0, 1, 7, ${mode}, ${period}, ${nanos}, 3)`.execute(store.db)
  }

  /** The receipt that the former version wrote together with a bill. */
  const receiptOf = ({ requestId, at = '2026-03-10T12:00:00.000Z', ...bill }: Bill) => ({
    createdAt: at,
    payload: requestPayload({
      ...{ request_id: requestId, user_id: bill.user ?? 'ada', key_id: 'key', model: bill.model ?? 'p/m' },
      usage: { estimated: false, input_tokens: bill.tokens ?? 5, output_tokens: (bill.tokens ?? 5) * 2 },
      cost: { mode: bill.mode ?? 'user-completions', nanos: bill.nanos ?? 1_000, points: 3 },
      times: { started_at: at, first_token_ms: 1, latency_ms: 7 },
    }),
  })

  const sumsOf = async (table: 'usage_records' | 'usage_days', tenantId: string) => {
    const columns =
      table === 'usage_days'
        ? sql`substr(day, 1, 7) as month, user_id, api_key_id, model, sum(requests) as requests,
            sum(input_tokens) as input, sum(output_tokens) as output, sum(nanos) as nanos,
            sum(billed_nanos) as billed, sum(points) as points`
        : sql`billing_period as month, user_id, api_key_id, served_model as model, count(*) as requests,
            sum(input_tokens) as input, sum(output_tokens) as output, sum(cost_nanos) as nanos,
            sum(case when billing_mode = 'usage-by-model' then cost_nanos else 0 end) as billed, sum(points) as points`
    const { rows } = await sql`select ${columns} from ${sql.table(table)} where tenant_id = ${tenantId}
      group by month, user_id, api_key_id, model order by month, user_id, api_key_id, model`.execute(store.db)
    return rows
  }

  async function verified(tenantId: string) {
    const masterKey = createMasterKey(TEST_MASTER_KEY)
    const keys = await openSigningKeys(store.db, { masterKey, name: undefined, clock: systemClock })
    const chains = await verifyTenant(store.db, tenantId, await keys.published())
    return chains.map(({ chain, ok, size, head }) => ({ chain, ok, size, head }))
  }

  test('are in the sums of usage exactly once, with or without a receipt, and the chain stays valid', async () => {
    const { db } = store
    await goBack()
    const [own, other] = [await addTenant(db), await addTenant(db)]
    const chain = newRequestChain()
    const withReceipt = Array.from({ length: 300 }, (_, at) => ({
      ...{ requestId: `req-${at}`, user: `user-${at % 3}`, model: `p/m${at % 2}`, tokens: at, nanos: at * 7 },
      mode: at % 5 === 0 ? 'usage-by-model' : 'user-completions',
    }))
    const withoutReceipt: Bill[] = [
      { requestId: 'old-1', at: '2025-12-31T23:59:00.000Z' },
      { requestId: 'old-2', at: '2026-01-01T00:00:01.000Z', period: '2025-12', mode: 'usage-by-model' },
      { requestId: 'old-3', user: 'user-1', model: 'p/m1' },
    ]
    const expunged: Bill = { requestId: 'expunged', user: 'user-2' }
    for (const bill of [...withReceipt, ...withoutReceipt, expunged]) await addBill(own.id, bill)
    await addBill(other.id, { requestId: 'unreadable' })
    await addEntries(db, other.id, newRequestChain(), [receiptOf({ requestId: 'unreadable' })])
    await sql`update evidence_entries set payload = 'not JSON' where tenant_id = ${other.id}`.execute(db)
    await addEntries(db, own.id, chain, [...withReceipt, expunged].map(receiptOf))
    // A rejected request mentions the bill of another request only by its own id.
    await addEntries(db, own.id, chain, [
      { payload: requestPayload({ request_id: 'old-3', cost: null, usage: null, result: 'denied', status: 403 }) },
    ])
    await sql`update evidence_entries set payload = null where chain = ${chain} and seq = 300`.execute(db)
    const before = { own: await sumsOf('usage_records', own.id), other: await sumsOf('usage_records', other.id) }
    const chainsBefore = await verified(own.id)
    expect(chainsBefore).toMatchObject([{ chain, ok: true, size: 302 }])

    await run(oneRecord.before(dialect))
    await oneRecord.move(db as unknown as Kysely<unknown>)
    await run(oneRecord.after(dialect))
    await run(logSummaries(dialect))
    await run(taggedUsage(dialect))
    const projector = createLogProjector({ db, clock: systemClock, log })
    await projector.run()
    await projector.run()

    expect(await sumsOf('usage_days', own.id)).toEqual(before.own)
    expect(await sumsOf('usage_days', other.id)).toEqual(before.other)
    expect(await verified(own.id)).toEqual(chainsBefore)
    const days = await db.selectFrom('usage_days').select('day').where('day', '<', '2026').execute()
    expect(days).toEqual([{ day: '2025-12-31' }])
    await expect(sql`select 1 from usage_records`.execute(db)).rejects.toThrow()
  })

  test('a store that was migrated before bills were kept gets the same tables', async () => {
    await run(USAGE_TABLES.map((table) => `drop table ${table}`))
    await run(logSummaries(dialect))
    expect(await store.db.selectFrom('usage_days').selectAll().execute()).toEqual([])
  })
})
