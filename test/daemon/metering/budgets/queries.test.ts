// The queries per request that budgets need.
import { expect, test } from 'vitest'
import { type AppliedBudgets, createAppliedBudgets } from '../../../../src/daemon/metering/budgets/applied-budgets.ts'
import type { SpendRequest } from '../../../../src/daemon/metering/usage/spend-request.ts'
import { createThresholds } from '../../../../src/daemon/metering/usage/thresholds.ts'
import type { Db } from '../../../../src/daemon/platform/db/db.ts'
import { insertRows } from '../../../../src/daemon/platform/db/insert-rows.ts'
import { newId } from '../../../../src/shared/ids.ts'
import { BUDGET_REREAD_MS, BUDGETS_CACHE_MS } from '../../../../src/shared/spec-limits.ts'
import { isoTime } from '../../../../src/shared/time.ts'
import { addUser } from '../../../accounts.ts'
import { describeEachEngine, storeForEach } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { newTenant } from '../../records/evidence/chain-rig.ts'

const NOW = Date.parse('2026-11-20T12:00:00.000Z')
const at = isoTime(NOW)

/** Counts the queries of the returned store. */
function counted(db: Db) {
  const queries = { count: 0 }
  const counting = db.withPlugin({
    transformQuery: ({ node }) => node,
    async transformResult({ result }) {
      queries.count += 1
      return result
    },
  })
  return { db: counting, queries }
}

describeEachEngine('the queries of budgets', (engine) => {
  const store = storeForEach(engine)

  test('for a tenant without budgets: one, and on PostgreSQL one per change that it may have missed', async () => {
    const clock = createFakeClock(NOW)
    const { db, queries } = counted(store.db)
    const budgets = createAppliedBudgets({ db, clock })
    const subject = { tenantId: await newTenant(store.db), payerId: newId(), tag: undefined }
    expect(await budgets.of(subject)).toEqual([])
    clock.advance(2 * BUDGETS_CACHE_MS)
    expect(await budgets.of(subject)).toEqual([])
    expect(queries.count).toBe(engine.name === 'sqlite' ? 1 : 2)
    budgets.forget(subject.tenantId)
    await budgets.of(subject)
    expect(queries.count).toBe(engine.name === 'sqlite' ? 2 : 3)
  })

  test('for a member of a group with a budget: two, until members or budgets change', async () => {
    const clock = createFakeClock(NOW)
    const { db, queries } = counted(store.db)
    const tenantId = await newTenant(store.db)
    const { id: payerId } = await addUser(store.db, { tenant_id: tenantId })
    const group = newId()
    const times = { created_at: at, updated_at: at }
    const row = { id: group, tenant_id: tenantId, name: 'g', description: 'g', status: 'Active' as const, ...times }
    await insertRows(store.db, 'groups', [{ ...row, user_count: 1, search_text: 'g', name_skeleton: null }])
    await insertRows(store.db, 'group_members', [{ tenant_id: tenantId, group_id: group, user_id: payerId }])
    const budget = { id: newId(), tenant_id: tenantId, scope: 'group' as const, subject: group, limit_nanos: 7 }
    await insertRows(store.db, 'budgets', [{ ...budget, ...times }])
    const budgets: AppliedBudgets = createAppliedBudgets({ db, clock })
    const subject = { tenantId, payerId, tag: undefined }
    for (let request = 0; request < 3; request++)
      expect(await budgets.of(subject)).toMatchObject([{ id: budget.id, limitNanos: 7 }])
    expect(queries.count).toBe(2)
    await store.db.deleteFrom('group_members').where('tenant_id', '=', tenantId).execute()
    budgets.forget(tenantId)
    expect(await budgets.of(subject)).toEqual([])
  })

  test('for bills below the next threshold: one, and on PostgreSQL one per interval', async () => {
    const clock = createFakeClock(NOW)
    const { db, queries } = counted(store.db)
    const tenantId = await newTenant(store.db)
    const counter = { tenant_id: tenantId, holder: 'user' as const, holder_id: 'u', period: '2026-11', points: 0 }
    await insertRows(store.db, 'spend_counters', [{ ...counter, nanos: 100 }])
    const thresholds = createThresholds({ db, clock, log: { error: () => {} }, announceEvents() {} })
    const request = { tenantId, payerId: 'u', keyId: 'k', userLimitNanos: 1_000, keyLimitNanos: null, budgets: [] }
    const spend = async (nanos: number) => {
      await store.db
        .updateTable('spend_counters')
        .set(({ eb }) => ({ nanos: eb('nanos', '+', nanos) }))
        .where('tenant_id', '=', tenantId)
        .execute()
      thresholds.spent(request as unknown as SpendRequest, '2026-11', nanos)
      await thresholds.close()
    }
    for (let bill = 0; bill < 10; bill++) await spend(10)
    expect(queries.count).toBe(1)
    clock.advance(BUDGET_REREAD_MS)
    await spend(10)
    expect(queries.count).toBe(engine.name === 'sqlite' ? 1 : 2)
    const events = () => store.db.selectFrom('outbox_events').selectAll().where('tenant_id', '=', tenantId).execute()
    await spend(289)
    expect(await events()).toEqual([])
    await spend(1)
    expect((await events()).map(({ data }) => JSON.parse(data).threshold)).toEqual([50])
  })
})
