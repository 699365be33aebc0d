import { sql } from 'kysely'
import { expect, test } from 'vitest'
import {
  addMembers,
  deleteGroup,
  findGroup,
  type GroupFilter,
  insertGroup,
  listGroups,
  removeUserFromGroups,
  replaceMembers,
  updateGroup,
} from '../../../../src/daemon/identity/groups/store.ts'
import type { Db } from '../../../../src/daemon/platform/db/db.ts'
import { insertRows } from '../../../../src/daemon/platform/db/insert-rows.ts'
import { toSearchText } from '../../../../src/daemon/platform/db/list-page.ts'
import type { Tables } from '../../../../src/daemon/platform/db/tables.ts'
import { lockTenant } from '../../../../src/daemon/platform/db/tenant-lock.ts'
import { skeletonOf } from '../../../../src/daemon/platform/text/skeleton.ts'
import { newId } from '../../../../src/shared/ids.ts'
import { GROUP_SORTS } from '../../../../src/shared/wire/groups.ts'
import { addTenant, addUser, tenantRow, userRow } from '../../../accounts.ts'
import { describeEachEngine } from '../../../engines.ts'
import { queryPlans } from '../../../query-plan.ts'
import { sharedStore } from '../../knowledge/indexes/trained-store.ts'

const CREATED = '2026-01-01T00:00:00.000Z'

function groupRow(tenant_id: string, given: Partial<Tables['groups']> = {}): Tables['groups'] {
  const id = given.id ?? newId()
  const name = given.name ?? `group ${id}`
  return {
    id,
    tenant_id,
    description: '',
    status: 'Active',
    user_count: 0,
    search_text: toSearchText(name, given.description ?? ''),
    name_skeleton: skeletonOf(name),
    created_at: CREATED,
    updated_at: CREATED,
    ...given,
    name,
  }
}

const counts = (db: Db, tenantId: string) =>
  db
    .selectFrom('groups')
    .leftJoin('group_members as m', 'm.group_id', 'groups.id')
    .select((the) => ['groups.id', 'groups.user_count', the.fn.count<number>('m.user_id').as('members')])
    .where('groups.tenant_id', '=', tenantId)
    .groupBy(['groups.id', 'groups.user_count'])
    .orderBy('groups.id')
    .execute()

