import { expect, test } from 'vitest'
import { ListDocumentsResponse, SearchResponse } from '../../../../src/shared/wire/indexes.ts'
import { describeEachEngine } from '../../../engines.ts'
import { sharedGateway } from '../../../harness.ts'
import { recordedChanges } from '../../../recorded-changes.ts'
import { compound, docx, paragraph, pdf, workbook } from '../ingest/extract/files.ts'
import { MULTIPART, multipart, type TestPart } from '../ingest/multipart.ts'

const BASE = '/api/external/indexes'

describeEachEngine('the documents of an index', (engine) => {
  const shared = sharedGateway({ engine })
  const call: (typeof shared.current)['call'] = (...args) => shared.current.call(...args)
  const create = (name: string) => call('POST', BASE, { name })
  const train = (name: string, parts: readonly TestPart[]) =>
    call('POST', `${BASE}/${name}/train`, multipart(parts), { headers: MULTIPART })
  const list = async (name: string, query = '') =>
    ListDocumentsResponse.parse((await call('GET', `${BASE}/${name}/documents?${query}`)).body)
  const search = async (name: string, query: string) =>
    SearchResponse.parse((await call('GET', `${BASE}/${name}/search?query=${query}`)).body).results

  test('of every kind are found by their content, and a PDF by its page', async () => {
    await create('kinds')
    const filler = Array.from({ length: 30 }, (_, line) => `Line ${line} is about nothing in particular.`)
    const answer = await train('kinds', [
      { fileName: 'a.pdf', content: pdf([filler, [...filler, 'A walrus has tusks.']]) },
      { fileName: 'b.docx', content: docx(paragraph('Animals', 'Heading1'), paragraph('An otter holds hands.')) },
      {
        fileName: 'c.xlsx',
        content: workbook('xlsx', {
          Sheet: [
            ['Animal', 'Legs'],
            ['Beetle', 6],
          ],
        }),
      },
      {
        fileName: 'd.xls',
        content: workbook('biff8', {
          Sheet: [
            ['Animal', 'Legs'],
            ['Centipede', 30],
          ],
        }),
      },
      { fileName: 'e.csv', content: 'animal,legs\nspider,8' },
      { fileName: 'f.json', content: '{"animal": "octopus", "arms": 8}' },
      { fileName: 'g.html', content: '<title>Birds</title><p>A heron stands still.' },
    ])
    expect(answer.body.results.documents.map(({ error }: { error?: string }) => error)).toEqual(
      Array(7).fill(undefined),
    )
    for (const [word, source] of Object.entries({
      walrus: 'a.pdf',
      otter: 'b.docx',
      beetle: 'c.xlsx',
      centipede: 'd.xls',
      spider: 'e.csv',
      octopus: 'f.json',
      heron: 'g.html',
    })) {
      const [match] = (await search('kinds', word)).matches
      expect([match?.source, match?.metadata.page]).toEqual([source, source === 'a.pdf' ? 2 : null])
    }
    expect((await search('kinds', 'heron')).matches[0]?.metadata.title).toBe('Birds')
  })

  test('that are unreadable fail individually, with a remedy', async () => {
    await create('mixed-kinds')
    const answer = await train('mixed-kinds', [
      { fileName: 'old.doc', content: compound('WordDocument') },
      { fileName: 'secret.pdf', content: pdf([['Words.']], { encrypted: true }) },
      { fileName: 'many.pdf', content: pdf([['Words.']], { copies: 10_000 }) },
      { fileName: 'scan.pdf', content: pdf([[]]) },
      { fileName: 'wrong.pdf', content: 'This is a text.' },
      { fileName: 'good.md', content: 'Good text.' },
    ])
    expect(answer.status).toBe(200)
    expect(answer.body.results).toMatchObject({ files_processed: 6, documents_extracted: 1, documents_indexed: 1 })
    const reasons = answer.body.results.documents.map(({ error }: { error?: string }) => error)
    expect(reasons).toEqual([
      expect.stringContaining('save it as DOCX or PDF'),
      expect.stringContaining('protected by a password'),
      expect.stringContaining('10000 pages'),
      expect.stringContaining('OCR'),
      expect.stringContaining('rename it to match its content'),
      undefined,
    ])
  })

  test('are listed in pages, by name or by age', async () => {
    await create('listed-docs')
    for (const name of ['b.txt', 'a.txt', 'notes/c.md']) {
      await train('listed-docs', [{ fileName: name, content: `# The title\n\nWords of ${name}.` }])
    }
    const all = await list('listed-docs', 'sortBy=name&sortOrder=asc')
    expect(all.documents.map(({ name }) => name)).toEqual(['a.txt', 'b.txt', 'notes/c.md'])
    expect(all.documents[2]).toEqual({
      id: expect.stringMatching(/^[0-9a-f]{24}$/),
      name: 'notes/c.md',
      title: 'The title',
      chunks: 1,
      createdAt: expect.stringMatching(/Z$/),
    })
    expect((await list('listed-docs')).documents.map(({ name }) => name)).toEqual(['notes/c.md', 'a.txt', 'b.txt'])
    expect(await list('listed-docs', 'limit=2&page=2')).toMatchObject({
      documents: [{ name: 'b.txt' }],
      pagination: { page: 2, limit: 2, total: 3, pages: 2 },
    })
    expect((await list('listed-docs', 'search=C.MD')).documents.map(({ name }) => name)).toEqual(['notes/c.md'])
  })

  test('can be deleted one by one', async () => {
    await create('smaller')
    await train('smaller', [
      { fileName: 'a.txt', content: 'Zebras have stripes.' },
      { fileName: 'b.txt', content: 'Zebras live in herds.' },
    ])
    const { documents } = await list('smaller', 'sortBy=name&sortOrder=asc')
    const path = `${BASE}/smaller/documents/${documents[0]?.id}`
    const deleted = await call('DELETE', path)
    expect([deleted.status, deleted.body.success]).toEqual([200, true])
    expect((await search('smaller', 'zebras')).matches.map(({ source }) => source)).toEqual(['b.txt'])
    expect((await list('smaller')).pagination.total).toBe(1)
    const again = await call('DELETE', path)
    expect([again.status, again.body.error]).toEqual([404, 'Document not found'])
    // A removed document returns when it is sent again.
    const back = await train('smaller', [{ fileName: 'a.txt', content: 'Zebras have stripes.' }])
    expect(back.body.results.documents[0].status).toBe('indexed')
    const changes = await recordedChanges(shared.current.app.db)
    expect(changes.filter(({ operation }) => operation === 'delete_document')).toMatchObject([
      { description: 'External API: deleted "a.txt" from index "smaller"', metadata: { document: 'a.txt' } },
    ])
  })

  test('of a private index appear in the audit log only by their ids', async () => {
    const created = (await create('closed')).body.index
    const me = (await recordedChanges(shared.current.app.db)).at(-1)?.user_id
    expect((await call('PUT', `${BASE}/${created.id}`, { assignedUser: me })).status).toBe(200)
    const name = 'diagnosis-of-ada.txt'
    const large = Array.from({ length: 80 }, (_, at) => `Paragraph ${at}. ${'Words. '.repeat(100)}`).join('\n\n')
    await train('closed', [{ fileName: name, content: 'Small.' }])
    await train('closed', [{ fileName: name, content: large }])
    const [document] = (await list('closed')).documents
    await call('DELETE', `${BASE}/closed/documents/${document?.id}`)
    const entries = (await recordedChanges(shared.current.app.db)).filter(
      ({ resource_id }) => resource_id === created.id,
    )
    expect(JSON.stringify(entries)).not.toContain(name)
    const id = document?.id
    expect(entries.slice(-3)).toMatchObject([
      { operation: 'train', metadata: { documentId: expect.any(String), passages: 1, replaced: false } },
      {
        operation: 'train',
        description: expect.stringContaining(`"${id}"`),
        metadata: { documentId: id, replaced: true },
      },
      { operation: 'delete_document', description: expect.stringContaining(`"${id}"`), metadata: { documentId: id } },
    ])
    for (const { metadata } of entries.slice(-3)) expect(metadata).not.toHaveProperty('contentHash')
  })

  test('of another index cannot be deleted through this one', async () => {
    for (const name of ['here', 'there']) {
      await create(name)
      await train(name, [{ fileName: 'a.txt', content: 'Words.' }])
    }
    const { documents } = await list('there')
    expect((await call('DELETE', `${BASE}/here/documents/${documents[0]?.id}`)).status).toBe(404)
    expect((await list('there')).pagination.total).toBe(1)
  })
})
