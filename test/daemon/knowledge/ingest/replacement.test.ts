import { mkdir, mkdtemp, readdir, rm, utimes } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import {
  discardDocument,
  findDocuments,
  findUnpublished,
  insertDraft,
  publishDraft,
} from '../../../../src/daemon/knowledge/indexes/document-store.ts'
import type { Draft } from '../../../../src/daemon/knowledge/indexes/document-types.ts'
import { purgeDeletedIndexes } from '../../../../src/daemon/knowledge/indexes/index-removal.ts'
import { purgeKnowledge } from '../../../../src/daemon/knowledge/indexes/purge.ts'
import { insertSegment } from '../../../../src/daemon/knowledge/indexes/segment-store.ts'
import { listIndexes } from '../../../../src/daemon/knowledge/indexes/store.ts'
import type { Passage } from '../../../../src/daemon/knowledge/ingest/chunking.ts'
import { prepareDocument } from '../../../../src/daemon/knowledge/ingest/prepared-document.ts'
import { removeAbandoned, replaceDocument, writePrepared } from '../../../../src/daemon/knowledge/ingest/replacement.ts'
import { searchPassages } from '../../../../src/daemon/knowledge/search/search.ts'
import { UPLOAD_TIMEOUT_MS } from '../../../../src/shared/spec-limits.ts'
import { describeEachEngine } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { insertNamedIndex, insertTenant, NOW, sharedStore, train, unwatched } from '../indexes/trained-store.ts'

const LATER = '2026-01-01T01:00:00.000Z'
const key = { tenantId: 'a', indexId: 'zoo' }
const passages = (count: number, body: string): Passage[] =>
  Array.from({ length: count }, (_, position) => ({ position, headings: '', body }))
const document = (source: string) => ({ source, title: '', contentHash: 'new', now: NOW })
const prepared = (source: string, batch: Passage[]) => ({
  source,
  contentHash: 'new',
  prepared: prepareDocument('', source, batch),
  now: NOW,
})

