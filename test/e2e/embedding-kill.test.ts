import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Agent, request } from 'undici'
import { expect, test } from 'vitest'
import { openDatabase } from '../../src/daemon/platform/db/database.ts'
import { newApiKey } from '../../src/shared/ids.ts'
import { MULTIPART, multipart } from '../daemon/knowledge/ingest/multipart.ts'
import { type EmbeddingServer, startEmbeddingServer } from '../daemon/knowledge/search/vectors/embedding-server.ts'
import { runDaemon } from './daemon-process.ts'

const KILLS = 8
const PASSAGES = 400
const BATCH = 10
/** Maximum number of calls in flight at a kill. */
const CALLS = 4
const DONE = 'all passages of an index are embedded'

test('kill -9 while a new model embeds: each start continues the work, and the old vectors are used until the end', async () => {
  const home = await mkdtemp(join(tmpdir(), 'aigw-embedding-kill-'))
  const server = await startEmbeddingServer()
  const key = newApiKey()
  const start = () =>
    runDaemon(['--listen', '127.0.0.1:0', '--data-dir', home], { env: { AIGW_BOOTSTRAP_KEY: key }, home })
  try {
    await configure(home, server, 'small')
    const first = start()
    await train(await first.url(), key)
    await first.logged(DONE)
    await first.end('SIGTERM')
    expect(await vectorsIn(home)).toEqual({ small: PASSAGES, serving: 'small' })

    await configure(home, server, 'other')
    const before = server.texts().length
    for (let kill = 1; kill <= KILLS; kill++) {
      const daemon = start()
      // At this point some calls of this start are complete, and others are in flight.
      await callsOf(server, 'other', kill * 4)
      await daemon.end('SIGKILL')
      const vectors = await vectorsIn(home)
      expect(vectors).toMatchObject({ small: PASSAGES, serving: 'small' })
      expect(vectors.other ?? 0).toBeLessThan(PASSAGES)
    }
    const last = start()
    await last.logged(DONE)
    expect(await last.end('SIGTERM')).toMatchObject({ code: 0 })
    expect(await vectorsIn(home)).toEqual({ other: PASSAGES, serving: 'other' })
    const sent = server.texts().length - before
    expect(sent).toBeGreaterThanOrEqual(PASSAGES)
    expect(sent).toBeLessThanOrEqual(PASSAGES + KILLS * CALLS * BATCH)
  } finally {
    await server.upstream.close()
    await rm(home, { recursive: true })
  }
})

const configure = (home: string, server: EmbeddingServer, model: string): Promise<void> =>
  writeFile(
    join(home, 'aigw.yaml'),
    JSON.stringify({
      providers: { embedder: { kind: 'openai', base_url: server.upstream.url } },
      knowledge: { embedding: { model: `embedder/${model}`, batch: BATCH } },
    }),
  )

async function train(url: string, key: string): Promise<void> {
  const agent = new Agent()
  const post = async (path: string, body: string | Buffer, headers: object = {}) => {
    const response = await request(`${url}/api/external/indexes${path}`, {
      method: 'POST',
      dispatcher: agent,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
      body,
    })
    expect([200, 201]).toContain(response.statusCode)
    await response.body.dump()
  }
  await post('', JSON.stringify({ name: 'books' }))
  const parts = Array.from({ length: PASSAGES }, (_, at) => `# Part ${at}\n\nThis is part ${at} of the cat.\n`)
  await post('/books/train', multipart([{ fileName: 'book.md', content: parts.join('\n') }]), MULTIPART)
  await agent.close()
}

/** Resolves when the model has received this number of calls. */
async function callsOf(server: EmbeddingServer, model: string, count: number): Promise<void> {
  const calls = () => server.upstream.requests.filter(({ body }) => (body as { model: string }).model === model).length
  while (calls() < count) await new Promise((resolve) => setImmediate(resolve))
}

/** Number of vectors of each model, and the model that is used for search. */
async function vectorsIn(home: string): Promise<Record<string, number | string>> {
  const db = await openDatabase({ kind: 'sqlite', dataDir: home })
  try {
    const rows = await db
      .selectFrom('passage_vectors')
      .innerJoin('embedding_models', 'embedding_models.id', 'passage_vectors.model_id')
      .select(['embedding_models.model', (the) => the.fn.countAll<number>().as('vectors')])
      .groupBy('embedding_models.model')
      .execute()
    const { model } = await db
      .selectFrom('index_vectors')
      .innerJoin('embedding_models', 'embedding_models.id', 'index_vectors.model_id')
      .select('embedding_models.model')
      .executeTakeFirstOrThrow()
    const nameOf = (id: string) => id.replace('embedder/', '')
    return { ...Object.fromEntries(rows.map((row) => [nameOf(row.model), row.vectors])), serving: nameOf(model) }
  } finally {
    await db.destroy()
  }
}
