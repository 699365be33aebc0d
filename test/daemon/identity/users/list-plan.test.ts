import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { listUsers } from '../../../../src/daemon/identity/users/store.ts'
import { insertRows } from '../../../../src/daemon/platform/db/insert-rows.ts'
import { ListUsersQuery } from '../../../../src/shared/wire/users.ts'
import { addTenant, apiKeyRow, userRow } from '../../../accounts.ts'
import { describeEachEngine } from '../../../engines.ts'
import { queryPlans } from '../../../query-plan.ts'
import { sharedStore } from '../../knowledge/indexes/trained-store.ts'

const USERS = 20_000

describeEachEngine('a list of many users', (engine) => {
  let tenantId: string
  const store = sharedStore(engine, async (db) => {
    tenantId = (await addTenant(db)).id
    const users = Array.from({ length: USERS }, (_, at) => {
      const time = new Date(Date.UTC(2026, 0, 1) + at).toISOString()
      return userRow({ tenant_id: tenantId, created_at: time, updated_at: time })
    })
    await insertRows(db, 'users', users)
    const keys = users.slice(0, 5_000).map(({ id }) => apiKeyRow({ tenant_id: tenantId, user_id: id }))
    await insertRows(db, 'api_keys', keys)
    const use = { tenant_id: tenantId, counter: 'day', window_start: '', used: 1, last_used_at: '' }
    await insertRows(
      db,
      'rate_counters',
      keys.map(({ id }) => ({ ...use, api_key_id: id })),
    )
    // PostgreSQL does this automatically, SQLite does not.
    if (engine.name === 'postgres') await sql`analyze`.execute(db)
  })

  test.each<Record<string, string>>([
    {},
    { page: '100', limit: '100' },
    { sortOrder: 'asc' },
    { sortBy: 'updatedAt' },
    { sortBy: 'name' },
    { sortBy: 'email' },
    { sortBy: 'username' },
    { role: 'admin' },
    { license: 'Ultra' },
    { status: '0' },
    { search: 'user-' },
    { search: 'user-', sortBy: 'name' },
    { search: 'nobody' },
    { search: 'nobody', sortBy: 'name' },
  ])('reads its page from an index, and otherwise only rows of that page: %j', async (query) => {
    const plans = await queryPlans(store.db, (db) => listUsers(db, tenantId, ListUsersQuery.parse(query)))
    const details = plans.find((plan) => plan.includes('rate_counters'))
    if (engine.name === 'sqlite') {
      for (const plan of plans) expect(plan).not.toMatch(/^SCAN/m)
      if (details) {
        expect(details).toMatch(/SEARCH u USING INDEX \S+ \(tenant_id=\? AND id=\?\)/)
        expect(details).toMatch(/SEARCH k USING INDEX api_keys_by_user \(tenant_id=\? AND user_id=\?\)/)
        expect(details).toMatch(/SEARCH c USING INDEX \S+ \(tenant_id=\? AND api_key_id=\?\)/)
      }
      return
    }
    // Any row of the tenant may match, so PostgreSQL reads them all, from the table or from an index.
    const page = plans.find((plan) => plan.startsWith('Limit'))
    if (!query.search) expect(page).toMatch(/Index (Only )?Scan (Backward )?using \S+ on users/)
    if (details) {
      expect(details).toMatch(/Index Scan using \S+ on users u/)
      expect(details).not.toMatch(/Seq Scan on (users|api_keys|rate_counters)/)
    }
  })
})
