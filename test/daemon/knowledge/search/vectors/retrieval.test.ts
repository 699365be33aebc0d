import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { SEMANTIC_PAUSE_MS } from '../../../../../src/daemon/knowledge/search/vectors/best-effort.ts'
import { QUERY_VECTOR_MS } from '../../../../../src/shared/spec-limits.ts'
import { addKey, addUser } from '../../../../accounts.ts'
import { describeEachEngine } from '../../../../engines.ts'
import { createFakeClock, type FakeClock } from '../../../../fake-clock.ts'
import { type Gateway, type GatewayOptions, startGateway } from '../../../../harness.ts'
import { hang, replyJson, resetAtOnce, type Script } from '../../../../upstream.ts'
import { MULTIPART, multipart } from '../../ingest/multipart.ts'
import { answerWithVectors, type EmbeddingServer, startEmbeddingServer } from './embedding-server.ts'

const INDEXES = '/api/external/indexes'
const EMBEDDING = { model: 'embedder/small', batch: 4 }

let server: EmbeddingServer
beforeEach(async () => {
  server = await startEmbeddingServer()
})
afterEach(() => server.upstream.close())

const start = (options: GatewayOptions = {}): Promise<Gateway> =>
  startGateway({ providers: [server.provider], knowledge: { embedding: EMBEDDING }, ...options })

async function makeIndex(gateway: Gateway, name: string, texts: Record<string, string>): Promise<string> {
  const { body } = await gateway.call('POST', INDEXES, { name })
  const files = Object.entries(texts).map(([fileName, content]) => ({ fileName, content }))
  const trained = await gateway.call('POST', `${INDEXES}/${name}/train`, multipart(files), { headers: MULTIPART })
  expect(trained.status).toBe(200)
  return body.index.id
}

const embeddingOf = async (gateway: Gateway, id: string) =>
  (await gateway.call('GET', `${INDEXES}/${id}`)).body.index.embedding

/** Embeds the existing documents: a starting daemon does so at once. Resolves when all are done. */
async function embed(gateway: Gateway): Promise<void> {
  await gateway.restart()
  const left = () =>
    gateway.app.db
      .selectFrom('documents')
      .select('id')
      .where('state', '=', 'published')
      .where('embedded_by', '=', 0)
      .execute()
  while ((await left()).length > 0) await turn()
}

const turn = () => new Promise((resolve) => setImmediate(resolve))

/** Waits for a call that will be made, then until it times out. */
async function timeOut(clock: FakeClock, calls: number, afterMs: number): Promise<void> {
  while (server.upstream.requests.length < calls) await turn()
  clock.advance(afterMs)
}

type Found = { source: string; score: number }

async function search(gateway: Gateway, name: string, query: string, key?: string): Promise<Found[]> {
  const { status, body } = await gateway.call(
    'GET',
    `${INDEXES}/${name}/search?query=${encodeURIComponent(query)}`,
    undefined,
    key === undefined ? {} : { key },
  )
  expect(status).toBe(200)
  return body.results.matches.map(({ source, score }: Found) => ({ source, score }))
}

const PETS = {
  'pets.md': 'A kitten sleeps all day, purring.',
  'traffic.md': 'The sedan has a strong engine.',
  'work.md': 'Wage and income are paid monthly.',
}

describeEachEngine('search by meaning', (engine) => {
  test('a passage without a common word is found, by search and by chat', async () => {
    const gateway = await start({ engine })
    await makeIndex(gateway, 'pets', PETS)
    await embed(gateway)
    expect(await search(gateway, 'pets', 'feline whiskers')).toEqual([
      { source: 'pets.md', score: 0.5 },
      expect.anything(),
      expect.anything(),
    ])
    const { body } = await gateway.chat({
      index: 'pets',
      messages: [{ role: 'user', content: 'Which automobile is there?' }],
    })
    expect(body.metadata.sources[0]?.source).toBe('traffic.md')
    // Passages at the top of both rankings are certain.
    expect((await search(gateway, 'pets', 'kitten'))[0]).toEqual({ source: 'pets.md', score: 1 })
  })

  test('the same passages in another tenant are never found, and a key finds what it could before', async () => {
    const gateway = await start({ engine })
    const id = await makeIndex(gateway, 'pets', PETS)
    await makeIndex(gateway, 'private', { 'secret.md': 'A secret kitten.' })
    await embed(gateway)
    const user = await addUser(gateway.app.db, {
      tenant_id: (await gateway.app.db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()).id,
    })
    const { secret: key } = await addKey(gateway.app.db, user, { settings: { allowedIndexes: ['pets'] } })
    expect((await search(gateway, 'pets', 'feline', key)).map(({ source }) => source)).not.toContain('secret.md')
    expect((await gateway.call('GET', `${INDEXES}/private/search?query=feline`, undefined, { key })).status).toBe(403)
    expect((await gateway.call('GET', `${INDEXES}/${id}`, undefined, { key })).status).toBe(403)
  })

  test('a deleted document is no longer found by its meaning', async () => {
    const gateway = await start({ engine })
    const id = await makeIndex(gateway, 'pets', PETS)
    await embed(gateway)
    const { body } = await gateway.call('GET', `${INDEXES}/pets/documents?search=pets`)
    await gateway.call('DELETE', `${INDEXES}/pets/documents/${body.documents[0].id}`)
    expect((await search(gateway, 'pets', 'feline')).map(({ source }) => source)).not.toContain('pets.md')
    expect(await embeddingOf(gateway, id)).toMatchObject({ passages: 2, embedded: 2 })
  })
})

