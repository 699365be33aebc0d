import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { findUnpublished, insertDraft } from '../../../src/daemon/knowledge/indexes/document-store.ts'
import { DOCUMENT_PASSAGES, prepareDocument } from '../../../src/daemon/knowledge/ingest/prepared-document.ts'
import { writePrepared } from '../../../src/daemon/knowledge/ingest/replacement.ts'
import {
  TRAIN_BODY_BYTES,
  TRAIN_OTHER_PART_BYTES,
  TRAIN_TEXT_BYTES,
} from '../../../src/daemon/knowledge/ingest/upload.ts'
import { TRAIN_FILE_BYTES } from '../../../src/shared/spec-limits.ts'
import { ChatResponse } from '../../../src/shared/wire/chat.ts'
import {
  CreateIndexResponse,
  DiscoverIndexesResponse,
  ListIndexesResponse,
  SearchResponse,
  TrainResponse,
} from '../../../src/shared/wire/indexes.ts'
import { addKey, addUser } from '../../accounts.ts'
import { describeEachEngine, sqliteEngine } from '../../engines.ts'
import { type Gateway, sharedGateway, textOf } from '../../harness.ts'
import { recordedChanges } from '../../recorded-changes.ts'
import { MULTIPART, multipart, type TestPart } from './ingest/multipart.ts'

const BASE = '/api/external/indexes'

/** The files that uploads have left on the disk of this gateway. */
const uploadDirectories = ({ config }: Gateway) => readdir(join(config.dataDir, 'uploads'))

