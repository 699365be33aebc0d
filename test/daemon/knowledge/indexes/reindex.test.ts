import { expect, test } from 'vitest'
import { reindexDocuments } from '../../../../src/daemon/knowledge/indexes/reindex.ts'
import { searchPassages } from '../../../../src/daemon/knowledge/search/search.ts'
import { systemClock } from '../../../../src/shared/time.ts'
import { describeEachEngine } from '../../../engines.ts'
import { insertNamedIndex, insertTenant, NOW, sharedStore, train } from './trained-store.ts'

describeEachEngine('documents of an older version', (engine) => {
  const store = sharedStore(engine, async (db) => {
    await insertTenant(db, 'a')
    await insertNamedIndex(db, 'a', 'zoo')
    const document = { tenant_id: 'a', index_id: 'zoo', title: 'Guide', content_hash: 'h', created_at: NOW }
    const old = { first_passage_id: null, in_shared_segment: 0 }
    await db
      .insertInto('documents')
      .values([
        { ...document, id: 'old', source: 'old.md', state: 'published', passage_count: 2, ...old },
        { ...document, id: 'half', source: 'half.md', state: 'draft', passage_count: 9, ...old },
      ])
      .execute()
    const passage = { tenant_id: 'a', index_id: 'zoo', headings: 'Guide' }
    await db
      .insertInto('passages')
      .values([
        { ...passage, id: 7, document_id: 'old', position: 0, body: 'Otters swim.' },
        { ...passage, id: 3, document_id: 'old', position: 1, body: 'Otters dive.' },
        { ...passage, id: 8, document_id: 'half', position: 0, body: 'Otters of a draft.' },
      ])
      .execute()
  })

  test('are found after a reindex, once and in order, and a second reindex changes nothing', async () => {
    await train(store.db, 'a', 'zoo', 'new.md', 'Pandas climb.')
    const lines: object[] = []
    const log = { info: (fields: object) => void lines.push(fields) }
    for (let time = 0; time < 2; time++) {
      await reindexDocuments(store.db, { clock: systemClock, log })
      const matches = await searchPassages(store.db, 'a', 'zoo', 'otters', 10)
      expect(matches.map(({ position, body }) => [position, body]).sort()).toEqual([
        [0, 'Otters swim.'],
        [1, 'Otters dive.'],
      ])
    }
    expect(lines).toEqual([{}, { documents: 1 }])
    expect((await searchPassages(store.db, 'a', 'zoo', 'pandas', 10)).map(({ source }) => source)).toEqual(['new.md'])
  })
})