describe('when the embedding model fails', () => {
  const FAILURES: readonly [string, Script][] = [
    ['answers 500', replyJson({ error: {} }, { status: 500 })],
    ['hangs up', resetAtOnce],
    ['answers garbage', replyJson({ data: 'none' })],
    ['has vectors of another length', replyJson({ data: [{ index: 0, embedding: [1, 2, 3] }] })],
    ['has a vector of zeros', replyJson({ data: [{ index: 0, embedding: [0, 0, 0, 0, 0, 0, 0, 0] }] })],
  ]

  test.each(FAILURES)('that %s, a search ranks by words only', async (_, script) => {
    const gateway = await start()
    await makeIndex(gateway, 'pets', PETS)
    await embed(gateway)
    server.answer(script)
    expect(await search(gateway, 'pets', 'feline')).toEqual([])
    const [match] = await search(gateway, 'pets', 'kitten')
    expect(match?.source).toBe('pets.md')
    expect(match?.score).toBeLessThan(0.9)
    expect(gateway.log.filter(({ message }) => message === 'search continues without a failing model')).toHaveLength(1)
    expect((await gateway.call('GET', '/metrics')).text).toContain(
      'aigw_semantic_calls_total{work="query",outcome="failed"} 1',
    )
  })

  test('that does not respond, a search waits half a second for it, and the next one not at all', async () => {
    const clock = createFakeClock()
    const gateway = await start({ clock })
    await makeIndex(gateway, 'pets', PETS)
    await embed(gateway)
    const calls = server.upstream.requests.length
    server.answer(hang)
    const searched = search(gateway, 'pets', 'feline')
    await timeOut(clock, calls + 1, QUERY_VECTOR_MS.default)
    expect(await searched).toEqual([])
    expect((await search(gateway, 'pets', 'kitten'))[0]?.source).toBe('pets.md')
    expect(server.upstream.requests).toHaveLength(calls + 1)
  })

  test('that is slow, a search waits for the configured time, and then skips it for a while', async () => {
    const clock = createFakeClock()
    const gateway = await start({ clock, knowledge: { embedding: { ...EMBEDDING, queryTimeoutMs: 40 } } })
    await makeIndex(gateway, 'pets', PETS)
    await embed(gateway)
    const calls = server.upstream.requests.length
    server.answer(hang)
    const searched = search(gateway, 'pets', 'feline')
    await timeOut(clock, calls + 1, 40)
    expect(await searched).toEqual([])
    server.recover()
    expect(await search(gateway, 'pets', 'feline')).toEqual([])
    clock.advance(SEMANTIC_PAUSE_MS)
    expect((await search(gateway, 'pets', 'feline'))[0]?.source).toBe('pets.md')
  })

  test('that is not available, the daemon starts and searches by words', async () => {
    const gateway = await start({ knowledge: { embedding: { model: 'nobody/none', batch: 4 } } })
    const id = await makeIndex(gateway, 'pets', PETS)
    expect((await search(gateway, 'pets', 'kitten')).map(({ source }) => source)).toEqual(['pets.md'])
    expect(await embeddingOf(gateway, id)).toEqual({
      model: 'nobody/none',
      passages: 3,
      embedded: 0,
      searchedWith: null,
    })
  })
})

test('a query is embedded once per tenant, however often it is repeated', async () => {
  const gateway = await start()
  await makeIndex(gateway, 'pets', PETS)
  await embed(gateway)
  await search(gateway, 'pets', 'feline')
  await search(gateway, 'pets', 'feline')
  expect(server.texts().filter(({ text }) => text === 'feline')).toHaveLength(1)
})

test('without an embedding model nothing is embedded, and an index reports that', async () => {
  const gateway = await start({ knowledge: {} })
  const id = await makeIndex(gateway, 'pets', PETS)
  expect(await search(gateway, 'pets', 'feline')).toEqual([])
  expect(await embeddingOf(gateway, id)).toBeNull()
  expect(server.upstream.requests).toEqual([])
})

