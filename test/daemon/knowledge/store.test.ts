import { expect, test } from 'vitest'
import type { Passage } from '../../../src/daemon/knowledge/chunking.ts'
import { searchPassages } from '../../../src/daemon/knowledge/search.ts'
import {
  findDocument,
  findIndexByName,
  listIndexes,
  listIndexNames,
  replaceDocument,
} from '../../../src/daemon/knowledge/store.ts'
import { describeEachEngine } from '../../engines.ts'
import { insertNamedIndex, insertTenant, NOW, sharedStore, train } from './trained-store.ts'

describeEachEngine('the store of indexes', (engine) => {
  const store = sharedStore(engine, async (db) => {
    for (const tenant of ['a', 'b']) await insertTenant(db, tenant)
    for (const name of ['guide', 'hand_book', 'handbook']) await insertNamedIndex(db, 'a', name)
    await insertNamedIndex(db, 'b', 'of-b')
  })
  const passagesOf = (source: string) =>
    store.db
      .selectFrom('passages')
      .innerJoin('documents', 'documents.id', 'passages.document_id')
      .where('documents.source', '=', source)
      .select('body')
      .orderBy('passages.position')
      .execute()
      .then((rows) => rows.map(({ body }) => body))

  test('a name is given once per tenant, also to two who ask at once', async () => {
    const both = await Promise.allSettled(['race', 'race'].map((id) => insertNamedIndex(store.db, 'b', id)))
    // The same id would collide as well; what decides here is the name, so each has its own.
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
    await expect(insertNamedIndex(store.db, 'a', 'guide')).rejects.toMatchObject({ code: 'INDEX_NAME_EXISTS' })
  })

  test('a tenant finds only its own', async () => {
    expect(await findIndexByName(store.db, 'b', 'guide')).toBeUndefined()
    expect((await listIndexNames(store.db, 'a')).map(({ name }) => name)).toEqual(['guide', 'hand_book', 'handbook'])
  })

  test('lists pages with counts, and searches for signs as they are written', async () => {
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

  test('a new version of a document takes the place of the old one, in search too', async () => {
    await train(store.db, 'a', 'handbook', 'version.md', 'Elephants are grey.\n\n# More\n\nThey are large.')
    await train(store.db, 'a', 'handbook', 'version.md', 'Giraffes are tall.')
    expect(await passagesOf('version.md')).toEqual(['Giraffes are tall.'])
    expect(await searchPassages(store.db, 'a', 'handbook', 'elephants', 10)).toEqual([])
    expect(await searchPassages(store.db, 'a', 'handbook', 'giraffes', 10)).toHaveLength(1)
    expect(await findDocument(store.db, { tenantId: 'a', indexId: 'handbook' }, 'version.md')).toEqual({
      contentHash: 'Giraffes are tall.',
      passages: 1,
    })
  })

  test('a replacement that fails half-way leaves the old version whole', async () => {
    await train(store.db, 'a', 'handbook', 'stays.md', 'Walruses have tusks.')
    const passages: Passage[] = Array.from({ length: 150 }, (_, position) => ({
      position,
      headings: '',
      body: 'New text.',
    }))
    passages.push({ position: 150, headings: '', body: 'not storable \0' })
    const document = { source: 'stays.md', title: '', contentHash: 'new', now: NOW }
    const key = { tenantId: 'a', indexId: 'handbook' }
    const replaced = store.db.transaction().execute((tx) => replaceDocument(tx, key, document, passages))
    await expect(replaced).rejects.toThrow()
    expect(await passagesOf('stays.md')).toEqual(['Walruses have tusks.'])
    expect(await searchPassages(store.db, 'a', 'handbook', 'walruses', 10)).toHaveLength(1)
  })

  test('many trainings at once give every passage its own id and every document all of its passages', async () => {
    const text = (at: number) => Array.from({ length: 20 }, (_, part) => `# Part ${part}\n\nText ${at}.`).join('\n\n')
    const sources = Array.from({ length: 12 }, (_, at) => `many-${at % 8}.md`)
    await Promise.all(sources.map((source, at) => train(store.db, 'a', 'handbook', source, text(at))))
    for (const source of new Set(sources)) {
      const bodies = await passagesOf(source)
      expect(bodies).toHaveLength(20)
      expect(new Set(bodies).size).toBe(1)
    }
  })
})