describeEachEngine('the store of groups', (engine) => {
  const store = sharedStore(engine, async () => undefined)

  async function addGroup(tenantId: string, users: string[]): Promise<Tables['groups']> {
    const group = groupRow(tenantId, { user_count: users.length })
    await insertGroup(store.db, group)
    await addMembers(store.db, tenantId, group.id, users)
    return group
  }

  test('deleting a user removes them from every group and updates each count', async () => {
    const { id: tenant } = await addTenant(store.db)
    const [gone, stays] = [
      await addUser(store.db, { tenant_id: tenant }),
      await addUser(store.db, { tenant_id: tenant }),
    ]
    const one = await addGroup(tenant, [gone.id, stays.id])
    const two = await addGroup(tenant, [gone.id])
    const three = await addGroup(tenant, [stays.id])
    await store.db.transaction().execute(async (tx) => {
      await lockTenant(tx, tenant)
      await removeUserFromGroups(tx, tenant, gone.id)
      await tx.deleteFrom('users').where('id', '=', gone.id).execute()
    })
    expect(await counts(store.db, tenant)).toEqual([
      { id: one.id, user_count: 1, members: 1 },
      { id: two.id, user_count: 0, members: 0 },
      { id: three.id, user_count: 1, members: 1 },
    ])
  })

  test('a user of another tenant in the same request is unchanged', async () => {
    const [{ id: mine }, { id: theirs }] = [await addTenant(store.db), await addTenant(store.db)]
    const user = await addUser(store.db, { tenant_id: theirs })
    const group = await addGroup(theirs, [user.id])
    await removeUserFromGroups(store.db, mine, user.id)
    expect(await deleteGroup(store.db, mine, group.id)).toBeUndefined()
    expect(await findGroup(store.db, mine, group.id)).toBeUndefined()
    await updateGroup(store.db, { ...group, tenant_id: mine, name: 'taken over' })
    await expect(addMembers(store.db, mine, group.id, [user.id])).rejects.toMatchObject({
      code: 'VALIDATION_ERROR',
      details: { field: 'users', value: user.id },
    })
    expect(await findGroup(store.db, theirs, group.id)).toMatchObject({ ...group, members: [{ id: user.id }] })
  })

  test('deleting users while their groups change causes no wrong count and no deadlock', async () => {
    const { id: tenant } = await addTenant(store.db)
    const users: string[] = []
    for (let at = 0; at < 12; at++) users.push((await addUser(store.db, { tenant_id: tenant })).id)
    const groups: string[] = []
    for (let at = 0; at < 4; at++) groups.push((await addGroup(tenant, users)).id)

    const inTurn = (run: (tx: Db) => Promise<unknown>) =>
      store.db.transaction().execute(async (tx) => {
        await lockTenant(tx, tenant)
        await run(tx)
      })
    const changes = users.slice(0, 8).flatMap((user, at) => {
      const group = groups[at % 3] as string
      return [
        inTurn(async (tx) => {
          await removeUserFromGroups(tx, tenant, user)
          await tx.deleteFrom('users').where('id', '=', user).execute()
        }),
        inTurn(async (tx) => {
          const wanted = users.slice(at + 1)
          await replaceMembers(tx, tenant, group, wanted)
          await tx.updateTable('groups').set({ user_count: wanted.length }).where('id', '=', group).execute()
        }),
      ]
    })
    const settled = await Promise.allSettled([...changes, inTurn((tx) => deleteGroup(tx, tenant, groups[3] as string))])
    for (const one of settled) {
      // Adding a user who was just deleted returns the documented error; any other error would be a bug.
      if (one.status === 'rejected') expect(one.reason).toMatchObject({ code: 'VALIDATION_ERROR' })
    }
    const left = await counts(store.db, tenant)
    expect(left.map(({ id }) => id)).toEqual(groups.slice(0, 3))
    for (const { user_count, members } of left) expect(user_count).toBe(members)
  })

  test('lists and searches use an index, with 20,000 groups in the store', async () => {
    const tenants = Array.from({ length: 10 }, () => tenantRow())
    await insertRows(store.db, 'tenants', tenants)
    const groups = tenants.flatMap(({ id }) =>
      Array.from({ length: 2_000 }, (_, at) =>
        groupRow(id, {
          name: `Team ${at}`,
          description: 'x'.repeat(100),
          status: at % 2 ? 'Active' : 'Inactive',
          user_count: 1 + (at % 50),
          created_at: new Date(Date.UTC(2026, 0, 1, 0, 0, at)).toISOString(),
          updated_at: new Date(Date.UTC(2026, 0, 2, 0, 0, -at)).toISOString(),
        }),
      ),
    )
    await insertRows(store.db, 'groups', groups)
    const tenant = tenants[4]?.id as string
    const users = Array.from({ length: 50 }, () => userRow({ tenant_id: tenant }))
    await insertRows(store.db, 'users', users)
    const members = groups
      .filter(({ tenant_id }) => tenant_id === tenant)
      .flatMap(({ id, user_count }) =>
        users.slice(0, user_count).map((user) => ({ tenant_id: tenant, group_id: id, user_id: user.id })),
      )
    await insertRows(store.db, 'group_members', members)
    // PostgreSQL does this automatically, SQLite does not.
    if (engine.name === 'postgres') await sql`analyze`.execute(store.db)

    const page = { page: 1, limit: 20 }
    const filters: GroupFilter[] = GROUP_SORTS.flatMap((sortBy) => [
      { ...page, sortBy, sortOrder: 'desc' as const },
      { ...page, sortBy, sortOrder: 'asc' as const, search: 'eam 77' },
      { ...page, sortBy, sortOrder: 'asc' as const, status: 'Inactive' as const },
    ])
    for (const filter of filters) {
      const plans = await queryPlans(store.db, async (db) => {
        const { groups: found, total } = await listGroups(db, tenant, filter)
        expect(found).not.toEqual([])
        expect(total).toBe(filter.search ? 11 : filter.status ? 1_000 : 2_000)
        for (const { user_count, members } of found) expect(members).toHaveLength(user_count)
      })
      // The page, the count unless the page implies it, the rows, and one query for the members of all groups.
      expect(plans).toHaveLength(4)
      for (const plan of plans.slice(0, 3)) {
        expect(plan).toMatch(engine.name === 'sqlite' ? /SEARCH groups USING/ : /Index/)
        expect(plan).not.toMatch(/SCAN groups|Seq Scan on groups/)
      }
      const members = plans[3]
      expect(members).not.toMatch(/SCAN (g|m|x|u)\b|Seq Scan on (groups|group_members|users)/)
      expect(members).toMatch(
        engine.name === 'sqlite' ? /SEARCH m .*group_id=\? AND user_id<\?/ : /Index Cond: .*user_id.* <= /,
      )
    }
  })
})
