import { deflateSync } from 'node:zlib'
import { expect, test } from 'vitest'
import {
  CONTAINER_ENTRIES,
  CONTAINER_UNPACKED_BYTES,
} from '../../../../../src/daemon/knowledge/ingest/extract/container.ts'
import { extract } from '../../../../../src/daemon/knowledge/ingest/extract/extract.ts'
import { PDF_PAGES } from '../../../../../src/daemon/knowledge/ingest/extract/pdf.ts'
import { EXTRACT_TEXT_CHARS } from '../../../../../src/daemon/knowledge/ingest/extract/text-parts.ts'
import { expectProportionate } from '../../../../growth.ts'
import { compound, docx, docxParts, paragraph, pdf, workbook, type ZipPart, zip } from './files.ts'

const read = (name: string, bytes: Buffer) => extract({ name, type: '', bytes })
const document = (content: string | Buffer, claims?: number): ZipPart => ({
  name: 'word/document.xml',
  content,
  ...(claims !== undefined && { claims }),
})

test('a zip bomb that declares its size is not unpacked', async () => {
  const bomb = zip(docxParts('', [document(Buffer.alloc(CONTAINER_UNPACKED_BYTES + 1, ' '))]))
  expect(bomb.length).toBeLessThan(200_000)
  const before = process.memoryUsage().arrayBuffers
  await expect(read('bomb.docx', bomb)).rejects.toThrow(/unpacks to more than 100 MB/)
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(CONTAINER_UNPACKED_BYTES)
})

test('a zip bomb with a false size is stopped at the declared size', async () => {
  const bomb = zip(docxParts('', [document(Buffer.alloc(20_000_000, ' '), 1000)]))
  await expect(read('bomb.docx', bomb)).rejects.toThrow(/This Word document is damaged/)
})

test('the limits apply to the total size and the number of parts', async () => {
  const large = Buffer.alloc(CONTAINER_UNPACKED_BYTES / 4 + 1, ' ')
  const four = ['a', 'b', 'c', 'd'].map((name) => ({ name: `${name}.xml`, content: large }))
  await expect(read('bomb.docx', zip(docxParts('', four)))).rejects.toThrow(/unpacks to more than/)
  const parts = Array.from({ length: CONTAINER_ENTRIES + 1 }, (_, at) => ({ name: `${at}.xml`, content: '' }))
  await expect(read('many.docx', zip(docxParts('', parts)))).rejects.toThrow(/more than 10000 parts/)
})

test('pictures in a document are not unpacked, whatever their declared size', async () => {
  const picture = { name: 'word/media/image1.png', content: Buffer.alloc(1000), claims: 0x7fffffff }
  const { text } = await read('a.docx', zip(docxParts(paragraph('Words.'), [picture])))
  expect(text.trim()).toBe('Words.')
})

test('XML entities are not expanded', async () => {
  const laughs = Array.from({ length: 9 }, (_, at) => `<!ENTITY l${at + 1} "${`&l${at};`.repeat(10)}">`).join('')
  const xml = `<!DOCTYPE x [<!ENTITY l0 "ha">${laughs}]>${docxParts(paragraph('Fine. &l9;'))[2]?.content}`
  const outcome = await read('laughs.docx', zip(docxParts('', [document(xml)]))).catch(String)
  expect(typeof outcome === 'string' ? outcome.length : outcome.text.length).toBeLessThan(1000)
})

test.each([
  ['a PDF', 'a.pdf', pdf([['Words.']], { encrypted: true })],
  ['a new Office file', 'a.docx', compound('EncryptedPackage')],
  ['a ZIP', 'a.docx', zip(docxParts('', [{ ...document('x'), encrypted: true }]))],
])('%s with a password is rejected with that reason', async (_, name, bytes) => {
  await expect(read(name, bytes)).rejects.toThrow(/protected by a password/)
})

test('an old Word document with any extension is rejected with a remedy', async () => {
  for (const name of ['a.doc', 'a.docx', 'a']) {
    await expect(read(name, compound('WordDocument'))).rejects.toThrow(/save it as DOCX or PDF/)
  }
})

test('a PDF with too many pages is rejected before any is read', async () => {
  const many = pdf([['Words.']], { copies: PDF_PAGES + 1 })
  await expect(read('many.pdf', many)).rejects.toThrow(`The PDF has ${PDF_PAGES + 1} pages`)
})

