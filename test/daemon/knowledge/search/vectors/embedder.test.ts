import { afterEach, beforeEach, expect, test } from 'vitest'
import { removeDocument } from '../../../../../src/daemon/knowledge/ingest/replacement.ts'
import {
  EMBEDDING_LOOK_MS,
  EMBEDDING_RETRY_MS,
  type Embedder,
  startEmbedder,
} from '../../../../../src/daemon/knowledge/search/vectors/embedder.ts'
import { createSemanticMetrics } from '../../../../../src/daemon/knowledge/search/vectors/metrics.ts'
import {
  chooseModel,
  claimWork,
  EMBEDDING_LEASE_MS,
  findServingModel,
} from '../../../../../src/daemon/knowledge/search/vectors/models.ts'
import { countEmbedded } from '../../../../../src/daemon/knowledge/search/vectors/vector-store.ts'
import { createProviderRegistry, type ProviderRegistry } from '../../../../../src/daemon/models/registry.ts'
import type { Db } from '../../../../../src/daemon/platform/db/db.ts'
import { createMetrics } from '../../../../../src/daemon/platform/metrics/registry.ts'
import { deferred } from '../../../../deferred.ts'
import { describeEachEngine, type TestStore } from '../../../../engines.ts'
import { createFakeClock, type FakeClock } from '../../../../fake-clock.ts'
import { hang, replyJson } from '../../../../upstream.ts'
import { insertNamedIndex, insertTenant, store as storePassages } from '../../indexes/trained-store.ts'
import { answerWithVectors, type EmbeddingServer, startEmbeddingServer, topicVector } from './embedding-server.ts'

const ZOO = { tenantId: 'a', indexId: 'zoo' }
const FARM = { tenantId: 'b', indexId: 'farm' }
const SMALL = { model: 'embedder/small', batch: 2 }
const OTHER = { model: 'embedder/other', batch: 2 }

