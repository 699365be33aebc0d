import { sql } from 'kysely'
import { expect, test } from 'vitest'
import {
  deleteRole,
  findRole,
  findRoleView,
  listRoles,
  type RoleFilter,
  roleRightsOf,
  toRightsColumns,
  updateRole,
} from '../../../../src/daemon/identity/roles/store.ts'
import { insertRows } from '../../../../src/daemon/platform/db/insert-rows.ts'
import type { Tables } from '../../../../src/daemon/platform/db/tables.ts'
import { ROLE_SORTS } from '../../../../src/shared/wire/roles.ts'
import { addRole, addTenant, userRow } from '../../../accounts.ts'
import { describeEachEngine } from '../../../engines.ts'
import { queryPlans } from '../../../query-plan.ts'
import { sharedStore } from '../../knowledge/indexes/trained-store.ts'

describeEachEngine('the store of roles', (engine) => {
  const store = sharedStore(engine, async () => undefined)

  test('a tenant finds, changes and deletes only its own roles', async () => {
    const [{ id: mine }, { id: theirs }] = [await addTenant(store.db), await addTenant(store.db)]
    const role = await addRole(store.db, { tenant_id: theirs })
    expect(await findRole(store.db, mine, role.id)).toBeUndefined()
    expect(await findRoleView(store.db, mine, role.id)).toBeUndefined()
    await updateRole(store.db, { ...role, tenant_id: mine, description: 'taken over' })
    await deleteRole(store.db, { ...role, tenant_id: mine })
    expect(await findRole(store.db, theirs, role.id)).toEqual(role)
  })

  test('rights are read from their columns as they were written', () => {
    for (const flag of [true, false]) {
      const rights = {
        hasAdminPanelAccess: flag,
        permissions: [{ section: 'settings', level: 'reader' }] as const,
        canInteractWithAI: !flag,
        canUseChat: flag,
      }
      expect(roleRightsOf(toRightsColumns(rights))).toEqual(rights)
    }
  })

  test('users are counted through an index, with 20,000 of them', async () => {
    const tenants = []
    for (let at = 0; at < 10; at++) tenants.push((await addTenant(store.db)).id)
    const [tenant] = tenants as [string]
    const users = tenants.flatMap((tenant_id) => Array.from({ length: 2_000 }, () => userRow({ tenant_id })))
    await insertRows(store.db, 'users', users)
    const roles: Tables['roles'][] = []
    for (const tenant_id of tenants) for (let at = 0; at < 20; at++) roles.push(await addRole(store.db, { tenant_id }))
    // Users and roles are inserted tenant by tenant: 100 for each.
    const given = users.map(({ tenant_id, id }, at) => ({
      tenant_id,
      user_id: id,
      role_id: roles[Math.floor(at / 100)]?.id ?? '',
    }))
    await insertRows(store.db, 'user_roles', given)
    await sql`analyze`.execute(store.db)

    for (const sortBy of ROLE_SORTS) {
      const filter: RoleFilter = { page: 1, limit: 100, sortBy, sortOrder: 'desc' }
      const plans = await queryPlans(store.db, async (db) => {
        const found = await listRoles(db, tenant, filter)
        expect(found.total).toBe(23)
        const counted = found.roles.map(({ name, user_count }) => [name.split('-')[0], user_count])
        expect(counted).toContainEqual(['user', 2_000])
        expect(counted.filter(([name, count]) => name === 'role' && count === 100)).toHaveLength(20)
      })
      // The total, the page, the users of its custom roles in one query, and those of each system role.
      expect(plans).toHaveLength(6)
      for (const plan of plans) expect(plan).not.toMatch(/SCAN (users|user_roles)|Seq Scan on (users|user_roles)/)
    }
  })
})