describeEachEngine('replacing a document', (engine) => {
  const store = sharedStore(engine, async (db) => {
    for (const tenant of ['a', 'b']) {
      await insertTenant(db, tenant)
      await insertNamedIndex(db, tenant, tenant === 'a' ? 'zoo' : 'farm')
    }
  })
  const stored = (source: string) =>
    store.db
      .selectFrom('passages')
      .innerJoin('documents', 'documents.id', 'passages.document_id')
      .where('documents.source', '=', source)
      .select('body')
      .orderBy('passages.position')
      .execute()
      .then((rows) => rows.map(({ body }) => body))
  const found = async (word: string) => (await searchPassages(store.db, 'a', 'zoo', word, 50)).length
  const versions = async (source: string) =>
    (await store.db.selectFrom('documents').select('state').where('source', '=', source).execute()).map(
      ({ state }) => state,
    )
  const write = (draft: Draft, batch: Passage[]) =>
    writePrepared(store.db, draft, prepareDocument('', '', batch), { signal: new AbortController().signal, now: NOW })
  const insert = (index: typeof key, source: string, passageCount: number) =>
    store.db.transaction().execute((tx) => insertDraft(tx, index, { ...document(source), passageCount }))

  test('the new document replaces the old one, in search too, without remains', async () => {
    await train(store.db, 'a', 'zoo', 'version.md', 'Elephants are grey.\n\n# More\n\nThey are large.')
    await train(store.db, 'a', 'zoo', 'version.md', 'Giraffes are tall.')
    expect(await stored('version.md')).toEqual(['Giraffes are tall.'])
    expect(await versions('version.md')).toEqual(['published'])
    expect([await found('elephants'), await found('giraffes')]).toEqual([0, 1])
    const hit = (await findDocuments(store.db, key, ['version.md'])).get('version.md')
    expect(hit).toEqual({ contentHash: 'Giraffes are tall.', passageCount: 1 })
  })

  test('a document of many batches becomes visible at once', async () => {
    await train(store.db, 'a', 'zoo', 'large.md', 'Walruses have tusks.')
    const documentCount = async () =>
      (await listIndexes(store.db, 'a', { page: 1, limit: 1 })).indexes[0]?.documentCount
    const before = await documentCount()
    const draft = await insert(key, 'large.md', 400)
    for (let start = 0; start < 400; start += 200) {
      await write(draft, passages(400, 'Seals have fins.').slice(start, start + 200))
      expect([await found('walruses'), await found('seals')]).toEqual([1, 0])
      expect((await findDocuments(store.db, key, ['large.md'])).get('large.md')).toMatchObject({ passageCount: 1 })
      expect(await documentCount()).toBe(before)
    }
    await store.db.transaction().execute((tx) => publishDraft(tx, draft, 'large.md'))
    expect([await found('walruses'), await found('seals')]).toEqual([0, 50])
    expect(await documentCount()).toBe(before)
  })

  test('unpublished passages do not affect scores', async () => {
    const score = async () => (await searchPassages(store.db, 'a', 'zoo', 'giraffes', 1))[0]?.score
    const before = await score()
    const draft = await insert(key, 'other.md', 100)
    await write(draft, passages(100, 'Giraffes are tall.'))
    expect(await score()).toBeCloseTo(before ?? 0, 6)
    await discardDocument(store.db, draft)
  })

  test('a replacement that fails midway keeps the old document and leaves no remains', async () => {
    await train(store.db, 'a', 'zoo', 'stays.md', 'Badgers dig.')
    const broken = [...passages(450, 'New text.'), { position: 450, headings: '', body: 'not storable \0' }]
    await expect(replaceDocument(store.db, key, prepared('stays.md', broken), unwatched(store.db))).rejects.toThrow()
    expect(await stored('stays.md')).toEqual(['Badgers dig.'])
    expect(await versions('stays.md')).toEqual(['published'])
    expect(await found('badgers')).toBe(1)
  })

  test('when the client disconnects, the old document stays unchanged', async () => {
    await train(store.db, 'a', 'zoo', 'left.md', 'Lemurs leap.')
    const reason = new Error('left')
    const replaced = replaceDocument(store.db, key, prepared('left.md', passages(9, 'x')), {
      ...unwatched(store.db),
      signal: AbortSignal.abort(reason),
    })
    await expect(replaced).rejects.toBe(reason)
    expect([await stored('left.md'), await versions('left.md')]).toEqual([['Lemurs leap.'], ['published']])
  })

  test('remains of a crash are removed after a timeout, only unpublished ones of this tenant', async () => {
    await train(store.db, 'a', 'zoo', 'crash.md', 'Foxes bark.')
    const draft = await insert(key, 'crash.md', 900)
    await write(draft, passages(450, 'Half a document.'))
    await train(store.db, 'b', 'farm', 'crash.md', 'Cows moo.')
    const farm = { tenantId: 'b', indexId: 'farm' }
    await insert(farm, 'crash.md', 1)

    await removeAbandoned(store.db, 'a', NOW)
    expect(await stored('crash.md')).toHaveLength(452)
    await removeAbandoned(store.db, 'a', LATER)
    expect((await stored('crash.md')).sort()).toEqual(['Cows moo.', 'Foxes bark.'])
    expect(await findUnpublished(store.db, 'a', LATER)).toEqual([])
    expect(await findUnpublished(store.db, 'b', LATER)).toHaveLength(1)
    expect(await found('foxes')).toBe(1)
  })

  test('a discarded replacement can no longer be published', async () => {
    const draft = await insert(key, 'slow.md', 2)
    await write(draft, passages(1, 'Slow.'))
    expect(await discardDocument(store.db, draft)).toBe(true)
    await expect(write(draft, passages(2, 'Slow.').slice(1))).rejects.toThrow('discarded')
    await expect(store.db.transaction().execute((tx) => publishDraft(tx, draft, 'slow.md'))).rejects.toThrow(
      'discarded',
    )
    expect(await found('slow')).toBe(0)
  })

  test('published documents cannot be discarded by the cleanup', async () => {
    const draft = await insert(key, 'done.md', 0)
    await store.db.transaction().execute((tx) => publishDraft(tx, draft, 'done.md'))
    expect(await discardDocument(store.db, draft)).toBe(false)
  })

  test('other writers run between its transactions', async () => {
    let done = false
    const replaced = replaceDocument(
      store.db,
      key,
      prepared('long.md', passages(3000, 'Long.')),
      unwatched(store.db),
    ).then(() => {
      done = true
    })
    for (const id of ['x', 'y', 'z']) {
      await store.db.transaction().execute((tx) => insertTenant(tx, id))
      expect(done).toBe(false)
    }
    await replaced
    expect(await found('long')).toBe(50)
  })

  test('concurrent trainings give every passage its own id and every document all of its passages', async () => {
    const text = (at: number) => Array.from({ length: 20 }, (_, part) => `# Part ${part}\n\nText ${at}.`).join('\n\n')
    const sources = Array.from({ length: 12 }, (_, at) => `many-${at % 8}.md`)
    await Promise.all(sources.map((source, at) => train(store.db, 'a', 'zoo', source, text(at))))
    for (const source of new Set(sources)) {
      const bodies = await stored(source)
      expect(bodies).toHaveLength(20)
      expect(new Set(bodies).size).toBe(1)
    }
  })

  test('deleting an index during training returns "not found" and leaves no remains', async () => {
    const short = { tenantId: 'a', indexId: 'short' }
    await insertNamedIndex(store.db, 'a', 'short')
    const deleteIndex = async () => {
      await store.db.updateTable('indexes').set({ deleted_at: NOW }).where('id', '=', 'short').execute()
      await purgeDeletedIndexes(store.db)
    }
    const rejected = replaceDocument(store.db, short, prepared('gone.md', passages(60, 'Gone.')), {
      ...unwatched(store.db),
      async inPublication(publish) {
        await deleteIndex()
        return store.db.transaction().execute(publish)
      },
    })
    await expect(rejected).rejects.toMatchObject({ code: 'INDEX_NOT_FOUND' })
    const draft = await insert(short, 'late.md', 2)
    await purgeDeletedIndexes(store.db)
    await expect(write(draft, passages(2, 'Late.'))).rejects.toThrow()
    // A segment without a document, as a killed rebuild or merge leaves it.
    await insertSegment(store.db, short, { id: 'left', documentId: null, state: 'draft', ...NOTHING }, NOW)
    await purgeDeletedIndexes(store.db)
    for (const table of ['documents', 'passages', 'segments'] as const) {
      expect(await store.db.selectFrom(table).selectAll().where('index_id', '=', 'short').execute()).toEqual([])
    }
  })
})

