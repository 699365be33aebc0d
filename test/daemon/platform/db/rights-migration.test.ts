import { type Kysely, sql } from 'kysely'
import { expect, test } from 'vitest'
import { rights } from '../../../../src/daemon/platform/db/migrations/0029-rights.ts'
import { skeletons } from '../../../../src/daemon/platform/db/migrations/0032-skeletons.ts'
import { addKey, addRole, addTenant, addUser } from '../../../accounts.ts'
import { describeEachEngine, storeForEach } from '../../../engines.ts'

const TABLES = ['tenants', 'users', 'groups', 'roles', 'api_keys']

describeEachEngine('a store from before names had skeletons', (engine) => {
  const store = storeForEach(engine)
  const run = async (statements: readonly string[]) => {
    for (const statement of statements) await sql.raw(statement).execute(store.db)
  }

  test('gets the skeletons of all names, and indexes keep their rule', async () => {
    const { db } = store
    const { id: tenant_id } = await addTenant(db, { name: 'Аcme' })
    const users = []
    // More than one page of rows.
    for (let at = 0; at < 1_050; at++) users.push(await addUser(db, { tenant_id, name: `Usеr ${at}` }))
    const [user] = users
    if (!user) throw new Error('no user')
    await addKey(db, user, { name: 'Dеploy' })
    await addRole(db, { tenant_id, display_name: 'ОPS' })
    const times = { created_at: '2026-01-01', updated_at: '2026-01-01' }
    const index = { id: 'i', tenant_id, name: 'handbook', description: '', created_by: user.id, ...times }
    await db
      .insertInto('indexes')
      .values({ ...index, index_access: 'read' })
      .execute()
    await run(TABLES.map((table) => `drop index ${table}_by_skeleton`))
    await run(TABLES.map((table) => `alter table "${table}" drop column name_skeleton`))
    await run(['alter table indexes drop column index_access'])

    const dialect =
      engine.name === 'sqlite'
        ? ({ engine: 'sqlite', text: 'text', integer: 'integer', tableEnd: ' strict' } as const)
        : ({ engine: 'postgres', text: 'text collate "C"', integer: 'bigint', tableEnd: '' } as const)
    await run(rights.before(dialect))
    await db.transaction().execute((tx) => rights.move(tx as unknown as Kysely<unknown>))
    await run(rights.after(dialect))

    const skeletonsIn = async (table: 'users' | 'tenants' | 'api_keys' | 'roles') =>
      (await db.selectFrom(table).select('name_skeleton').execute()).map((row) => row.name_skeleton)
    expect(await skeletonsIn('tenants')).toContain('acme')
    expect(await skeletonsIn('api_keys')).toContain('deploy')
    expect(await skeletonsIn('roles')).toContain('ops')
    expect((await skeletonsIn('users')).filter((skeleton) => /^user [\dlo]+$/.test(skeleton ?? ''))).toHaveLength(1_050)
    const { index_access } = await db.selectFrom('indexes').select('index_access').executeTakeFirstOrThrow()
    expect(index_access).toBe('write')
  })

  test('gets new skeletons when their rule changes, also for names that now look alike', async () => {
    const { db } = store
    const { id: tenant_id } = await addTenant(db, { name: 'Acme' })
    const names = ['paypal', 'paypaӀ', 'admi\u0307n', 'admin']
    for (const name of names) await addUser(db, { tenant_id, name })
    await db.updateTable('users').set({ name_skeleton: 'earlier' }).execute()
    await db.updateTable('users').set({ name_skeleton: null }).where('name', '=', 'admin').execute()
    await db.transaction().execute((tx) => skeletons.move(tx as unknown as Kysely<unknown>))
    const rows = await db.selectFrom('users').select(['name', 'name_skeleton']).orderBy('name').execute()
    const found = Object.fromEntries(rows.map(({ name, name_skeleton }) => [name, name_skeleton]))
    expect(names.map((name) => found[name])).toEqual(['paypal', 'paypal', 'admln', 'admln'])
  })
})
