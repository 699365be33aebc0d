import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createRanker, RANKING_IDLE_MS, type Ranker } from '../../../../src/daemon/knowledge/search/ranker.ts'
import { searchPassages } from '../../../../src/daemon/knowledge/search/search.ts'
import { RANKING_TIMEOUT_MS } from '../../../../src/daemon/knowledge/search/thread/thread.ts'
import { systemClock } from '../../../../src/shared/time.ts'
import { describeEachEngine, sqliteEngine } from '../../../engines.ts'
import { createFakeClock, type FakeClock } from '../../../fake-clock.ts'
import { rankingProgram } from '../../../harness.ts'
import { watched } from '../../../watched-clock.ts'
import { insertNamedIndex, insertTenant, sharedStore, train } from '../indexes/trained-store.ts'

const log = { warn() {} }

describeEachEngine('a search on the ranking thread', (engine) => {
  const store = sharedStore(engine, (db) => insertTenant(db, 'a'))
  let ranker: Ranker
  beforeAll(() => {
    ranker = createRanker({ db: store.db, clock: systemClock, log, program: rankingProgram() })
  })
  afterAll(() => ranker.close())

  const word = fc.constantFrom(
    ...['backup', 'webhook', 'invoice', 'signature', 'restore', 'restores', 'night', 'the', 'for', 'Häuser', 'hauser'],
    ...['知識庫', 'อากาศ', 'страница', '학교에서', 'back', 'up', 'b', 'unknown'],
  )
  const sentence = fc.array(word, { minLength: 1, maxLength: 12 }).map((words) => words.join(' '))
  const section = fc.tuple(sentence, fc.array(sentence, { minLength: 1, maxLength: 3 }))
  const text = fc
    .array(section, { minLength: 1, maxLength: 4 })
    .map((sections) => sections.map(([heading, parts]) => `# ${heading}\n\n${parts.join('\n\n')}`).join('\n\n'))
  // Few names, so that texts replace each other, and more than eight documents, so that segments merge.
  const documents = fc.array(fc.tuple(fc.nat({ max: 10 }), text), { minLength: 1, maxLength: 14 })
  const queries = fc.array(fc.tuple(sentence, fc.constantFrom(1, 10, 60)), { minLength: 1, maxLength: 4 })

  test('finds what the calling thread finds, with identical scores, in any collection', async () => {
    let indexes = 0
    await fc.assert(
      fc.asyncProperty(documents, queries, async (trained, asked) => {
        const indexId = `index-${indexes++}`
        await insertNamedIndex(store.db, 'a', indexId)
        const half = Math.ceil(trained.length / 2)
        for (const part of [trained.slice(0, half), trained.slice(half)]) {
          for (const [name, body] of part) await train(store.db, 'a', indexId, `${name}.md`, body)
          // The second half finds the cache of the first.
          for (const [query, limit] of asked) {
            const expected = await searchPassages(store.db, 'a', indexId, query, limit)
            expect(await ranker.search({ tenantId: 'a', indexId }, query, limit)).toEqual(expected)
          }
        }
      }),
      { numRuns: 15 },
    )
  })

  test('an index of another tenant, an empty index and a query without words find nothing', async () => {
    await insertTenant(store.db, 'b')
    await insertNamedIndex(store.db, 'a', 'full')
    await insertNamedIndex(store.db, 'a', 'empty')
    await train(store.db, 'a', 'full', 'one.md', 'Otters swim.')
    expect(await ranker.search({ tenantId: 'a', indexId: 'full' }, 'otters', 10)).toHaveLength(1)
    expect(await ranker.search({ tenantId: 'b', indexId: 'full' }, 'otters', 10)).toEqual([])
    expect(await ranker.search({ tenantId: 'a', indexId: 'empty' }, 'otters', 10)).toEqual([])
    expect(await ranker.search({ tenantId: 'a', indexId: 'full' }, '?!', 10)).toEqual([])
  })

  test('corrupt postings fail one search, and the thread continues', async () => {
    await insertNamedIndex(store.db, 'a', 'corrupt')
    await train(store.db, 'a', 'corrupt', 'one.md', 'Otters swim.')
    const { id } = await store.db
      .selectFrom('segments')
      .select('id')
      .where('index_id', '=', 'corrupt')
      .executeTakeFirstOrThrow()
    const ofSegment = store.db.updateTable('postings').where('segment_id', '=', id)
    await ofSegment.set({ terms: Buffer.from([0x81]) }).execute()
    const search = ranker.search({ tenantId: 'a', indexId: 'corrupt' }, 'otters', 10)
    await expect(search).rejects.toThrow('stored postings end in the middle of a number')
    expect(await ranker.search({ tenantId: 'a', indexId: 'full' }, 'otters', 10)).toHaveLength(1)
  })
})