describeEachEngine('embedding in the background', (engine) => {
  let store: TestStore
  let server: EmbeddingServer
  let providers: ProviderRegistry
  let clock: FakeClock
  let log: { message: string; facts: object }[]
  const embedders = new Set<Embedder>()
  const db = (): Db => store.db

  beforeEach(async () => {
    store = await engine.open()
    server = await startEmbeddingServer()
    clock = createFakeClock()
    providers = createProviderRegistry([server.provider], { clock, builtIn: [] })
    log = []
    for (const { tenantId, indexId } of [ZOO, FARM]) {
      await insertTenant(db(), tenantId)
      await insertNamedIndex(db(), tenantId, indexId)
    }
  })
  afterEach(async () => {
    for (const embedder of embedders) await embedder.close()
    embedders.clear()
    await providers.close()
    await server.upstream.close()
    await store.close()
    expect(clock.pending).toBe(0)
  })

  const add = (index: typeof ZOO, source: string, bodies: readonly string[]) =>
    storePassages(
      db(),
      index,
      { source },
      bodies.map((body, position) => ({ position, headings: '', body })),
    )

  async function start(config = SMALL): Promise<{ id: number; embedder: Embedder }> {
    const model = await chooseModel(db(), config)
    const at = () => (facts: object, message: string) => void log.push({ facts, message })
    const deps = {
      ...{ db: db(), providers, clock, log: { info: at(), warn: at(), error: at() } },
      metrics: createSemanticMetrics([createMetrics()], { countPending: async () => 0 }),
    }
    const embedder = startEmbedder(model, config.batch, deps)
    embedders.add(embedder)
    return { id: model.id, embedder }
  }

  /** Resolves once the embedder is idle. */
  async function settled(waitMs: number = EMBEDDING_LOOK_MS): Promise<void> {
    while (!clock.dueIn(waitMs)) await new Promise((resolve) => setImmediate(resolve))
  }

  async function next(): Promise<void> {
    clock.advance(EMBEDDING_LOOK_MS)
    await settled()
  }

  const vectorRows = () =>
    db().selectFrom('passage_vectors').select(['tenant_id', 'index_id', 'model_id', 'passage_id']).execute()

  test('every passage of every index gets one vector, in calls of the configured size, and is sent once', async () => {
    await add(ZOO, 'a.md', ['one cat', 'two cats', 'three'])
    await add(ZOO, 'b.md', ['four'])
    await add(FARM, 'c.md', ['five'])
    const { id } = await start()
    await settled()
    expect(await countEmbedded(db(), ZOO, id)).toEqual({ passages: 4, embedded: 4 })
    expect(await countEmbedded(db(), FARM, id)).toEqual({ passages: 1, embedded: 1 })
    const calls = server.upstream.requests.map(({ body }) => (body as { input: string[] }).input)
    expect(calls.flat().sort()).toEqual(['five', 'four', 'one cat', 'three', 'two cats'])
    expect(Math.max(...calls.map(({ length }) => length))).toBe(2)
    await next()
    expect(server.texts()).toHaveLength(5)
    await add(ZOO, 'd.md', ['six'])
    await next()
    expect(server.texts().slice(5)).toEqual([{ model: 'small', text: 'six' }])
    expect(await findServingModel(db(), ZOO)).toMatchObject({ id, model: SMALL.model, dimensions: 8 })
  })

  test('removing or replacing a document removes its vectors', async () => {
    await add(ZOO, 'a.md', ['one', 'two'])
    await add(ZOO, 'b.md', ['three'])
    await start()
    await settled()
    await add(ZOO, 'a.md', ['four'])
    expect(await vectorRows()).toHaveLength(1)
    await next()
    expect(await vectorRows()).toHaveLength(2)
    const [document] = await db().selectFrom('documents').select('id').where('source', '=', 'b.md').execute()
    const key = { ...ZOO, documentId: document?.id as string }
    await db().updateTable('documents').set({ state: 'discarded' }).where('id', '=', key.documentId).execute()
    await removeDocument(db(), key)
    expect(await vectorRows()).toHaveLength(1)
  })

  test('a document removed during a model call leaves no vectors', async () => {
    await add(ZOO, 'a.md', ['one'])
    const held = deferred<void>()
    server.answer(async (exchange) => {
      await held.promise
      await answerWithVectors(exchange)
    })
    await start()
    await server.upstream.nextRequest()
    await add(ZOO, 'a.md', [])
    held.resolve()
    await settled()
    expect(await vectorRows()).toEqual([])
  })

  test('a failing model is retried with growing delays, and stored passages are not sent again', async () => {
    await add(
      ZOO,
      'a.md',
      Array.from({ length: 12 }, (_, at) => `text ${at}`),
    )
    let calls = 0
    server.answer((exchange) =>
      ++calls > 3 ? replyJson({ error: { message: 'down' } }, { status: 500 })(exchange) : answerWithVectors(exchange),
    )
    const { id } = await start()
    await settled(EMBEDDING_RETRY_MS.min)
    const { embedded } = await countEmbedded(db(), ZOO, id)
    expect(embedded).toBe(6)
    clock.advance(EMBEDDING_RETRY_MS.min)
    await settled(2 * EMBEDDING_RETRY_MS.min)
    server.recover()
    const before = server.texts().length
    clock.advance(2 * EMBEDDING_RETRY_MS.min)
    await settled()
    expect(server.texts().slice(before)).toHaveLength(12 - embedded)
    expect(await countEmbedded(db(), ZOO, id)).toEqual({ passages: 12, embedded: 12 })
    expect(log.filter(({ message }) => message === 'passages could not be embedded; retrying later')).toHaveLength(2)
  })

  test('a requested pause of a model is respected', async () => {
    await add(ZOO, 'a.md', ['one'])
    server.answer(replyJson({}, { status: 429, headers: { 'retry-after': '7' } }))
    await start()
    await settled(7_000)
  })

  test('a passage that the model rejects is skipped, and all others are embedded', async () => {
    await add(ZOO, 'a.md', ['one', 'poison', 'two', 'three'])
    server.answer((exchange) => {
      const isPoison = (exchange.request.body as { input: string[] }).input.includes('poison')
      return isPoison
        ? replyJson({ error: { code: 'invalid_request' } }, { status: 400 })(exchange)
        : answerWithVectors(exchange)
    })
    const { id } = await start()
    await settled()
    expect(await countEmbedded(db(), ZOO, id)).toEqual({ passages: 4, embedded: 3 })
    expect(log.filter(({ message }) => message === 'a passage cannot be embedded and is skipped')).toHaveLength(1)
    const sent = server.texts().length
    await next()
    expect(server.texts()).toHaveLength(sent)
  })

  test('a model that rejects everything counts as failing', async () => {
    await add(ZOO, 'a.md', ['one', 'two'])
    server.answer(replyJson({ error: { code: 'invalid_request' } }, { status: 400 }))
    const { id } = await start()
    await settled(EMBEDDING_RETRY_MS.min)
    server.recover()
    clock.advance(EMBEDDING_RETRY_MS.min)
    await settled()
    expect(await countEmbedded(db(), ZOO, id)).toEqual({ passages: 2, embedded: 2 })
  })

  test('a passage with a zero vector is retried later, and does not block the others', async () => {
    await add(ZOO, 'a.md', ['one', 'blank'])
    await add(ZOO, 'b.md', ['two'])
    await add(FARM, 'c.md', ['three'])
    const zeros = Array.from({ length: 8 }, () => 0)
    server.answer((exchange) => {
      const { input } = exchange.request.body as { input: string[] }
      const data = input.map((text, index) => ({ index, embedding: text === 'blank' ? zeros : topicVector(text) }))
      return replyJson({ data })(exchange)
    })
    const { id } = await start()
    await settled(EMBEDDING_RETRY_MS.min)
    expect(await countEmbedded(db(), ZOO, id)).toEqual({ passages: 3, embedded: 2 })
    expect(await countEmbedded(db(), FARM, id)).toEqual({ passages: 1, embedded: 1 })
    server.recover()
    const sent = server.texts().length
    clock.advance(EMBEDDING_RETRY_MS.min)
    await settled()
    expect(server.texts().slice(sent)).toEqual([{ model: 'small', text: 'blank' }])
    expect(await countEmbedded(db(), ZOO, id)).toEqual({ passages: 3, embedded: 3 })
  })

  test('vectors with another length than the first are never stored', async () => {
    await add(ZOO, 'a.md', ['one'])
    const { id } = await start()
    await settled()
    server.answer(replyJson({ data: [{ index: 0, embedding: [1, 2, 3] }] }))
    await add(ZOO, 'b.md', ['two'])
    clock.advance(EMBEDDING_LOOK_MS)
    await settled(EMBEDDING_RETRY_MS.min)
    expect(await countEmbedded(db(), ZOO, id)).toEqual({ passages: 2, embedded: 1 })
  })

  test('after a change of model the old vectors are used until all new ones exist, and then deleted', async () => {
    await add(ZOO, 'a.md', ['one', 'two', 'three'])
    await add(FARM, 'b.md', ['four'])
    const { id: old, embedder } = await start()
    await settled()
    await embedder.close()

    server.answer((exchange) =>
      (exchange.request.body as { input: string[] }).input.includes('three')
        ? hang(exchange)
        : answerWithVectors(exchange),
    )
    const { id, embedder: second } = await start(OTHER)
    await server.upstream.nextRequest()
    while ((await countEmbedded(db(), ZOO, id)).embedded < 2) await new Promise((resolve) => setImmediate(resolve))
    expect(await findServingModel(db(), ZOO)).toMatchObject({ id: old })
    expect(await countEmbedded(db(), ZOO, old)).toEqual({ passages: 3, embedded: 3 })
    // Interrupted work continues where it stopped.
    await second.close()
    server.recover()
    const before = server.texts().length
    await start(OTHER)
    await settled()
    expect(await findServingModel(db(), ZOO)).toMatchObject({ id, dimensions: 16 })
    expect(new Set((await vectorRows()).map(({ model_id }) => model_id))).toEqual(new Set([id]))
    expect(await vectorRows()).toHaveLength(4)
    expect(
      server
        .texts()
        .slice(before)
        .map(({ text }) => text),
    ).not.toContain('one')
  })

  test('returning to the old model before the new one is complete embeds nothing twice and leaves no remains', async () => {
    await add(ZOO, 'a.md', ['one', 'two'])
    await add(FARM, 'b.md', ['three'])
    const { id: old, embedder } = await start()
    await settled()
    await embedder.close()
    server.answer((exchange) =>
      (exchange.request.body as { input: string[] }).input.includes('three')
        ? hang(exchange)
        : answerWithVectors(exchange),
    )
    const { id, embedder: second } = await start(OTHER)
    while ((await countEmbedded(db(), ZOO, id)).embedded < 2) await new Promise((resolve) => setImmediate(resolve))
    await second.close()
    server.recover()
    const sent = server.texts().length
    await start()
    await settled()
    const expected = server.texts().slice(sent)
    expect(new Set((await vectorRows()).map(({ model_id }) => model_id))).toEqual(new Set([old]))
    expect(await vectorRows()).toHaveLength(3)
    // The zoo index had already switched to the new model, the farm index had not.
    expect(expected.map(({ text }) => text)).not.toContain('three')
  })

  test('one daemon embeds at a time; if it dies another takes over after the lease expires', async () => {
    const { id } = await chooseModel(db(), SMALL)
    expect(await claimWork(db(), { modelId: id, owner: 'one', now: clock.now() })).toBe(true)
    expect(await claimWork(db(), { modelId: id, owner: 'two', now: clock.now() })).toBe(false)
    expect(await claimWork(db(), { modelId: id, owner: 'one', now: clock.now() })).toBe(true)
    expect(await claimWork(db(), { modelId: id, owner: 'two', now: clock.now() + EMBEDDING_LEASE_MS + 1 })).toBe(true)
    // A daemon with an older configuration no longer has any effect.
    await chooseModel(db(), OTHER)
    expect(await claimWork(db(), { modelId: id, owner: 'two', now: clock.now() })).toBe(false)
  })
})
