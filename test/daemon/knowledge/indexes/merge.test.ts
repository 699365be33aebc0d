import { expect, test } from 'vitest'
import { mergeSegments } from '../../../../src/daemon/knowledge/indexes/merge.ts'
import { claimForMerge, findUnmerged, insertSegment } from '../../../../src/daemon/knowledge/indexes/segment-store.ts'
import { removeAbandoned } from '../../../../src/daemon/knowledge/ingest/replacement.ts'
import { searchPassages } from '../../../../src/daemon/knowledge/search/search.ts'
import { describeEachEngine } from '../../../engines.ts'
import { insertNamedIndex, insertTenant, NOW, sharedStore, train } from './trained-store.ts'

const LATER = '2026-01-01T01:00:00.000Z'
const ANIMALS = ['otter', 'panda', 'zebra', 'lemur', 'badger', 'walrus', 'seal']
const text = (at: number) => `# Note ${at}\n\nThe ${ANIMALS[at % 7]} met the ${ANIMALS[(at * 3 + 1) % 7]} on day ${at}.`

describeEachEngine('merging segments', (engine) => {
  const store = sharedStore(engine, async (db) => {
    await insertTenant(db, 'a')
    for (const name of ['zoo', 'park', 'farm', 'pond']) await insertNamedIndex(db, 'a', name)
  })
  const index = (indexId: string) => ({ tenantId: 'a', indexId })
  const found = async (indexId: string, query: string) =>
    (await searchPassages(store.db, 'a', indexId, query, 50)).map(({ source, score, body }) => ({
      source,
      score,
      body,
    }))
  const sizes = async (indexId: string) =>
    (await findUnmerged(store.db, index(indexId))).map(({ passageCount }) => passageCount)
  const states = async (indexId: string) => {
    const rows = await store.db.selectFrom('documents').select('state').where('index_id', '=', indexId).execute()
    return new Set(rows.map(({ state }) => state))
  }
  const heldWords = async () =>
    (await store.db.selectFrom('postings').select('terms').execute())
      .map(({ terms }) => Buffer.from(terms).toString())
      .join()

  test('a hundred documents of one passage are in few segments, and each is found with its own score', async () => {
    for (let at = 0; at < 100; at++) await train(store.db, 'a', 'zoo', `${at}.md`, text(at))
    expect(await sizes('zoo')).toEqual([64, 8, 8, 8, 8, 1, 1, 1, 1])
    const matches = await found('zoo', 'Where is the note on day 42?')
    expect(matches[0]).toMatchObject({ source: '42.md', body: expect.stringContaining('day 42') })
    expect(matches).toHaveLength(50)
  })

  test('a merge changes no score', async () => {
    for (let at = 0; at < 7; at++) await train(store.db, 'a', 'park', `${at}.md`, text(at))
    const before = await found('park', 'otter and panda on day 4')
    // The eighth document triggers the merge; without it the index stays the same.
    await train(store.db, 'a', 'park', 'eighth.md', 'Nothing of all this.')
    expect(await sizes('park')).toEqual([8])
    await train(store.db, 'a', 'park', 'eighth.md', 'Something else then.')
    expect(await sizes('park')).toEqual([8, 1])
    const after = await found('park', 'otter and panda on day 4')
    expect(after.map(({ source }) => source)).toEqual(before.map(({ source }) => source))
    for (const [at, { score }] of after.entries()) expect(score).toBeCloseTo(before[at]?.score ?? 0, 1)
  })

  test('passages replaced after a merge are never found, do not affect scores, and are removed once they are many', async () => {
    for (let at = 0; at < 8; at++)
      await train(store.db, 'a', 'farm', `${at}.md`, `Herons and egrets, part number${at}.`)
    expect(await sizes('farm')).toEqual([8])
    await train(store.db, 'a', 'farm', '0.md', 'A pelican.')
    expect(await states('farm')).toEqual(new Set(['published', 'buried']))
    expect((await found('farm', 'heron')).map(({ source }) => source).sort()).toEqual(
      Array.from({ length: 7 }, (_, at) => `${at + 1}.md`),
    )
    const fresh = await engine.open()
    try {
      await insertTenant(fresh.db, 'a')
      await insertNamedIndex(fresh.db, 'a', 'farm')
      for (let at = 1; at < 8; at++)
        await train(fresh.db, 'a', 'farm', `${at}.md`, `Herons and egrets, part number${at}.`)
      await train(fresh.db, 'a', 'farm', '0.md', 'A pelican.')
      const scores = (await searchPassages(fresh.db, 'a', 'farm', 'egret', 50)).map(({ score }) => score)
      expect((await found('farm', 'egret')).map(({ score }) => score)).toEqual(scores)
    } finally {
      await fresh.close()
    }
    for (const at of [1, 2]) await train(store.db, 'a', 'farm', `${at}.md`, 'A pelican.')
    expect(await states('farm')).toEqual(new Set(['published']))
    expect(await sizes('farm')).toEqual([1, 1, 1, 5])
    const held = await heldWords()
    expect(['number0', 'number1', 'number2', 'number3'].map((word) => held.includes(word))).toEqual([
      false,
      false,
      false,
      true,
    ])
    for (const at of [3, 4, 5, 6, 7]) await train(store.db, 'a', 'farm', `${at}.md`, 'A pelican.')
    expect(await found('farm', 'egret')).toEqual([])
    expect(await found('farm', 'pelican')).toHaveLength(8)
  })

  test('concurrent trainings lose nothing', async () => {
    await Promise.all(
      Array.from({ length: 40 }, (_, at) => train(store.db, 'a', 'pond', `${at}.md`, `Frog number n${at} sings.`)),
    )
    await mergeSegments(store.db, index('pond'), NOW)
    expect((await sizes('pond')).reduce((sum, size) => sum + size, 0)).toBe(40)
    for (const at of [0, 17, 39]) expect((await found('pond', `n${at}`))[0]?.source).toBe(`${at}.md`)
  })

  test('an interrupted merge releases its segments after a timeout, and they stay searchable meanwhile', async () => {
    await mergeSegments(store.db, index('pond'), NOW)
    const free = await findUnmerged(store.db, index('pond'))
    const ids = free.map(({ id }) => id)
    const empty = { ids: new Float64Array(), lengths: new Uint16Array(), pageCount: 1 }
    await store.db.transaction().execute(async (tx) => {
      expect(await claimForMerge(tx, 'a', ids, 'crashed')).toBe(true)
      await insertSegment(tx, index('pond'), { id: 'crashed', documentId: null, state: 'draft', ...empty }, NOW)
    })
    expect(await sizes('pond')).toEqual([])
    expect(await found('pond', 'n17')).toHaveLength(1)
    await removeAbandoned(store.db, 'a', NOW)
    expect(await sizes('pond')).toEqual([])
    await removeAbandoned(store.db, 'a', LATER)
    expect(await findUnmerged(store.db, index('pond'))).toEqual(free)
  })
})
