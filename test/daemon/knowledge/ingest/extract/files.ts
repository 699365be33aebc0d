import { crc32, deflateRawSync } from 'node:zlib'
import { utils, write } from '@e965/xlsx'

// Small files of every kind, built here so that a test controls each defect.

/** A part of a ZIP; `claims` overrides the unpacked size that the ZIP declares. */
export type ZipPart = { name: string; content: string | Buffer; claims?: number; encrypted?: boolean }

export function zip(parts: readonly ZipPart[]): Buffer {
  const local: Buffer[] = []
  const central: Buffer[] = []
  let offset = 0
  for (const { name, content, claims, encrypted = false } of parts) {
    const bytes = Buffer.from(content)
    const packed = deflateRawSync(bytes)
    const facts = Buffer.alloc(26)
    facts.writeUInt16LE(20, 0)
    facts.writeUInt16LE(encrypted ? 1 : 0, 2)
    facts.writeUInt16LE(8, 4)
    facts.writeUInt32LE(crc32(bytes), 10)
    facts.writeUInt32LE(packed.length, 14)
    facts.writeUInt32LE(claims ?? bytes.length, 18)
    facts.writeUInt16LE(name.length, 22)
    const place = Buffer.alloc(14)
    place.writeUInt32LE(offset, 10)
    local.push(Buffer.from('PK\x03\x04', 'latin1'), facts, Buffer.from(name), packed)
    central.push(Buffer.from('PK\x01\x02\x14\x00', 'latin1'), facts, place, Buffer.from(name))
    offset += 30 + name.length + packed.length
  }
  const directory = Buffer.concat(central)
  const end = Buffer.alloc(22)
  end.write('PK\x05\x06', 0, 'latin1')
  end.writeUInt16LE(parts.length & 0xffff, 8)
  end.writeUInt16LE(parts.length & 0xffff, 10)
  end.writeUInt32LE(directory.length, 12)
  end.writeUInt32LE(offset, 16)
  return Buffer.concat([...local, directory, end])
}

const OFFICE = 'http://schemas.openxmlformats.org'
const RELATIONSHIPS = `${OFFICE}/package/2006/relationships`

/** The parts of a Word document with this XML as its body; `more` replaces parts or adds to them. */
export function docxParts(body: string, more: readonly ZipPart[] = []): ZipPart[] {
  const parts = [
    {
      name: '[Content_Types].xml',
      content:
        `<Types xmlns="${OFFICE}/package/2006/content-types"><Default Extension="xml" ContentType="application/xml"/>` +
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>' +
        '<Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>',
    },
    {
      name: '_rels/.rels',
      content: `<Relationships xmlns="${RELATIONSHIPS}"><Relationship Id="r1" Type="${OFFICE}/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>`,
    },
    {
      name: 'word/document.xml',
      content: `<w:document xmlns:w="${OFFICE}/wordprocessingml/2006/main"><w:body>${body}</w:body></w:document>`,
    },
  ]
  return [...parts.filter(({ name }) => !more.some((part) => part.name === name)), ...more]
}

/** A paragraph of Word. */
export const paragraph = (text: string, style = ''): string =>
  `<w:p>${style && `<w:pPr><w:pStyle w:val="${style}"/></w:pPr>`}<w:r><w:t>${text}</w:t></w:r></w:p>`

/** Word's names for headings, for documents that use them. */
export const HEADING_STYLES: ZipPart = {
  name: 'word/styles.xml',
  content: `<w:styles xmlns:w="${OFFICE}/wordprocessingml/2006/main">${['Title', 'Heading1', 'Heading2']
    .map((id) => `<w:style w:type="paragraph" w:styleId="${id}"><w:name w:val="${id.replace(/\d/, ' $&')}"/></w:style>`)
    .join('')}</w:styles>`,
}

export const STYLES_LINK: ZipPart = {
  name: 'word/_rels/document.xml.rels',
  content: `<Relationships xmlns="${RELATIONSHIPS}"><Relationship Id="r2" Type="${OFFICE}/officeDocument/2006/relationships/styles" Target="styles.xml"/></Relationships>`,
}

export const docx = (...paragraphs: string[]): Buffer =>
  zip(docxParts(paragraphs.join(''), [HEADING_STYLES, STYLES_LINK]))

/** A workbook with these sheets, in the format that the extension names. */
export function workbook(bookType: 'xlsx' | 'xlsb' | 'biff8' | 'ods', sheets: Record<string, unknown[][]>): Buffer {
  const book = utils.book_new()
  for (const [name, rows] of Object.entries(sheets)) utils.book_append_sheet(book, utils.aoa_to_sheet(rows), name)
  return write(book, { type: 'buffer', bookType, compression: true })
}

export type PdfOptions = {
  title?: string
  /** Encrypted with a non-empty password. */
  encrypted?: boolean
  /** All pages have the same content. */
  copies?: number
  /** Adds entries to the dictionary of each text stream and changes its bytes. */
  stream?: (content: Buffer) => { entries: string; bytes: Buffer }
}