describe('the ranking thread', () => {
  const store = sharedStore(sqliteEngine, async (db) => {
    for (const tenant of ['a', 'b']) {
      await insertTenant(db, tenant)
      await insertNamedIndex(db, tenant, tenant)
      await train(db, tenant, tenant, 'one.md', 'Otters swim.')
    }
  })
  let ranker: Ranker
  let directory: string
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'aigw-ranker-'))
  })
  afterEach(async () => {
    await ranker.close()
    await rm(directory, { recursive: true })
  })

  /**
   * A thread that behaves as the query says. The score of each result is the number of the thread. `end once` and `hold
   * once` do so until a thread has ended.
   */
  const scripted = () => {
    const file = JSON.stringify(join(directory, 'ended'))
    return new URL(
      `data:text/javascript,${encodeURIComponent(`
        import { existsSync, writeFileSync } from 'node:fs'
        import { parentPort, threadId } from 'node:worker_threads'
        const end = () => { writeFileSync(${file}, ''); process.exit(3) }
        parentPort.on('message', ({ kind, id, query, answer }) => {
          if (kind === 'answer') {
            const [[passageId, documentId]] = JSON.parse(answer)
            parentPort.postMessage({ kind: 'ranked', id, ranked: [{ row: { id: passageId, documentId }, score: threadId }] })
          }
          if (kind !== 'rank') return
          if (query === 'end' || (query === 'end once' && !existsSync(${file}))) end()
          if (query === 'hold' || (query === 'hold once' && !existsSync(${file}))) return
          if (query === 'throw') throw new Error('a bug')
          if (query === 'spin') for (;;) {}
          parentPort.postMessage({ kind: 'read', id, part: 'passages', keys: [1, 2, 3, 4] })
        })`)}`,
    )
  }
  let fake: FakeClock
  const start = () => {
    fake = createFakeClock()
    const clock = watched(fake)
    ranker = createRanker({ db: store.db, clock, log, program: scripted() })
    return clock
  }
  const search = (query: string, tenantId = 'a', signal?: AbortSignal) =>
    ranker.search({ tenantId, indexId: tenantId }, query, 10, signal)
  const threadOf = async () => (await search('ok'))[0]?.score

  test('is shared by all searches, and ends when it was idle', async () => {
    const clock = start()
    const first = await threadOf()
    expect(first).toBeGreaterThan(0)
    expect(await threadOf()).toBe(first)
    clock.advance(RANKING_IDLE_MS - 1)
    expect(await threadOf()).toBe(first)
    clock.advance(RANKING_IDLE_MS)
    expect(await threadOf()).toBeGreaterThan(first as number)
    await ranker.close()
    expect(fake.pending).toBe(0)
  })

  test('if it ends during searches, they are repeated on a new one', async () => {
    const clock = start()
    const first = await threadOf()
    const held = clock.waits(RANKING_TIMEOUT_MS)
    const other = search('hold once', 'b')
    await held
    const ended = await search('end once')
    expect(ended[0]?.score).toBeGreaterThan(first as number)
    expect((await other)[0]?.documentId).not.toBe(ended[0]?.documentId)
  })

  test.each(['end', 'throw'])(
    'a search that ends every thread (%s) is rejected, and later ones succeed',
    async (query) => {
      start()
      await expect(search(query)).rejects.toMatchObject({ code: 'OVERLOADED', retryAfterSeconds: 2 })
      expect(await threadOf()).toBeGreaterThan(0)
    },
  )

  test('a search that never ends is rejected in time, and the next gets a new thread', async () => {
    const clock = start()
    const first = await threadOf()
    const begun = clock.waits(RANKING_TIMEOUT_MS)
    const spinning = search('spin')
    await begun
    clock.advance(RANKING_TIMEOUT_MS)
    await expect(spinning).rejects.toMatchObject({ code: 'OVERLOADED' })
    expect(await threadOf()).toBeGreaterThan(first as number)
  })

  test('an aborted search rejects at once, and frees its connection and its turn', async () => {
    const clock = start()
    for (let times = 0; times < 8; times++) {
      const controller = new AbortController()
      const begun = clock.waits(RANKING_TIMEOUT_MS)
      const aborted = search('hold', 'a', controller.signal)
      await begun
      controller.abort(new Error('gone'))
      await expect(aborted).rejects.toThrow('gone')
    }
    expect(await threadOf()).toBeGreaterThan(0)
    await expect(search('ok', 'a', AbortSignal.abort(new Error('gone before')))).rejects.toThrow('gone before')
  })

  test('tenants take turns, however many searches one of them has', async () => {
    start()
    const order: string[] = []
    const searches = (tenantId: string, count: number) =>
      Array.from({ length: count }, () => search('ok', tenantId).then(() => order.push(tenantId)))
    await Promise.all([...searches('a', 30), ...searches('b', 2)])
    expect(order.lastIndexOf('b')).toBeLessThan(8)
  })

  test('a search that runs while the daemon closes is rejected', async () => {
    const clock = start()
    const begun = clock.waits(RANKING_TIMEOUT_MS)
    const rejected = expect(search('hold')).rejects.toMatchObject({ code: 'OVERLOADED' })
    await begun
    await ranker.close()
    await rejected
    await expect(search('ok')).rejects.toMatchObject({ code: 'OVERLOADED' })
    expect(fake.pending).toBe(0)
  })
})