describeEachEngine('knowledge bases', (engine) => {
  const shared = sharedGateway({ engine })
  const call: (typeof shared.current)['call'] = (...args) => shared.current.call(...args)
  const create = (name: string) => call('POST', BASE, { name, description: `About ${name}` })
  const train = (name: string, parts: readonly TestPart[]) =>
    call('POST', `${BASE}/${name}/train`, multipart(parts), { headers: MULTIPART })
  const search = (name: string, query: Record<string, string>) =>
    call('GET', `${BASE}/${name}/search?${new URLSearchParams(query)}`)

  test('an index can be created, listed, discovered, trained and searched', async () => {
    const created = await create('  My Handbook! ')
    expect(created.status).toBe(201)
    const { index } = CreateIndexResponse.parse(created.body)
    expect(index).toEqual({
      id: expect.stringMatching(/^[0-9a-f]{24}$/),
      name: 'my-handbook',
      sharedIndexName: 'my-handbook',
      namespace: 'my-handbook',
      description: 'About   My Handbook! ',
      type: 'general',
      assignedUser: null,
      assignedGroup: null,
      indexAccess: 'write',
      documentCount: 0,
      createdAt: expect.stringMatching(/Z$/),
    })

    const answer = await train('my-handbook', [
      { fileName: 'guide.md', content: '# Guide\n\n## Webhooks\n\nTwenty failures in a row disable an endpoint.' },
      { fileName: 'größe.txt', type: 'text/plain', content: 'Ein Kolibri wiegt zwei Gramm.' },
      {
        field: 'text_inputs',
        content: JSON.stringify([{ name: 'note', type: 'text/markdown', content: '# Note\n\nLunch is at noon.' }]),
      },
    ])
    expect(answer.status).toBe(200)
    const { results } = TrainResponse.parse(answer.body)
    expect(results).toMatchObject({
      files_processed: 3,
      documents_indexed: 3,
      total_chunks: 3,
      index_name: 'my-handbook',
    })
    expect(results.documents.map(({ name, status }) => [name, status])).toEqual([
      ['guide.md', 'indexed'],
      ['größe.txt', 'indexed'],
      ['note', 'indexed'],
    ])

    const found = SearchResponse.parse((await search('my-handbook', { query: 'Which failures disable it?' })).body)
    expect(found.results.matches[0]).toMatchObject({
      rank: 1,
      source: 'guide.md',
      content: 'Twenty failures in a row disable an endpoint.',
      metadata: { title: 'Guide', chunkIndex: 0, page: null },
    })
    const [best] = found.results.matches
    const above = await search('my-handbook', { query: 'failures', min_score: '1', top_k: '1' })
    expect(above.body.results).toMatchObject({ matches: [], total: 0, top_k: 1 })
    expect(best?.score).toBeLessThanOrEqual(1)

    const listed = ListIndexesResponse.parse((await call('GET', `${BASE}/all?search=handb&limit=1`)).body)
    const { body: me } = await call('GET', '/api/external/whoami')
    expect(listed.indexes).toEqual([
      { ...index, documentCount: 3, userId: me.user.id, isActive: true, updatedAt: index.createdAt, deletedAt: null },
    ])
    expect(listed.pagination).toEqual({ page: 1, limit: 1, total: 1, pages: 1 })
    const discovered = DiscoverIndexesResponse.parse((await call('GET', BASE)).body)
    expect(discovered.indexes.map(({ id, type }) => [id, type])).toEqual([
      ['Zero-Knowledge', 'system'],
      ['my-handbook', 'general'],
    ])
  })

  test('chat answers from trained documents, streamed or not, and names its sources', async () => {
    await create('for-chat')
    const content = '# Guide\n\n## Webhooks\n\nTwenty failures in a row disable an endpoint. Nothing else does.'
    await train('for-chat', [{ fileName: 'guide.md', content }])
    const ask = { model: 'local/extract', index: 'for-chat', prompt: 'How many failures disable an endpoint?' }
    const expected =
      'The index "for-chat" says:\n\n"Twenty failures in a row disable an endpoint." [1]\n\nSources:\n[1] guide.md, Webhooks'

    const { status, body } = await shared.current.chat(ask)
    expect(status).toBe(200)
    expect(body.choices[0]?.message.content).toBe(expected)
    expect(body.metadata).toMatchObject({ rag_enabled: true, documents_retrieved: 1, index_used: 'for-chat' })
    expect(ChatResponse.parse(body).metadata.sources.map(({ source }) => source)).toEqual(['guide.md'])
    const { frames, done } = await shared.current.stream(ask)
    expect([textOf(frames), done]).toEqual([expected, true])
  })

  test('a name is unique in any spelling', async () => {
    await create('twice')
    const again = await create(' TWICE? ')
    expect(again.status).toBe(409)
    expect(again.body.error).toMatchObject({ code: 'INDEX_NAME_EXISTS' })
  })

  test.each(['Zero-Knowledge', 'zero knowledge', 'ab', '字字字', 'x'.repeat(51)])(
    '%s is an invalid name',
    async (name) => {
      const { status, body, headers } = await create(name)
      expect({ status, body }).toEqual({
        status: 400,
        body: {
          success: false,
          error: 'Invalid index name',
          message: expect.any(String),
          request_id: headers['x-request-id'],
        },
      })
    },
  )

  test.each([
    ['name', {}],
    ['name', { name: 7 }],
    ['name', { name: '  ' }],
    ['assignedUser', { name: 'mine', assignedUser: 'f'.repeat(24) }],
    ['assignedUser', { name: 'mine', assignedUser: 'not an id' }],
    ['assignedGroup', { name: 'mine', assignedGroup: 7 }],
    ['assignedGroup', { name: 'mine', assignedUser: 'f'.repeat(24), assignedGroup: 'f'.repeat(24) }],
  ])('an invalid %s is 400 and creates nothing', async (field, body) => {
    const refused = await call('POST', BASE, body)
    expect(refused.status).toBe(400)
    expect(refused.body.error).toMatchObject({ code: 'VALIDATION_ERROR', details: { field } })
    expect((await search('mine', { query: 'a' })).status).toBe(404)
  })

  test('an index without an assignment has the requested type', async () => {
    expect((await call('POST', BASE, { name: 'nobodys', assignedUser: null, assignedGroup: null })).status).toBe(201)
  })

  test.each(['type=odd', 'status=gone', 'sortBy=size', 'sortOrder=up'])(
    'a list with %s is rejected',
    async (parameter) => {
      const refused = await call('GET', `${BASE}/all?${parameter}`)
      expect(refused.status).toBe(400)
      const [field] = parameter.split('=')
      expect(refused.body.error).toMatchObject({ code: 'VALIDATION_ERROR', details: { field } })
    },
  )

  test('an unchanged document is skipped, and a changed one is replaced', async () => {
    await create('again')
    const send = async (content: string) =>
      (await train('again', [{ fileName: 'a.txt', content }])).body.results.documents[0].status
    expect(await send('Zebras have stripes.')).toBe('indexed')
    expect(await send('Zebras have stripes.')).toBe('unchanged')
    expect(await send('Leopards have spots.')).toBe('indexed')
    expect((await search('again', { query: 'zebras' })).body.results.total).toBe(0)
    expect((await search('again', { query: 'leopards' })).body.results.total).toBe(1)
  })

  test('many small documents of one request are stored together, each complete, replaceable and found at once', async () => {
    await create('many-small')
    const text = (at: number, word: string) => ({
      name: `note-${at}`,
      content: `Number n${at} is ${word}.`,
    })
    const send = async (texts: object[]) =>
      (await train('many-small', [{ field: 'text_inputs', content: JSON.stringify(texts) }])).body.results.documents
    const all = Array.from({ length: 90 }, (_, at) => text(at, 'first'))
    expect((await send(all)).every(({ status }: { status: string }) => status === 'indexed')).toBe(true)
    for (const at of [0, 44, 89]) {
      const { matches } = (await search('many-small', { query: `n${at}`, top_k: '5' })).body.results
      expect(matches[0]).toMatchObject({ source: `note-${at}`, content: `Number n${at} is first.` })
    }
    // A third of them changed.
    const changed = all.map((note, at) => (at % 3 === 0 ? text(at, 'second') : note))
    const statuses = (await send(changed)).map(({ status }: { status: string }) => status)
    expect(statuses).toEqual(changed.map((_, at) => (at % 3 === 0 ? 'indexed' : 'unchanged')))
    expect((await search('many-small', { query: 'second', top_k: '50' })).body.results.total).toBe(30)
    const [first] = (await search('many-small', { query: 'n3', top_k: '5' })).body.results.matches
    expect(first.content).toBe('Number n3 is second.')
    const { pagination } = (await call('GET', `${BASE}/many-small/documents?limit=1`)).body
    expect(pagination.total).toBe(90)
    const changes = await recordedChanges(shared.current.app.db)
    const entries = changes.filter(({ description }) => description.includes('"many-small" with'))
    expect(entries.map(({ metadata }) => metadata.replaced).filter(Boolean)).toHaveLength(30)
    expect(entries).toHaveLength(120)
  })

  test('an unreadable document reports the reason and does not block the others', async () => {
    await create('mixed')
    const answer = await train('mixed', [
      { fileName: 'good.md', content: 'Good text.' },
      { fileName: 'a.pdf', type: 'application/pdf', content: '%PDF-1.7 …' },
      { fileName: 'b.txt', content: Buffer.from([0xff, 0xfe, 0x41, 0x00]) },
      { fileName: 'c.txt', content: 'before\0after' },
      { fileName: 'd.txt', content: '' },
      { fileName: 'e.txt', content: ' \n\t ' },
      { fileName: 'f.exe', content: 'text?' },
      { fileName: 'g.md', content: Buffer.from('PK\x03\x04 renamed') },
      { fileName: 'docs/good.md', content: 'The same base name in a folder.' },
      { fileName: 'good.md', content: 'The very same name.' },
      {
        field: 'text_inputs',
        content:
          '[{"name":"half","content":"a \\ud800 b"},{"name":"nul","content":"a \\u0000 b"},{"name":"ok","content":"fine"}]',
      },
    ])
    expect(answer.status).toBe(200)
    const { documents } = TrainResponse.parse(answer.body).results
    const indexed = documents.filter(({ status }) => status === 'indexed').map(({ name }) => name)
    expect(indexed).toEqual(['good.md', 'docs/good.md', 'ok'])
    const reasons = Object.fromEntries(documents.flatMap(({ name, error }) => (error ? [[name, error]] : [])))
    expect(reasons).toEqual({
      'a.pdf': expect.stringContaining('PDF'),
      'b.txt': expect.stringContaining('UTF-8'),
      'c.txt': expect.stringContaining('NUL'),
      'd.txt': expect.stringContaining('empty'),
      'e.txt': expect.stringContaining('no words'),
      'f.exe': expect.stringContaining('.exe'),
      'g.md': expect.stringContaining('ZIP-based file'),
      'good.md': expect.stringContaining('same name'),
      half: expect.stringContaining('UTF-8'),
      nul: expect.stringContaining('NUL'),
    })
  })

  test('a name has one spelling, stays in its directory and hides nothing', async () => {
    await create('names')
    const names = ['cafe\u0301.md', '../up.md', 'a/../b.md', 'left\u202egpj.md', 'line\u2028.md', 'نمی\u200cدانم.md']
    const texts = names.map((name) => ({ name, content: `Text of a document.` }))
    const answer = await train('names', [{ field: 'text_inputs', content: JSON.stringify(texts) }])
    const { documents } = TrainResponse.parse(answer.body).results
    expect(documents.map(({ status, error }) => error ?? status)).toEqual([
      'indexed',
      expect.stringContaining('".."'),
      expect.stringContaining('".."'),
      expect.stringContaining('control characters'),
      expect.stringContaining('control characters'),
      'indexed',
    ])
    expect(documents[0]?.name).toBe('caf\u00e9.md')
    const again = await train('names', [{ fileName: 'caf\u00e9.md', content: 'Another text.' }])
    expect(TrainResponse.parse(again.body).results.documents[0]?.status).toBe('indexed')
    expect((await call('GET', `${BASE}/names/documents`)).body.pagination.total).toBe(2)
  })

  test('an extracted text keeps the name of the file', async () => {
    await create('taken')
    const send = async (text: object) =>
      TrainResponse.parse((await train('taken', [{ field: 'text_inputs', content: JSON.stringify([text]) }])).body)
        .results.documents[0]?.status
    const text = { name: 'handbook.pdf', content: '# Leave\n\nEveryone has 28 days.' }
    expect(await send({ ...text, type: 'text/plain' })).toBe('indexed')
    expect(await send({ ...text, type: 'text/plain' })).toBe('unchanged')
    expect(await send({ ...text, type: 'text/markdown' })).toBe('indexed')
    expect(await send(text)).toBe('indexed')
  })

  test('a search shows the matching part of a passage', async () => {
    await create('windows')
    const filler = 'Nothing of this says anything at all. '.repeat(20)
    await train('windows', [{ fileName: 'a.md', content: `${filler}The code of the lounge is 4711. ${filler}` }])
    const { body } = await call('GET', `${BASE}/windows/search?query=lounge`)
    const [best] = SearchResponse.parse(body).results.matches
    expect(best?.content).toContain('4711')
    expect(best?.content.length).toBeLessThanOrEqual(500)
  })

  test('remains of a crash are removed after the next training, and files in progress are not', async () => {
    const { id: indexId } = (await create('crashed')).body.index
    const { db } = shared.current.app
    const { tenant_id: tenantId } = await db
      .selectFrom('indexes')
      .selectAll()
      .where('id', '=', indexId)
      .executeTakeFirstOrThrow()
    const draft = (source: string, now: string) =>
      db
        .transaction()
        .execute((tx) =>
          insertDraft(tx, { tenantId, indexId }, { source, title: '', contentHash: '', passageCount: 9, now }),
        )
    const left = await draft('left.md', '2026-01-01T00:00:00.000Z')
    const passage = { position: 0, headings: '', body: 'Half of it.' }
    const { signal } = new AbortController()
    await writePrepared(db, left, prepareDocument('', '', [passage]), { signal, now: '2026-01-01T00:00:00.000Z' })
    const running = await draft('running.md', new Date().toISOString())
    await train('crashed', [{ fileName: 'a.txt', content: 'Whole.' }])
    const { documentId } = running
    expect(await findUnpublished(db, tenantId, '9999')).toEqual([{ tenantId, indexId, documentId }])
    expect((await search('crashed', { query: 'half' })).body.results.total).toBe(0)
  })

  test('a document with too many passages fails alone', async () => {
    await create('too-many')
    const answer = await train('too-many', [
      { fileName: 'many.md', content: '# a\nb\n'.repeat(DOCUMENT_PASSAGES + 1) },
      { fileName: 'good.md', content: 'Good text.' },
    ])
    expect(answer.status).toBe(200)
    expect(answer.body.results.documents).toEqual([
      { name: 'many.md', status: 'failed', chunks: 0, error: expect.stringContaining(`${DOCUMENT_PASSAGES} passages`) },
      { name: 'good.md', status: 'indexed', chunks: 1 },
    ])
    expect((await search('too-many', { query: 'b' })).body.results.total).toBe(0)
  })

  test('when all are unreadable the response is 400 with every reason', async () => {
    await create('nothing')
    const answer = await train('nothing', [
      { fileName: 'a.pdf', content: '%PDF-' },
      { fileName: 'b.txt', content: '' },
    ])
    expect(answer.status).toBe(400)
    expect(answer.body).toMatchObject({ success: false, error: 'Invalid request' })
    expect(answer.body.message).toMatch(/a\.pdf: .*PDF.*b\.txt: .*empty/)
  })

  test('a missing index is 404, for training and for searching', async () => {
    for (const name of ['missing', 'Not%20A%20Name', '%F0%9F%90%BC', 'x'.repeat(2000)]) {
      for (const answer of [await train(name, []), await search(name, { query: 'a' })]) {
        expect([answer.status, answer.body.error]).toEqual([404, 'Index not found'])
      }
    }
  })

  describe('for a key with a list of indexes', () => {
    async function newKey(allowedIndexes: string[]) {
      const { db } = shared.current.app
      const { id: tenant_id } = await db.selectFrom('tenants').select('id').executeTakeFirstOrThrow()
      return (
        await addKey(db, await addUser(db, { tenant_id }), { settings: { allowedIndexes, indexAccess: 'write' } })
      ).secret
    }
    beforeAll(async () => {
      for (const name of ['listed', 'other']) await create(name)
    })

    test('only these are discovered, and the list is shown', async () => {
      const discover = async (allowedIndexes: string[]) =>
        DiscoverIndexesResponse.parse((await call('GET', BASE, undefined, { key: await newKey(allowedIndexes) })).body)
      const { indexes, restrictions } = await discover(['listed', 'nowhere'])
      expect(indexes.map(({ id }) => id)).toEqual(['Zero-Knowledge', 'listed'])
      expect(restrictions.allowed_indexes).toEqual(['listed', 'nowhere'])
      expect((await discover([])).restrictions.allowed_indexes).toBe('all user indexes')
    })

    test('training and searching any other is 403, whether it exists or not', async () => {
      const key = await newKey(['listed'])
      const body = multipart([{ fileName: 'a.txt', content: 'Words.' }])
      const both = async (name: string) => [
        await call('POST', `${BASE}/${name}/train`, body, { key, headers: MULTIPART }),
        await call('GET', `${BASE}/${name}/search?query=words`, undefined, { key }),
      ]
      for (const name of ['other', 'nowhere', 'Not%20A%20Name', 'LISTED']) {
        const answers = await both(name)
        const { message } = answers[0]?.body ?? {}
        for (const { status, body, headers } of answers) {
          const request_id = headers['x-request-id']
          expect([status, body]).toEqual([403, { success: false, error: 'Access denied', message, request_id }])
        }
      }
      expect((await search('other', { query: 'words' })).body.results.total).toBe(0)
      expect((await both('listed')).map(({ status }) => status)).toEqual([200, 200])
    })
  })

  test('creating an index and each indexed document leave an audit entry', async () => {
    const { id } = (await create('logged')).body.index
    const entries = async () =>
      (await recordedChanges(shared.current.app.db)).filter(({ resource_id }) => resource_id === id)
    const documents = [
      { fileName: 'a.txt', content: 'First.' },
      { fileName: 'bad.pdf', content: '%PDF-' },
      { fileName: 'b.txt', content: 'Second.' },
    ]
    const { headers } = await train('logged', documents)
    await train('logged', [{ fileName: 'a.txt', content: 'First.' }])
    const changed = await train('logged', [{ fileName: 'a.txt', content: 'Changed.' }])
    const common = { type: 'index_management', resource_type: 'index', result: 'success', severity: 'info' }
    const trained = { ...common, operation: 'train', endpoint: 'POST /api/external/indexes/{indexName}/train' }
    expect(await entries()).toMatchObject([
      { ...common, operation: 'create', endpoint: 'POST /api/external/indexes' },
      { ...trained, request_id: headers['x-request-id'], description: expect.stringContaining('"a.txt"') },
      { ...trained, request_id: headers['x-request-id'], description: expect.stringContaining('"b.txt"') },
      { ...trained, request_id: changed.headers['x-request-id'], description: expect.stringContaining('"a.txt"') },
    ])
    const facts = (await entries()).slice(1).map(({ metadata }) => metadata)
    expect(facts).toMatchObject([
      { document: 'a.txt', passages: 1, replaced: false },
      { document: 'b.txt', passages: 1, replaced: false },
      { document: 'a.txt', passages: 1, replaced: true },
    ])
  })

  test('a document whose audit entry cannot be written is not indexed', async () => {
    await create('unlogged')
    await train('unlogged', [{ fileName: 'a.txt', content: 'Otters swim.' }])
    const { db } = shared.current.app
    await db.schema.alterTable('evidence_entries').renameTo('evidence_entries_away').execute()
    const answer = await train('unlogged', [{ fileName: 'a.txt', content: 'Badgers dig.' }])
    await db.schema.alterTable('evidence_entries_away').renameTo('evidence_entries').execute()
    expect([answer.status, answer.body.error]).toEqual([500, 'Internal server error'])
    const totals = ['otters', 'badgers'].map(async (query) => (await search('unlogged', { query })).body.results.total)
    expect(await Promise.all(totals)).toEqual([1, 0])
  })

  test('a search without a query or with invalid numbers is 400 `Invalid request`, with the reason', async () => {
    await create('numbers')
    for (const [query, says] of [
      ['', 'query: query is required'],
      ['query=', 'query: query is required'],
      ['query=+', 'query: query is required'],
      ['query=a&query=b', 'The parameter "query" was sent more than once'],
      ['query=a&top_k=51', 'top_k must be at most'],
      ['query=a&top_k=x', 'top_k must be a whole number'],
      ['query=a&min_score=2', 'min_score must be at most 1'],
    ]) {
      const { status, body } = await call('GET', `${BASE}/numbers/search?${query}`)
      expect([query, status, body]).toEqual([
        query,
        400,
        {
          success: false,
          error: 'Invalid request',
          message: expect.stringContaining(`${says}`),
          request_id: expect.any(String),
        },
      ])
    }
  })
})

