import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Agent, request } from 'undici'
import { expect, test } from 'vitest'
import { openDatabase } from '../../src/daemon/platform/db/database.ts'
import { newApiKey } from '../../src/shared/ids.ts'
import { MULTIPART, multipart } from '../daemon/knowledge/ingest/multipart.ts'
import { runDaemon } from './daemon-process.ts'

const KILLS = 20
const DOCUMENTS = 6
/** More passages than one transaction writes, and than one message of the reader thread contains. */
const PASSAGES = 250
const BASE = '/api/external/indexes'

/** A word that occurs only in this version. */
const wordOf = (version: number): string => String.fromCharCode(96 + version).repeat(8)

/** The documents of one version. Each passage and the title contain the version's word. */
const upload = (version: number) =>
  multipart(
    Array.from({ length: DOCUMENTS }, (_, at) => ({
      fileName: `document-${at}.md`,
      content: Array.from(
        { length: PASSAGES },
        (_, part) =>
          `# Version ${version}, part ${part}\n\nThis is ${wordOf(version)} of part ${part} of document ${at}.\n`,
      ).join('\n'),
    })),
  )

test('kill -9 during a training, 20 times: every document is complete and unique, and sending it again completes it', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'aigw-ingest-kill-'))
  const key = newApiKey()
  const start = () =>
    runDaemon(['--listen', '127.0.0.1:0', '--data-dir', dataDir], { env: { AIGW_BOOTSTRAP_KEY: key } })
  const indexed = new Set<number>()

  for (let version = 1; version <= KILLS; version++) {
    const daemon = start()
    const client = clientOf(await daemon.url(), key)
    if (version === 1) await client.send('POST', BASE, JSON.stringify({ name: 'books' }))
    const training = client.train(version).catch(() => undefined)
    // The kill comes when this number of documents is indexed and others are in progress.
    const enough = version % DOCUMENTS
    let found = 0
    do {
      found = await client.documentsOf(version)
    } while (found < enough)
    await daemon.end('SIGKILL')
    await training
    await client.close()
    for (const one of await expectWhole(dataDir)) indexed.add(one)
  }
  // The kills interrupted training: most versions have some documents, but not all.
  expect(indexed.size).toBeGreaterThan(KILLS / 2)

  const last = start()
  const client = clientOf(await last.url(), key)
  const completed = await client.train(KILLS)
  expect(completed?.results).toMatchObject({ documents_extracted: DOCUMENTS, total_chunks: DOCUMENTS * PASSAGES })
  expect(await client.documentsOf(KILLS)).toBe(DOCUMENTS)
  expect(await client.matchesOf(KILLS)).toBe(10)
  for (let version = 1; version < KILLS; version++) expect(await client.matchesOf(version)).toBe(0)
  const again = await client.train(KILLS)
  expect(new Set(again?.results.documents.map(({ status }) => status))).toEqual(new Set(['unchanged']))
  await client.close()
  expect(await last.end('SIGTERM')).toMatchObject({ code: 0 })
  expect(await expectWhole(dataDir)).toEqual([KILLS])
  await rm(dataDir, { recursive: true })
})

type Trained = { results: { documents: { status: string }[] } }

function clientOf(url: string, key: string) {
  const agent = new Agent()
  async function send(method: 'GET' | 'POST', path: string, body?: string | Buffer, headers: object = {}) {
    const response = await request(url + path, {
      method,
      dispatcher: agent,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
      ...(body !== undefined && { body }),
    })
    return { status: response.statusCode, body: JSON.parse(await response.body.text()) }
  }
  return {
    send,
    close: () => agent.destroy(),
    async train(version: number): Promise<Trained | undefined> {
      return (await send('POST', `${BASE}/books/train`, upload(version), MULTIPART)).body
    },
    /** Number of documents of this version. */
    async documentsOf(version: number): Promise<number> {
      const { body } = await send('GET', `${BASE}/books/documents`)
      return body.documents.filter(({ title }: { title: string }) => title === `Version ${version}, part 0`).length
    },
    async matchesOf(version: number): Promise<number> {
      return (await send('GET', `${BASE}/books/search?query=${wordOf(version)}`)).body.results.total
    },
  }
}

/** Checks that published documents are complete, of one version and not duplicated. Returns the versions. */
async function expectWhole(dataDir: string): Promise<number[]> {
  const db = await openDatabase({ kind: 'sqlite', dataDir })
  try {
    const documents = await db.selectFrom('documents').selectAll().where('state', '=', 'published').execute()
    expect(new Set(documents.map(({ source }) => source)).size).toBe(documents.length)
    const versions = new Set<number>()
    for (const { id, passage_count } of documents) {
      const passages = await db.selectFrom('passages').select('body').where('document_id', '=', id).execute()
      expect([passages.length, passage_count]).toEqual([PASSAGES, PASSAGES])
      const ofDocument = new Set(passages.map(({ body }) => /This is (\w+) of part/.exec(body)?.[1]))
      expect(ofDocument.size).toBe(1)
      versions.add(String([...ofDocument][0]).charCodeAt(0) - 96)
    }
    return [...versions].sort((one, other) => one - other)
  } finally {
    await db.destroy()
  }
}
