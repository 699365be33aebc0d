import { beforeEach, expect, test } from 'vitest'
import { insertRows } from '../../../../src/daemon/platform/db/insert-rows.ts'
import { apiKeyRow, tenantRow, userRow } from '../../../accounts.ts'
import { describeEachEngine, storeForEach } from '../../../engines.ts'

const created_at = '2026-01-01T00:00:00.000Z'
const at = { created_at, updated_at: created_at }

describeEachEngine('the schema', (engine) => {
  const store = storeForEach(engine)
  beforeEach(async () => {
    const { db } = store
    for (const tenant_id of ['one', 'two']) {
      await db
        .insertInto('tenants')
        .values(tenantRow({ id: tenant_id, name: tenant_id }))
        .execute()
      await db.insertInto('users').values(user(tenant_id, 'ada')).execute()
      const names = { id: `${tenant_id}-index`, name: 'handbook', description: '' }
      const index = { ...names, tenant_id, created_by: 'ada', index_access: 'write' as const, ...at }
      await db.insertInto('indexes').values(index).execute()
    }
  })

  const user = (tenant_id: string, name: string) =>
    userRow({ id: `${tenant_id}-${name}`, tenant_id, name, email: `${name}@example.org`, username: name })
  const key = (tenant_id: string, user_id: string, secret_hash: string) =>
    apiKeyRow({ id: secret_hash, tenant_id, user_id, secret_hash })
  const document = (tenant_id: string, id: string, source: string) => ({
    id,
    tenant_id,
    index_id: `${tenant_id}-index`,
    source,
    title: source,
    content_hash: 'h',
    passage_count: 1,
    state: 'published' as const,
    created_at,
    first_passage_id: null,
    in_shared_segment: 0,
  })
  const passage = (id: number, document_id: string, headings: string, body: string) => ({
    id,
    tenant_id: 'one',
    index_id: 'one-index',
    document_id,
    position: id,
    headings,
    body,
    page: null,
  })
  test('names are unique within a tenant, and independent of other tenants', async () => {
    const { db } = store
    await expect(
      db
        .insertInto('users')
        .values({ ...user('one', 'ada'), id: 'x', username: 'x', name: 'x' })
        .execute(),
    ).rejects.toThrow(/unique/i)
    await expect(
      db
        .insertInto('users')
        .values({ ...user('one', 'ada'), id: 'x', email: 'x', name: 'x' })
        .execute(),
    ).rejects.toThrow(/unique/i)
    await expect(
      db
        .insertInto('users')
        .values({ ...user('one', 'ada'), id: 'x', email: 'x', username: 'x' })
        .execute(),
    ).rejects.toThrow(/unique/i)
    await db
      .insertInto('api_keys')
      .values(key('one', 'one-ada', 'hash'))
      .execute()
    await expect(
      db
        .insertInto('api_keys')
        .values({ ...key('two', 'two-ada', 'hash'), id: 'y' })
        .execute(),
    ).rejects.toThrow(/unique/i)
  })

  test('rows of one tenant cannot refer to rows of another', async () => {
    const { db } = store
    await expect(
      db
        .insertInto('api_keys')
        .values(key('two', 'one-ada', 'hash'))
        .execute(),
    ).rejects.toThrow(/foreign key/i)
    await expect(
      db
        .insertInto('documents')
        .values({ ...document('two', 'd', 's'), index_id: 'one-index' })
        .execute(),
    ).rejects.toThrow(/foreign key/i)
  })

  test('deleting a user deletes the keys; a tenant that owns rows cannot be deleted', async () => {
    const { db } = store
    await db
      .insertInto('api_keys')
      .values(key('one', 'one-ada', 'hash'))
      .execute()
    await expect(db.deleteFrom('tenants').where('id', '=', 'one').execute()).rejects.toThrow(/foreign key/i)
    await db.deleteFrom('users').where('id', '=', 'one-ada').execute()
    expect(await db.selectFrom('api_keys').selectAll().execute()).toEqual([])
  })

  test('deleting an index deletes all its content', async () => {
    const { db } = store
    await insertRows(db, 'documents', [document('one', 'd1', 'a.md'), document('one', 'd2', 'b.md')])
    await insertRows(db, 'passages', [passage(1, 'd1', 'Travel', 'Tickets.'), passage(2 ** 40, 'd2', '', 'Holidays.')])
    const terms = Buffer.from([0, 0xff])
    const segment = { id: 's1', tenant_id: 'one', index_id: 'one-index', document_id: 'd1', merged_into: null }
    await db
      .insertInto('segments')
      .values({
        ...segment,
        state: 'draft',
        passage_count: 1,
        page_count: 1,
        passages: terms,
        lengths: terms,
        created_at,
      })
      .execute()
    await db.insertInto('postings').values({ tenant_id: 'one', segment_id: 's1', page: 's1.0', terms }).execute()
    expect(Buffer.from((await db.selectFrom('postings').select('terms').executeTakeFirstOrThrow()).terms)).toEqual(
      terms,
    )
    await db.deleteFrom('documents').where('id', '=', 'd2').execute()
    expect((await db.selectFrom('passages').select('id').execute()).map(({ id }) => id)).toEqual([1])
    await db.deleteFrom('indexes').where('id', '=', 'one-index').execute()
    for (const table of ['documents', 'passages', 'segments', 'postings'] as const) {
      expect(await db.selectFrom(table).selectAll().execute()).toEqual([])
    }
  })
})
