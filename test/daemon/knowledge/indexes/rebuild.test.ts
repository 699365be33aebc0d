import { expect, test } from 'vitest'
import { MERGE_LEASE_MS } from '../../../../src/daemon/knowledge/indexes/rebuild.ts'
import {
  claimForMerge,
  findSegments,
  findUnmerged,
  insertSegment,
  renewDrafts,
} from '../../../../src/daemon/knowledge/indexes/segment-store.ts'
import { describeEachEngine } from '../../../engines.ts'
import { sharedGateway } from '../../../harness.ts'
import { recordedChanges } from '../../../recorded-changes.ts'
import { MULTIPART, multipart, type TestPart } from '../ingest/multipart.ts'

const BASE = '/api/external/indexes'
const WORDS = ['otter', 'seal', 'walrus', 'heron', 'lynx', 'größe', '东京']

describeEachEngine('rebuilding an index', (engine) => {
  const shared = sharedGateway({ engine })
  const call = (...args: Parameters<typeof shared.current.call>) => shared.current.call(...args)

  async function create(name: string): Promise<string> {
    return (await call('POST', BASE, { name })).body.index.id
  }
  async function train(name: string, parts: TestPart[]): Promise<void> {
    const answer = await call('POST', `${BASE}/${name}/train`, multipart(parts), { headers: MULTIPART })
    expect(answer.status, answer.text).toBe(200)
  }
  const rebuild = (id: string) => call('POST', `${BASE}/${id}/rebuild`)
  async function searches(name: string) {
    const answers = []
    for (const word of WORDS) {
      const { results } = (await call('GET', `${BASE}/${name}/search?top_k=50&query=${encodeURIComponent(word)}`)).body
      answers.push(
        results.matches.map(({ source, score, content }: Record<string, unknown>) => [source, score, content]),
      )
    }
    return answers
  }
  const prose = (seed: number, sentences: number) =>
    Array.from(
      { length: sentences },
      (_, at) => `The ${WORDS[(seed * 3 + at * at) % 7]} number ${at} of ${seed}.`,
    ).join(' ')
  async function tenantId(): Promise<string> {
    return (await shared.current.app.db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()).id
  }

  test('every search returns the same results and scores as before, with few segments', async () => {
    const id = await create('same')
    const small = Array.from({ length: 15 }, (_, at) => ({
      fileName: `${at}.md`,
      content: `# Note\n\n${prose(at, 3)}`,
    }))
    await train('same', small)
    await train('same', [{ fileName: 'large.txt', content: prose(77, 4_000) }])
    // Half of them change, so that shared segments contain deleted words.
    await train(
      'same',
      small.map((part, at) => (at % 2 === 0 ? { ...part, content: prose(at + 50, 2) } : part)),
    )
    const before = await searches('same')
    const answer = await rebuild(id)
    expect(answer.status).toBe(200)
    expect(answer.body).toMatchObject({ success: true, rebuilt: { documents: 16, passages: expect.any(Number) } })
    expect(await searches('same')).toEqual(before)
    const { db } = shared.current.app
    expect(await findSegments(db, { tenantId: await tenantId(), indexId: id })).toHaveLength(1)
    const states = await db.selectFrom('documents').select('state').where('index_id', '=', id).execute()
    expect(new Set(states.map(({ state }) => state))).toEqual(new Set(['published']))
    const changes = await recordedChanges(db)
    const rebuilds = changes.filter(({ resource_id, operation }) => resource_id === id && operation === 'rebuild')
    expect(rebuilds[0]?.metadata).toEqual(answer.body.rebuilt)
  })

  test('concurrent or later training, replacement and deletion loses and duplicates no document', async () => {
    const id = await create('busy')
    const note = (at: number, word: string) => ({ fileName: `${at}.md`, content: `Number n${at} is a ${word}.` })
    await train(
      'busy',
      Array.from({ length: 12 }, (_, at) => note(at, 'heron')),
    )
    const { documents } = (await call('GET', `${BASE}/busy/documents?search=11.md`)).body
    const answers = await Promise.all([
      rebuild(id),
      train('busy', [note(0, 'lynx'), note(20, 'lynx')]),
      call('DELETE', `${BASE}/busy/documents/${documents[0].id}`),
      rebuild(id),
    ])
    for (const answer of [answers[0], answers[3]]) expect([200, 409]).toContain(answer.status)
    expect(answers[2].status).toBe(200)
    expect((await rebuild(id)).status).toBe(200)
    await train('busy', [note(1, 'lynx')])
    const found = async (query: string) =>
      (await call('GET', `${BASE}/busy/search?top_k=50&query=${query}`)).body.results.matches
        .map(({ source }: { source: string }) => source)
        .sort()
    expect(await found('lynx')).toEqual(['0.md', '1.md', '20.md'])
    expect(await found('heron')).toEqual(['10.md', ...[2, 3, 4, 5, 6, 7, 8, 9].map((at) => `${at}.md`)])
  })

  test('an index without documents is rebuilt to one without documents', async () => {
    const id = await create('empty')
    expect((await rebuild(id)).body.rebuilt).toEqual({ documents: 0, passages: 0 })
    expect((await searches('empty')).flat()).toEqual([])
  })

  test('while others lease a segment it returns 409 and changes nothing', async () => {
    const id = await create('held')
    await train('held', [{ fileName: 'a.md', content: 'An otter.' }])
    const { db } = shared.current.app
    const index = { tenantId: await tenantId(), indexId: id }
    const claimed = (await findUnmerged(db, index)).map((segment) => segment.id)
    const nothing = { ids: new Float64Array(), lengths: new Uint16Array(), pageCount: 1 }
    const now = new Date().toISOString()
    await insertSegment(db, index, { id: 'other', documentId: null, state: 'draft', ...nothing }, now)
    await claimForMerge(db, index.tenantId, claimed, 'other')
    const before = await db.selectFrom('segments').selectAll().where('index_id', '=', id).orderBy('id').execute()
    const refused = await rebuild(id)
    expect([refused.status, refused.body.error.code]).toEqual([409, 'REBUILD_CONFLICT'])
    expect(await db.selectFrom('segments').selectAll().where('index_id', '=', id).orderBy('id').execute()).toEqual(
      before,
    )
  })

  test('the remains of an interrupted rebuild are released after a timeout by the next one', async () => {
    const id = await create('crashed')
    await train('crashed', [{ fileName: 'a.md', content: 'An otter.' }])
    const { db } = shared.current.app
    const index = { tenantId: await tenantId(), indexId: id }
    const nothing = { ids: new Float64Array(), lengths: new Uint16Array(), pageCount: 1 }
    const old = '2020-01-01T00:00:00.000Z'
    await insertSegment(db, index, { id: 'gone', documentId: null, state: 'draft', ...nothing }, old)
    await insertSegment(db, index, { id: 'gone-too', documentId: null, state: 'draft', ...nothing }, old)
    const claimed = (await findUnmerged(db, index)).map((segment) => segment.id)
    expect(await claimForMerge(db, index.tenantId, claimed, 'gone')).toBe(true)
    expect((await rebuild(id)).status).toBe(200)
    const left = await db.selectFrom('segments').select('state').where('index_id', '=', id).execute()
    expect(left).toEqual([{ state: 'published' }])
    expect((await searches('crashed'))[0]).toHaveLength(1)
  })

  test('expired leases of others are released, and valid ones are kept', async () => {
    const id = await create('leased')
    await train('leased', [{ fileName: 'a.md', content: 'An otter.' }])
    const { db } = shared.current.app
    const index = { tenantId: await tenantId(), indexId: id }
    const claimed = (await findUnmerged(db, index)).map((segment) => segment.id)
    const nothing = { ids: new Float64Array(), lengths: new Uint16Array(), pageCount: 1 }
    const ago = (ms: number) => new Date(Date.now() - ms).toISOString()
    const claim = { id: 'leased', documentId: null, state: 'draft', ...nothing } as const
    await insertSegment(db, index, claim, ago(2 * MERGE_LEASE_MS))
    await claimForMerge(db, index.tenantId, claimed, 'leased')
    await renewDrafts(db, index.tenantId, ['leased'], ago(0))
    expect((await rebuild(id)).status).toBe(409)
    await renewDrafts(db, index.tenantId, ['leased'], ago(MERGE_LEASE_MS + 1_000))
    expect((await rebuild(id)).status).toBe(200)
  })

  test('deleted and unknown indexes are not found', async () => {
    const id = await create('deleted')
    await call('DELETE', `${BASE}/${id}`)
    for (const one of [id, 'f'.repeat(24), 'nonsense']) expect((await rebuild(one)).status).toBe(404)
  })
})
