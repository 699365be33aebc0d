import { crc32 } from 'node:zlib'
import { type Entry, fromBufferPromise, type ZipFile } from 'yauzl'
import { UnreadableDocument } from './unreadable.ts'

/** The maximum number of entries of a ZIP-based file. */
export const CONTAINER_ENTRIES = 10_000
/** The maximum unpacked size of the text parts of a ZIP-based file. */
export const CONTAINER_UNPACKED_BYTES = 104_857_600

// The libraries for DOCX and XLSX unpack a whole ZIP into memory and trust its declared sizes. These libraries
// therefore get a repacked ZIP with only the text parts. The reader that unpacks these parts enforces the limits.

/** The kind of a ZIP file: a supported format, or the extension of a known unsupported format. */
export type ContainerKind = 'docx' | 'xlsx' | 'xlsb' | 'pptx' | 'odt' | 'ods' | 'odp' | 'epub' | 'zip'

/** Maps parts that identify a kind of file, because they occur only in files of this kind. */
const MAIN_PARTS: Readonly<Record<string, ContainerKind>> = {
  'word/document.xml': 'docx',
  'xl/workbook.xml': 'xlsx',
  'xl/workbook.bin': 'xlsb',
  'ppt/presentation.xml': 'pptx',
  'META-INF/container.xml': 'epub',
}
const MIME_TYPES: Readonly<Record<string, ContainerKind>> = {
  'application/vnd.oasis.opendocument.text': 'odt',
  'application/vnd.oasis.opendocument.spreadsheet': 'ods',
  'application/vnd.oasis.opendocument.presentation': 'odp',
  'application/epub+zip': 'epub',
}
const MIME_TYPE_BYTES = 100

/** Detects the kind of a ZIP file. Unpacks at most the part that identifies the kind. @throws UnreadableDocument */
export function containerKind(bytes: Buffer): Promise<ContainerKind> {
  return inContainer(bytes, async (zip, entries) => {
    for (const { fileName } of entries) {
      const kind = MAIN_PARTS[fileName]
      if (kind) return kind
    }
    const mimeType = entries.find(({ fileName }) => fileName === 'mimetype')
    if (!mimeType || mimeType.uncompressedSize > MIME_TYPE_BYTES) return 'zip'
    return MIME_TYPES[(await unpack(zip, mimeType)).toString('latin1').trim()] ?? 'zip'
  })
}

/**
 * Returns the same ZIP with only its XML parts, uncompressed.
 * @throws UnreadableDocument if the result exceeds a limit
 */
export function repack(bytes: Buffer): Promise<Buffer> {
  return inContainer(bytes, async (zip, entries) => {
    const wanted = entries.filter(({ fileName }) => /\.(?:xml|rels)$/i.test(fileName))
    let left = CONTAINER_UNPACKED_BYTES
    for (const { uncompressedSize } of wanted) left -= uncompressedSize
    if (left < 0) throw tooLarge()
    const parts: { name: Buffer; content: Buffer }[] = []
    for (const entry of wanted) {
      parts.push({ name: Buffer.from(entry.fileName), content: await unpack(zip, entry) })
    }
    return toStoredZip(parts)
  })
}

const tooLarge = () =>
  new UnreadableDocument(
    `The file unpacks to more than ${CONTAINER_UNPACKED_BYTES / 1_048_576} MB; split it, or save it as text or CSV.`,
  )

async function inContainer<T>(bytes: Buffer, use: (zip: ZipFile, entries: Entry[]) => Promise<T>): Promise<T> {
  const zip = await fromBufferPromise(bytes, { lazyEntries: true, validateEntrySizes: true })
  if (zip.entryCount > CONTAINER_ENTRIES) {
    throw new UnreadableDocument(`The file has more than ${CONTAINER_ENTRIES} parts.`)
  }
  const entries: Entry[] = []
  for await (const entry of zip.eachEntry()) entries.push(entry)
  return use(zip, entries)
}

/** Unpacks a part. The stream fails if a part exceeds its declared size, so the declared size is the maximum. */
async function unpack(zip: ZipFile, entry: Entry): Promise<Buffer> {
  if (entry.isEncrypted()) throw new UnreadableDocument('The file is protected by a password; save it without one.')
  const chunks: Buffer[] = []
  for await (const chunk of await zip.openReadStreamPromise(entry)) chunks.push(chunk)
  return Buffer.concat(chunks)
}

/** Creates a minimal ZIP (PKWARE APPNOTE 4.3): no compression, no extra fields. */
function toStoredZip(parts: readonly { name: Buffer; content: Buffer }[]): Buffer {
  const local: Buffer[] = []
  const central: Buffer[] = []
  let offset = 0
  for (const { name, content } of parts) {
    const facts = Buffer.alloc(26)
    facts.writeUInt16LE(20, 0) // version needed
    facts.writeUInt16LE(0x0800, 2) // names are UTF-8
    facts.writeUInt16LE(0x21, 8) // 1 January 1980
    facts.writeUInt32LE(crc32(content), 10)
    facts.writeUInt32LE(content.length, 14)
    facts.writeUInt32LE(content.length, 18)
    facts.writeUInt16LE(name.length, 22)
    const place = Buffer.alloc(14)
    place.writeUInt32LE(offset, 10)
    local.push(Buffer.from('PK\x03\x04', 'latin1'), facts, name, content)
    central.push(Buffer.from('PK\x01\x02\x14\x00', 'latin1'), facts, place, name)
    offset += 30 + name.length + content.length
  }
  const directory = Buffer.concat(central)
  const end = Buffer.alloc(22)
  end.write('PK\x05\x06', 0, 'latin1')
  end.writeUInt16LE(parts.length, 8)
  end.writeUInt16LE(parts.length, 10)
  end.writeUInt32LE(directory.length, 12)
  end.writeUInt32LE(offset, 16)
  return Buffer.concat([...local, directory, end])
}