/** A PDF with these lines on its pages; an empty line is a gap between paragraphs. */
export function pdf(pages: readonly (readonly string[])[], options: PdfOptions = {}): Buffer {
  const { title, encrypted = false, copies, stream = (bytes) => ({ entries: '', bytes }) } = options
  const objects: Buffer[] = []
  const add = (...content: (string | Buffer)[]): number => {
    const number = objects.length + 1
    const parts = [`${number} 0 obj\n`, ...content, '\nendobj\n']
    objects.push(Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part, 'latin1') : part))))
    return number
  }
  const catalog = add('<</Type/Catalog/Pages 2 0 R>>')
  const tree = objects.push(Buffer.alloc(0))
  const font = add('<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>')
  const shown = pages.map((lines) => {
    const { entries, bytes } = stream(Buffer.from(pageContent(lines), 'latin1'))
    return add(`<</Length ${bytes.length}${entries}>>stream\n`, bytes, '\nendstream')
  })
  const contents = copies === undefined ? shown : Array.from({ length: copies }, () => shown[0] as number)
  const kids = contents.map((content) =>
    add(
      `<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents ${content} 0 R/Resources<</Font<</F ${font} 0 R>>>>>>`,
    ),
  )
  objects[tree - 1] = Buffer.from(
    `2 0 obj\n<</Type/Pages/Count ${kids.length}/Kids[${kids.map((kid) => `${kid} 0 R`).join(' ')}]>>\nendobj\n`,
  )
  const info = title === undefined ? '' : `/Info ${add(`<</Title(${title})>>`)} 0 R`
  const mark = 'ab'.repeat(32)
  const encrypt = encrypted
    ? `/Encrypt ${add(`<</Filter/Standard/V 1/R 2/P -4/O<${mark}>/U<${mark}>>>`)} 0 R/ID[<00><00>]`
    : ''
  let offset = '%PDF-1.4\n'.length
  const offsets = objects.map((object) => {
    const at = offset
    offset += object.length
    return `${String(at).padStart(10, '0')} 00000 n \n`
  })
  const size = objects.length + 1
  const trailer = `trailer<</Size ${size}/Root ${catalog} 0 R${info}${encrypt}>>\nstartxref\n${offset}\n%%EOF`
  const table = `xref\n0 ${size}\n0000000000 65535 f \n${offsets.join('')}`
  return Buffer.concat([Buffer.from('%PDF-1.4\n'), ...objects, Buffer.from(table + trailer, 'latin1')])
}

function pageContent(lines: readonly string[]): string {
  const shown = lines.map((line) => (line === '' ? '0 -14 Td' : `0 -14 Td (${line.replace(/[()\\]/g, '\\$&')}) Tj`))
  return `BT /F 12 Tf 50 750 Td ${shown.join(' ')} ET`
}

/** An old Office file with one stream of this name. */
export function compound(streamName: string): Buffer {
  const sector = (bytes: Buffer) => Buffer.concat([bytes, Buffer.alloc(512 - bytes.length)])
  const header = Buffer.alloc(512)
  Buffer.from('d0cf11e0a1b11ae1', 'hex').copy(header)
  header.writeUInt16LE(0x3e, 24)
  header.writeUInt16LE(3, 26)
  header.writeUInt16LE(0xfffe, 28)
  header.writeUInt16LE(9, 30)
  header.writeUInt16LE(6, 32)
  header.writeUInt32LE(1, 44)
  header.writeUInt32LE(1, 48)
  header.writeUInt32LE(4096, 56)
  header.writeInt32LE(-2, 60)
  header.writeInt32LE(-2, 68)
  header.fill(0xff, 76)
  header.writeUInt32LE(0, 76)
  const fat = Buffer.alloc(512, 0xff)
  fat.writeInt32LE(-3, 0)
  fat.writeInt32LE(-2, 4)
  for (let at = 2; at < 10; at++) fat.writeInt32LE(at === 9 ? -2 : at + 1, at * 4)
  const entry = (name: string, type: number, start: number, size: number, child: number) => {
    const bytes = Buffer.alloc(128)
    bytes.write(name, 'utf16le')
    bytes.writeUInt16LE((name.length + 1) * 2, 64)
    bytes.writeUInt8(type, 66)
    bytes.writeUInt8(1, 67)
    bytes.writeInt32LE(-1, 68)
    bytes.writeInt32LE(-1, 72)
    bytes.writeInt32LE(child, 76)
    bytes.writeInt32LE(start, 116)
    bytes.writeUInt32LE(size, 120)
    return bytes
  }
  const directory = sector(Buffer.concat([entry('Root Entry', 5, -2, 0, 1), entry(streamName, 2, 2, 4096, -1)]))
  return Buffer.concat([header, fat, directory, Buffer.alloc(4096, 1)])
}