test('the metrics count embedded passages', async () => {
  const gateway = await start()
  await makeIndex(gateway, 'pets', PETS)
  await embed(gateway)
  const { text } = await gateway.call('GET', '/metrics')
  expect(text).toContain('aigw_embedded_passages_total 3')
  expect(text).toContain('aigw_semantic_tokens_total{work="passages"} 3')
  expect(text).toContain('aigw_documents_to_embed 0')
})

describe('reranking', () => {
  const KNOWLEDGE = { embedding: EMBEDDING, rerank: { model: 'embedder/judge' } }

  /** Scores documents by the alphabetical position of their first letter, later letters higher. */
  const rerank: Script = (exchange) => {
    if (!exchange.request.path.endsWith('/rerank')) return answerWithVectors(exchange)
    const { documents } = exchange.request.body as { documents: string[] }
    const results = documents.map((text, index) => ({ index, relevance_score: text.charCodeAt(0) / 200 }))
    return replyJson({ results })(exchange)
  }

  test('sorts the best passages by the scores of the model', async () => {
    server.answer(rerank)
    const gateway = await start({ knowledge: KNOWLEDGE })
    await makeIndex(gateway, 'pets', PETS)
    await embed(gateway)
    expect(await search(gateway, 'pets', 'feline')).toEqual([
      { source: 'work.md', score: 'W'.charCodeAt(0) / 200 },
      { source: 'traffic.md', score: 'T'.charCodeAt(0) / 200 },
      { source: 'pets.md', score: 'A'.charCodeAt(0) / 200 },
    ])
    const call = server.upstream.requests.find(({ path }) => path.endsWith('/rerank'))
    expect(call?.body).toMatchObject({
      model: 'judge',
      query: 'feline',
      top_n: 3,
      documents: expect.arrayContaining(Object.values(PETS)),
    })
  })

  test('works on a ranking by words only', async () => {
    server.answer(rerank)
    const gateway = await start({ knowledge: { rerank: KNOWLEDGE.rerank } })
    await makeIndex(gateway, 'pets', PETS)
    expect(await search(gateway, 'pets', 'kitten')).toEqual([{ source: 'pets.md', score: 'A'.charCodeAt(0) / 200 }])
  })

  test.each([
    ['refuses the models', { deniedModels: ['embedder/*'] }, []],
    ['refuses the host', { egress: { denyHosts: ['127.0.0.1'], allowHosts: [] } }, []],
    ['refuses the region', { residency: { allowedRegions: ['eu'] } }, []],
    ['masks what is asked', { pii: { enabled: true, entities: ['EMAIL'], action: 'mask' } }, ['/embeddings']],
    ['only watches', { mode: 'monitor', deniedModels: ['embedder/*'] }, ['/embeddings', '/rerank']],
  ])('a policy that %s limits the models that are called', async (_, policy, asked) => {
    server.answer(rerank)
    const gateway = await start({ knowledge: KNOWLEDGE })
    await makeIndex(gateway, 'pets', PETS)
    await embed(gateway)
    const made = await gateway.call('POST', '/api/external/smltp-policies', {
      name: 'Ours',
      description: '',
      policy,
      setAsActive: true,
    })
    expect(made.status, made.text).toBe(201)
    const { requests } = server.upstream
    const before = requests.length
    expect((await search(gateway, 'pets', 'kitten of ada@analytical.org')).map(({ source }) => source)).toContain(
      'pets.md',
    )
    const sent = requests.slice(before)
    expect(sent.map(({ path }) => path.slice(path.lastIndexOf('/')))).toEqual(asked)
    if (asked.length === 1) expect(sent[0]?.rawBody).not.toContain('ada@')
    const messages = [{ role: 'user', content: 'Which kitten sleeps?' }]
    const answer = await gateway.chat({ index: 'pets', model: 'local/extract', messages })
    expect(answer.status, answer.text).toBe(200)
    expect(answer.body.metadata.sources[0]?.source).toBeDefined()
    expect(requests.slice(before + sent.length).map(({ path }) => path.slice(path.lastIndexOf('/')))).toEqual(asked)
  })

  test.each([
    ['fails', replyJson({}, { status: 500 })],
    ['answers garbage', replyJson({ results: [{ index: 7, relevance_score: 1 }] })],
    ['hangs up', resetAtOnce],
  ] as [string, Script][])('that %s leaves the order unchanged', async (_, script) => {
    const gateway = await start({ knowledge: KNOWLEDGE })
    await makeIndex(gateway, 'pets', PETS)
    await embed(gateway)
    server.answer((exchange) =>
      exchange.request.path.endsWith('/rerank') ? script(exchange) : answerWithVectors(exchange),
    )
    expect((await search(gateway, 'pets', 'kitten'))[0]).toEqual({ source: 'pets.md', score: 1 })
  })
})
