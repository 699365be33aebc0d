import { expect, test } from 'vitest'
import { createSegmentCache, type SegmentCache } from '../../../../src/daemon/knowledge/indexes/segment-cache.ts'
import { queryOf } from '../../../../src/daemon/knowledge/search/query.ts'
import { rankPassages } from '../../../../src/daemon/knowledge/search/search.ts'
import { describeEachEngine } from '../../../engines.ts'
import { insertNamedIndex, insertTenant, sharedStore, train } from './trained-store.ts'

describeEachEngine('searches that keep what they have read', (engine) => {
  const store = sharedStore(engine, async (db) => {
    await insertTenant(db, 'a')
    for (const name of ['zoo', 'park', 'farm']) await insertNamedIndex(db, 'a', name)
  })
  const search = async (indexId: string, query: string, cache: SegmentCache) =>
    (await rankPassages(store.db, { tenantId: 'a', indexId }, queryOf(query), 10, { cache })).map(
      ({ source, score }) => ({ source, score }),
    )

  test('the second search reads no postings again and returns the same result', async () => {
    for (let at = 0; at < 3; at++) await train(store.db, 'a', 'zoo', `${at}.md`, `The otter met otter number ${at}.`)
    const cache = createSegmentCache()
    const first = await search('zoo', 'otter number 2', cache)
    expect(first[0]).toMatchObject({ source: '2.md' })
    await store.db.deleteFrom('postings').execute()
    expect(await search('zoo', 'otter number 2', cache)).toEqual(first)
  })

  test('added, replaced and merged passages are visible at once', async () => {
    const cache = createSegmentCache()
    for (let at = 0; at < 7; at++) await train(store.db, 'a', 'park', `${at}.md`, `Herons and part${at}.`)
    expect(await search('park', 'herons', cache)).toHaveLength(7)
    // The eighth document triggers a merge.
    await train(store.db, 'a', 'park', '7.md', 'Herons and part7.')
    expect(await search('park', 'herons', cache)).toHaveLength(8)
    await train(store.db, 'a', 'park', '0.md', 'Something else.')
    expect(await search('park', 'herons', cache)).toHaveLength(7)
    expect((await search('park', 'part0', cache)).map(({ source }) => source)).not.toContain('0.md')
  })

  test.each([8, 8 * 250, 8 * 600])('a cache that is too small (%i bytes) changes no result', async (bytes) => {
    for (let at = 0; at < 5; at++) await train(store.db, 'a', 'farm', `${at}.md`, `Badgers and part${at}.`)
    const small = createSegmentCache(bytes)
    for (let times = 0; times < 3; times++) {
      expect(await search('farm', 'badgers part3', small)).toEqual(
        await search('farm', 'badgers part3', createSegmentCache()),
      )
    }
  })
})