describe('uploads', () => {
  const shared = sharedGateway({ engine: sqliteEngine })
  const send = (body: Buffer | string, headers: Record<string, string> = MULTIPART) =>
    shared.current.call('POST', `${BASE}/uploads/train`, body, { headers })
  const good: TestPart = { fileName: 'good.txt', content: 'Good text.' }
  const documentCount = async () =>
    (await shared.current.call('GET', `${BASE}/all?search=uploads`)).body.indexes[0].documentCount

  test('the index exists', async () => {
    expect((await shared.current.call('POST', BASE, { name: 'uploads' })).status).toBe(201)
  })

  test.each<[string, Buffer | string, Record<string, string>, number, string]>([
    ['JSON', '{}', { 'content-type': 'application/json' }, 415, 'Unsupported media type'],
    ['no part', multipart([]), MULTIPART, 400, 'Invalid request'],
    ['only an empty form field', multipart([{ fileName: '', content: '' }]), MULTIPART, 400, 'Invalid request'],
    ['only unknown fields', multipart([{ field: 'x', content: 'y' }]), MULTIPART, 400, 'Invalid request'],
    ['no boundary', multipart([good]), { 'content-type': 'multipart/form-data' }, 400, 'Invalid request'],
    [
      'another boundary',
      multipart([good]),
      { 'content-type': 'multipart/form-data; boundary=x' },
      400,
      'Invalid request',
    ],
    ['no end', multipart([good], { cut: true }), MULTIPART, 400, 'Invalid request'],
    ['an end within the headers of a part', multipart([good]).subarray(0, 60), MULTIPART, 400, 'Invalid request'],
    ['nothing', '', MULTIPART, 400, 'Invalid request'],
    ['noise', 'noise\r\n\r\nnoise', MULTIPART, 400, 'Invalid request'],
    ['21 files', multipart(Array.from({ length: 21 }, () => good)), MULTIPART, 400, 'Invalid request'],
    [
      '100 fields',
      multipart(Array.from({ length: 100 }, () => ({ field: 'x', content: '' }))),
      MULTIPART,
      400,
      'Invalid request',
    ],
    [
      'text_inputs that are no JSON',
      multipart([good, { field: 'text_inputs', content: '[' }]),
      MULTIPART,
      400,
      'Invalid text_inputs',
    ],
    [
      'text_inputs of another shape',
      multipart([good, { field: 'text_inputs', content: '[{}]' }]),
      MULTIPART,
      400,
      'Invalid text_inputs',
    ],
    [
      'text_inputs with a member twice',
      multipart([good, { field: 'text_inputs', content: '[{"name":"a","content":"b","name":"c"}]' }]),
      MULTIPART,
      400,
      'Invalid text_inputs',
    ],
    [
      'text_inputs in Latin-1',
      multipart([{ field: 'text_inputs', content: Buffer.from('["\xe9"]', 'latin1') }]),
      MULTIPART,
      400,
      'Invalid text_inputs',
    ],
    [
      'text_inputs nested millions of levels deep',
      multipart([good, { field: 'text_inputs', content: '['.repeat(5_000_000) + ']'.repeat(5_000_000) }]),
      MULTIPART,
      400,
      'Invalid text_inputs',
    ],
    [
      'text_inputs of millions of objects',
      multipart([good, { field: 'text_inputs', content: `[${'{},'.repeat(3_000_000)}{}]` }]),
      MULTIPART,
      400,
      'Invalid text_inputs',
    ],
    [
      'text_inputs twice',
      multipart([1, 2].map((at) => ({ field: 'text_inputs', content: `[{"name":"${at}","content":"One."}]` }))),
      MULTIPART,
      400,
      'Invalid text_inputs',
    ],
    [
      'text_inputs of more than 10 MB',
      multipart([good, { field: 'text_inputs', content: Buffer.alloc(TRAIN_TEXT_BYTES + 1, ' ') }]),
      MULTIPART,
      413,
      'File too large',
    ],
    [
      'a large unknown field',
      multipart([good, { field: 'x', content: Buffer.alloc(TRAIN_OTHER_PART_BYTES + 1, 'y') }]),
      MULTIPART,
      400,
      'Invalid request',
    ],
  ])('with %s is rejected and changes nothing', async (_, body, headers, status, error) => {
    const before = await documentCount()
    const answer = await send(body, headers)
    expect([answer.status, answer.body.error]).toEqual([status, error])
    expect(await documentCount()).toBe(before)
    expect(await uploadDirectories(shared.current)).toEqual([])
  })

  test('a file of more than 50 MB fails alone, and is 413 without others', async () => {
    const large = { fileName: 'large.txt', content: Buffer.alloc(TRAIN_FILE_BYTES + 1, 'a ') }
    const alone = await send(multipart([large]))
    expect([alone.status, alone.body.error]).toEqual([413, 'File too large'])
    expect(await documentCount()).toBe(0)
    const both = await send(multipart([large, good]))
    expect(both.status).toBe(200)
    expect(both.body.results.documents).toEqual([
      { name: 'large.txt', status: 'failed', chunks: 0, error: expect.stringContaining(String(TRAIN_FILE_BYTES)) },
      { name: 'good.txt', status: 'indexed', chunks: 1 },
    ])
    expect(await uploadDirectories(shared.current)).toEqual([])
  })

  test('a body with a declared length above the limit is 413 before it is read', async () => {
    const { hostname, port } = new URL(shared.current.url)
    const socket = connect(Number(port), hostname)
    socket.write(
      `POST ${BASE}/uploads/train HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${shared.current.adminKey}\r\n` +
        `content-type: ${MULTIPART['content-type']}\r\ncontent-length: ${TRAIN_BODY_BYTES + 1}\r\n\r\n`,
    )
    const [head] = await once(socket, 'data')
    socket.destroy()
    expect(String(head)).toMatch(/^HTTP\/1.1 413 /)
  })

  test('a client that disconnects midway leaves neither documents nor files', async () => {
    const before = await documentCount()
    const { hostname, port } = new URL(shared.current.url)
    const body = multipart([good, { fileName: 'b.txt', content: 'x'.repeat(200_000) }])
    const socket = connect(Number(port), hostname)
    socket.write(
      `POST ${BASE}/uploads/train HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${shared.current.adminKey}\r\n` +
        `content-type: ${MULTIPART['content-type']}\r\ncontent-length: ${body.length}\r\n\r\n`,
    )
    await new Promise<void>((resolve) => socket.write(body.subarray(0, body.length / 2), () => resolve()))
    // The directory shows that the daemon is receiving an upload.
    while ((await uploadDirectories(shared.current)).length === 0) await new Promise((resolve) => setImmediate(resolve))
    socket.destroy()
    while ((await uploadDirectories(shared.current)).length > 0) await new Promise((resolve) => setImmediate(resolve))
    expect(await documentCount()).toBe(before)
    expect(shared.current.log.filter(({ level }) => level === 'error')).toEqual([])
  })

  test('text after the closing boundary is ignored', async () => {
    const answer = await send(Buffer.concat([multipart([good]), Buffer.from('epilogue '.repeat(50_000))]))
    expect(answer.status).toBe(200)
  })
})
