import { expect, test } from 'vitest'
import { findReadableIndex, listReadableIndexes } from '../../../../src/daemon/knowledge/indexes/index-access.ts'
import { insertIndex, listIndexes } from '../../../../src/daemon/knowledge/indexes/store.ts'
import { NOBODY } from '../../../../src/daemon/platform/http/caller.ts'
import { describeEachEngine } from '../../../engines.ts'
import { insertNamedIndex, insertTenant, NOW, sharedStore, train } from './trained-store.ts'

describeEachEngine('the store of indexes', (engine) => {
  const store = sharedStore(engine, async (db) => {
    for (const tenant of ['a', 'b']) await insertTenant(db, tenant)
    for (const name of ['guide', 'hand_book', 'handbook']) await insertNamedIndex(db, 'a', name)
    await insertNamedIndex(db, 'b', 'of-b')
  })
  test('a name is unique per tenant, even for two concurrent requests', async () => {
    const times = { created_at: NOW, updated_at: NOW }
    const race = {
      tenant_id: 'b',
      name: 'race',
      description: '',
      created_by: 'u',
      index_access: 'write',
      ...times,
    } as const
    const both = await Promise.allSettled(['one', 'two'].map((id) => insertIndex(store.db, { ...race, id })))
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
    const refused = both.find(({ status }) => status === 'rejected')
    expect(refused).toMatchObject({ reason: { code: 'INDEX_NAME_EXISTS' } })
    await insertIndex(store.db, { ...race, id: 'three', tenant_id: 'a' })
    await store.db.deleteFrom('indexes').where('id', '=', 'three').execute()
  })

  test('a tenant finds only its own indexes', async () => {
    const caller = (tenantId: string, ...allowedIndexes: string[]) => ({
      ...NOBODY,
      tenantId,
      settings: { ...NOBODY.settings, allowedIndexes },
    })
    expect(await findReadableIndex(store.db, caller('b'), 'guide')).toBeUndefined()
    expect(await findReadableIndex(store.db, caller('a'), 'guide')).toMatchObject({ tenant_id: 'a', name: 'guide' })
    const names = async (...allowed: string[]) =>
      (await listReadableIndexes(store.db, caller('a', ...allowed))).map(({ name }) => name)
    expect(await names()).toEqual(['guide', 'hand_book', 'handbook'])
    expect(await names('handbook', 'of-b', 'nowhere', 'guide')).toEqual(['guide', 'handbook'])
  })

  test('lists pages with counts, and searches punctuation literally', async () => {
    await train(store.db, 'a', 'guide', 'one.md', 'One.')
    await train(store.db, 'a', 'guide', 'two.md', 'Two.')
    const list = (page: number, limit: number, search?: string) => listIndexes(store.db, 'a', { page, limit, search })
    const all = await list(1, 10)
    expect(all.total).toBe(3)
    expect(all.indexes.find(({ name }) => name === 'guide')?.documentCount).toBe(2)
    const pages = [await list(1, 2), await list(2, 2)]
    expect(pages.flatMap(({ indexes }) => indexes)).toEqual(all.indexes)
    expect((await list(1, 10, 'D_B')).indexes.map(({ name }) => name)).toEqual(['hand_book'])
    expect((await list(1, 10, '%')).total).toBe(0)
  })
})
