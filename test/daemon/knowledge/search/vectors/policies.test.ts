// The models of knowledge search obey the policy: in training, search and chat, and on their own routes.
import { afterEach, beforeEach, expect, test } from 'vitest'
import { addKey, addUser } from '../../../../accounts.ts'
import { describeEachEngine } from '../../../../engines.ts'
import { type Gateway, startGateway } from '../../../../harness.ts'
import { MULTIPART, multipart } from '../../ingest/multipart.ts'
import { type EmbeddingServer, startEmbeddingServer } from './embedding-server.ts'

const INDEXES = '/api/external/indexes'
const POLICIES = '/api/external/smltp-policies'
const MODEL = 'embedder/small'
const IN_EUROPE = { residency: { allowedRegions: ['eu'] } }

let server: EmbeddingServer
beforeEach(async () => {
  server = await startEmbeddingServer()
})
afterEach(() => server.upstream.close())

const turn = () => new Promise((resolve) => setImmediate(resolve))

async function train(gateway: Gateway, name: string, files: Record<string, string>, key = gateway.adminKey) {
  const body = multipart(Object.entries(files).map(([fileName, content]) => ({ fileName, content })))
  const trained = await gateway.call('POST', `${INDEXES}/${name}/train`, body, { headers: MULTIPART, key })
  expect(trained.status, trained.text).toBe(200)
  return trained.body.results
}

const createPolicy = (gateway: Gateway, policy: object, setAsActive: boolean) =>
  gateway.call('POST', POLICIES, { name: 'Ours', description: '', policy, setAsActive })

/** Starts the daemon again, so that it looks for passages at once. Resolves when it has withheld an index. */
async function withheld(gateway: Gateway): Promise<void> {
  await gateway.restart()
  while (!gateway.log.some(({ message }) => message.startsWith('the policy forbids the embedding model'))) await turn()
}

/** Starts the daemon again. Resolves when the model has received this many texts. */
async function embedded(gateway: Gateway, texts: number): Promise<void> {
  await gateway.restart()
  while (server.texts().length < texts) await turn()
}

describeEachEngine('a policy that excludes the embedding model', (engine) => {
  const start = (knowledge: object = { embedding: { model: MODEL, batch: 4 } }) =>
    startGateway({ engine, providers: [server.provider], knowledge })

  test('keeps passages and queries from the model; keyword search is used and reported', async () => {
    const gateway = await start()
    const { body } = await gateway.call('POST', INDEXES, { name: 'pets' })
    await createPolicy(gateway, IN_EUROPE, true)
    expect(await train(gateway, 'pets', { 'a.md': 'A kitten sleeps.' })).toMatchObject({
      documents_indexed: 1,
      skipped_models: [MODEL],
    })
    await withheld(gateway)
    const embedding = async () =>
      (await gateway.call('GET', `${INDEXES}/${body.index.id}`)).body.index.embedding as object
    expect(await embedding()).toMatchObject({ passages: 1, embedded: 0, forbidden: 1 })
    expect(server.upstream.requests).toEqual([])

    await gateway.call('POST', `${POLICIES}/internal/activate`)
    await embedded(gateway, 1)
    while (((await embedding()) as { embedded: number }).embedded === 0) await turn()
    expect(await embedding()).not.toHaveProperty('forbidden')

    await gateway.call('POST', `${POLICIES}/ours/activate`)
    const asked = server.upstream.requests.length
    const { results } = (await gateway.call('GET', `${INDEXES}/pets/search?query=kitten`)).body
    expect(results).toMatchObject({ total: 1, skipped_models: [MODEL] })
    const { metadata } = (await gateway.chat({ index: 'pets', prompt: 'Where is the kitten?', model: 'local/extract' }))
      .body
    expect(metadata).toMatchObject({ documents_retrieved: 1, skipped_models: [MODEL] })
    expect(server.upstream.requests).toHaveLength(asked)
    await gateway.call('POST', `${POLICIES}/internal/activate`)
    expect((await gateway.call('GET', `${INDEXES}/pets/search?query=kitten`)).body.results).not.toHaveProperty(
      'skipped_models',
    )
  })

  test('as the default of a key, withholds only the documents that this key trained', async () => {
    const gateway = await start()
    await gateway.call('POST', INDEXES, { name: 'pets' })
    await createPolicy(gateway, IN_EUROPE, false)
    const { tenant_id } = await gateway.app.db.selectFrom('indexes').select('tenant_id').executeTakeFirstOrThrow()
    const admin = await addUser(gateway.app.db, { tenant_id, role: 'admin' })
    const settings = { defaultSMLTPPolicy: 'ours', allowedSMLTPPolicies: [] }
    const { secret: key } = await addKey(gateway.app.db, admin, { settings })
    expect(await train(gateway, 'pets', { 'ours.md': 'Our kitten.' }, key)).toMatchObject({ skipped_models: [MODEL] })
    expect(await train(gateway, 'pets', { 'all.md': 'Any kitten.' })).not.toHaveProperty('skipped_models')
    await embedded(gateway, 1)
    expect(server.texts().map(({ text }) => text)).toEqual(['Any kitten.'])
    // Trained again by a key without the policy, the document is no longer withheld.
    await train(gateway, 'pets', { 'ours.md': 'Our kitten.' })
    await embedded(gateway, 2)
    expect(server.texts().map(({ text }) => text)).toEqual(['Any kitten.', 'Our kitten.'])
  })

  test('keeps the passages of a search from the reranker, which the response reports', async () => {
    const gateway = await start({ rerank: { model: 'embedder/rank' } })
    await gateway.call('POST', INDEXES, { name: 'pets' })
    await train(gateway, 'pets', { 'a.md': 'A kitten sleeps.' })
    await createPolicy(gateway, IN_EUROPE, true)
    const { results } = (await gateway.call('GET', `${INDEXES}/pets/search?query=kitten`)).body
    expect(results).toMatchObject({ total: 1, skipped_models: ['embedder/rank'] })
    expect(server.upstream.requests).toEqual([])
  })

  test.each([
    ['/v1/embeddings', { input: 'hi' }],
    ['/v1/rerank', { query: 'hi', documents: ['a', 'b'] }],
    ['/v1beta/models/embedder/small:embedContent', { content: { parts: [{ text: 'hi' }] } }],
  ])('is rejected on %s', async (path, body) => {
    const gateway = await start()
    for (const policy of [IN_EUROPE, { allowedProviders: ['local'] }, { egress: { denyHosts: ['127.0.0.1'] } }]) {
      await gateway.call('POST', `${POLICIES}/internal/activate`)
      await gateway.call('DELETE', `${POLICIES}/ours`)
      await createPolicy(gateway, { ...policy, baseline: true }, true)
      const answer = await gateway.call('POST', path, { ...body, model: MODEL, smltp_policy: 'public' })
      expect([answer.status, answer.text]).toEqual([403, expect.stringContaining('does not allow the model')])
    }
    expect(server.upstream.requests).toEqual([])
  })
})