test('a PDF without text is an error', async () => {
  await expect(read('scan.pdf', pdf([[], []]))).rejects.toThrow(/\(OCR\)/)
})

test('a PDF with a doubly compressed stream is read correctly', async () => {
  const twice = (content: Buffer) => ({
    entries: '/Filter[/FlateDecode/FlateDecode]',
    bytes: deflateSync(deflateSync(content)),
  })
  expect((await read('a.pdf', pdf([['Words.']], { stream: twice }))).text.trim()).toBe('Words.')
})

test.each([
  ['a.pdf', pdf([['Words.']])],
  ['a.docx', docx(paragraph('Words.'))],
  ['a.xlsx', workbook('xlsx', { Sheet: [['Words.']] })],
  ['a.xls', workbook('biff8', { Sheet: [['Words.']] })],
])('%s truncated anywhere is read completely, or rejected with a reason', async (name, bytes) => {
  for (let length = 1; length < bytes.length; length += Math.ceil(bytes.length / 60)) {
    const outcome = await read(name, bytes.subarray(0, length)).catch((error: Error) => error)
    if (outcome instanceof Error) expect(outcome.name).toBe('UnreadableDocument')
    else expect(outcome.text).toContain('Words.')
  }
})

test('a sheet that declares a billion cells costs only its real cells', async () => {
  const { text } = await read('wide.xlsx', claimAllCells())
  expect(text).toBe('# Sheet\n\nWords.\n\nLast.\n\n\n\n')
})

test('a small file that expands to a very long text is rejected', async () => {
  const columns = Array.from({ length: 200 }, (_, at) => `column ${at} ${'x'.repeat(80)}`)
  const rows = Math.ceil(EXTRACT_TEXT_CHARS / (200 * 90)) + 1
  const csv = Buffer.from(`${columns.join(',')}\n${`${'1,'.repeat(199)}1\n`.repeat(rows)}`)
  await expect(read('long.csv', csv)).rejects.toThrow(/characters of text; split it/)
})

test('an unclosed quotation mark does not turn the rest into one cell', async () => {
  const csv = Buffer.from(`a,b\n"${'no end, '.repeat(200_000)}`)
  await expect(read('open.csv', csv)).rejects.toThrow(/not well-formed CSV/)
})

/** A workbook whose sheet declares a range from A1 to the last possible cell, and fills only these two. */
function claimAllCells(): Buffer {
  const sheet =
    '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><dimension ref="A1:XFD1048576"/>' +
    '<sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>Words.</t></is></c></row>' +
    '<row r="1048576"><c r="XFD1048576" t="inlineStr"><is><t>Last.</t></is></c></row></sheetData></worksheet>'
  const main = 'http://schemas.openxmlformats.org'
  return zip([
    {
      name: '[Content_Types].xml',
      content:
        `<Types xmlns="${main}/package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>` +
        '<Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>' +
        '<Override PartName="/xl/worksheets/sheet1.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/></Types>',
    },
    {
      name: '_rels/.rels',
      content: `<Relationships xmlns="${main}/package/2006/relationships"><Relationship Id="r1" Type="${main}/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>`,
    },
    {
      name: 'xl/workbook.xml',
      content: `<workbook xmlns="${main}/spreadsheetml/2006/main" xmlns:r="${main}/officeDocument/2006/relationships"><sheets><sheet name="Sheet" sheetId="1" r:id="r1"/></sheets></workbook>`,
    },
    {
      name: 'xl/_rels/workbook.xml.rels',
      content: `<Relationships xmlns="${main}/package/2006/relationships"><Relationship Id="r1" Type="${main}/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/></Relationships>`,
    },
    { name: 'xl/worksheets/sheet1.xml', content: sheet },
  ])
}

test.each([
  ['elements', 'deep.html', '<div>'.repeat(3_000_000)],
  ['lists', 'deep.json', '['.repeat(20_000_000)],
  ['lists in a long text', 'long.json', `{"a": "${'[\\"'.repeat(5_000_000)}"}`],
  ['spaces in code', 'spaces.html', `<pre>${' '.repeat(5_000_000)}x`],
  ['separators', 'wide.csv', ','.repeat(10_000_000)],
])('endless %s take linear time', async (_, name, content) => {
  await expectProportionate((part) =>
    read(name, Buffer.from(content.slice(0, content.length * part))).catch((error: Error) =>
      expect(error.name).toBe('UnreadableDocument'),
    ),
  )
})
