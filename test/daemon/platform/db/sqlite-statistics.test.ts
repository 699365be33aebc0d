import { expect, test } from 'vitest'
import { newId } from '../../../../src/shared/ids.ts'
import { sqliteEngine } from '../../../engines.ts'
import { queryPlans } from '../../../query-plan.ts'
import { sharedStore } from '../../knowledge/indexes/trained-store.ts'

const store = sharedStore(sqliteEngine, async () => undefined)

test('SQLite finds users by their ids without scanning the tenant', async () => {
  const plans = await queryPlans(store.db, (db) =>
    db.selectFrom('users').selectAll().where('tenant_id', '=', newId()).where('id', 'in', [newId(), newId()]).execute(),
  )
  expect(plans).toEqual([expect.stringMatching(/^SEARCH users USING INDEX \S+ \((tenant_id=\? AND )?id=\?\)$/)])
})

test('SQLite reads a page in the order of its index, without sorting', async () => {
  const plans = await queryPlans(store.db, (db) =>
    db
      .selectFrom('users')
      .select('id')
      .where('tenant_id', '=', newId())
      .orderBy('created_at', 'desc')
      .orderBy('id', 'desc')
      .limit(20)
      .execute(),
  )
  expect(plans).toEqual([expect.stringMatching(/^SEARCH users USING COVERING INDEX users_by_age \(tenant_id=\?\)$/)])
})

test('SQLite counts the users of a role in the smallest index', async () => {
  const plans = await queryPlans(store.db, (db) =>
    db
      .selectFrom('users')
      .select((the) => the.fn.countAll().as('count'))
      .where('tenant_id', '=', newId())
      .where('role', '=', 'user')
      .execute(),
  )
  expect(plans).toEqual([expect.stringContaining('USING COVERING INDEX users_by_count (tenant_id=? AND role=?)')])
})