describeEachEngine('what a killed daemon has left', (engine) => {
  const store = sharedStore(engine, async (db) => {
    for (const tenant of ['a', 'b']) {
      await insertTenant(db, tenant)
      await insertNamedIndex(db, tenant, tenant === 'a' ? 'zoo' : 'farm')
    }
  })

  test('of replaced documents, merges and uploads is removed in every tenant after a timeout, or at once without other writers', async () => {
    const { db } = store
    const clock = createFakeClock(Date.parse(NOW))
    const uploadsDir = await mkdtemp(join(tmpdir(), 'aigw-test-'))
    try {
      for (const [tenantId, indexId] of [
        ['a', 'zoo'],
        ['b', 'farm'],
      ] as const) {
        await train(db, tenantId, indexId, 'old.md', 'A secret that was replaced.')
        await train(db, tenantId, indexId, 'stays.md', 'A badger.')
        await db.updateTable('documents').set({ state: 'discarded' }).where('source', '=', 'old.md').execute()
        const claim = { id: `claim-${tenantId}`, documentId: null, state: 'draft', ...NOTHING } as const
        await insertSegment(db, { tenantId, indexId }, claim, NOW)
        await db
          .updateTable('segments')
          .set({ merged_into: claim.id })
          .where('tenant_id', '=', tenantId)
          .where('state', '=', 'published')
          .execute()
      }
      const left = join(uploadsDir, 'upload-1')
      await mkdir(left)
      const bodies = async () => (await db.selectFrom('passages').select('body').execute()).map(({ body }) => body)
      clock.advance(UPLOAD_TIMEOUT_MS)
      await utimes(left, clock.now() / 1000, clock.now() / 1000)
      await purgeKnowledge({ db, clock, uploadsDir })
      expect(await bodies()).toHaveLength(4)
      expect(await readdir(uploadsDir)).toEqual(['upload-1'])
      await purgeKnowledge({ db, clock, uploadsDir, aloneSince: clock.now() + 1 })
      expect(await bodies()).toEqual(['A badger.', 'A badger.'])
      expect(await readdir(uploadsDir)).toEqual([])
      const segments = await db.selectFrom('segments').select(['state', 'merged_into']).execute()
      expect(segments.filter(({ state, merged_into }) => state === 'draft' || merged_into !== null)).toEqual([])
      await train(db, 'a', 'zoo', 'later.md', 'A draft.')
      await db.updateTable('documents').set({ state: 'draft' }).where('source', '=', 'later.md').execute()
      clock.advance(1)
      await purgeKnowledge({ db, clock, uploadsDir })
      expect(await bodies()).toEqual(['A badger.', 'A badger.'])
    } finally {
      await rm(uploadsDir, { recursive: true })
    }
  })

  test('is empty without any upload', async () => {
    const uploadsDir = join(tmpdir(), 'aigw-test-that-is-not-there')
    await expect(purgeKnowledge({ db: store.db, clock: createFakeClock(), uploadsDir })).resolves.toBeUndefined()
  })
})

const NOTHING = { ids: new Float64Array(), lengths: new Uint16Array(), pageCount: 1 }
