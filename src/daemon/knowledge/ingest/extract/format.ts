import { isUtf8 } from 'node:buffer'
import { fileTypeFromBuffer } from 'file-type'
import { containerKind } from './container.ts'
import { isUtf16 } from './text.ts'
import { damaged, UnreadableDocument } from './unreadable.ts'

/** The supported formats. */
export type Format = 'text' | 'markdown' | 'html' | 'csv' | 'json' | 'pdf' | 'docx' | 'xlsx' | 'xls'
type TextFormat = Extract<Format, 'text' | 'markdown' | 'html' | 'csv' | 'json'>
/**
 * The format that the bytes indicate. `text` means any text format, because the bytes alone do not distinguish text
 * formats.
 */
type Content = 'text' | Exclude<Format, TextFormat>

/**
 * A document whose content has not been extracted yet. `type` is its MIME type in lower case, or empty if the client
 * set none. A text type takes precedence over the name, because a client may extract "handbook.pdf" itself and send the
 * text under that name. With ANY_TEXT, the name decides which text format applies.
 */
export type RawDocument = { name: string; type: string; bytes: Buffer }
const ANY_TEXT = 'text/*'

const EXTENSIONS: Readonly<Record<string, Format>> = {
  txt: 'text',
  text: 'text',
  log: 'text',
  md: 'markdown',
  markdown: 'markdown',
  mdown: 'markdown',
  html: 'html',
  htm: 'html',
  xhtml: 'html',
  csv: 'csv',
  tsv: 'csv',
  json: 'json',
  pdf: 'pdf',
  docx: 'docx',
  xlsx: 'xlsx',
  xlsm: 'xlsx',
  xls: 'xls',
}

const TYPES: Readonly<Record<string, Format>> = {
  'text/plain': 'text',
  'text/markdown': 'markdown',
  'text/x-markdown': 'markdown',
  'text/html': 'html',
  'application/xhtml+xml': 'html',
  'text/csv': 'csv',
  'text/tab-separated-values': 'csv',
  'application/json': 'json',
  'application/pdf': 'pdf',
  'application/vnd.openxmlformats-officedocument.wordprocessingml.document': 'docx',
  'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet': 'xlsx',
  'application/vnd.ms-excel': 'xls',
}

/** Common unsupported formats, and the format to convert them to. */
const CONVERT: Readonly<Record<string, string>> = {
  doc: 'old Word documents (.doc); save it as DOCX or PDF',
  dot: 'old Word documents (.dot); save it as DOCX or PDF',
  rtf: 'RTF; save it as DOCX or PDF',
  odt: 'OpenDocument texts (.odt); save it as DOCX or PDF',
  pages: 'Pages documents; export it as DOCX or PDF',
  ods: 'OpenDocument sheets (.ods); save it as XLSX or CSV',
  xlsb: 'binary Excel workbooks (.xlsb); save it as XLSX or CSV',
  numbers: 'Numbers documents; export it as XLSX or CSV',
  ppt: 'presentations; export it as PDF',
  pptx: 'presentations; export it as PDF',
  odp: 'presentations; export it as PDF',
  key: 'presentations; export it as PDF',
  epub: 'e-books; convert it to HTML or PDF',
  zip: 'archives; unpack it and add the files in it',
}

const NAMES: Readonly<Record<Content, string>> = {
  text: 'plain text',
  pdf: 'a PDF',
  docx: 'a Word document (DOCX)',
  xlsx: 'an Excel workbook (XLSX)',
  xls: 'an old Excel workbook (XLS)',
}
const READABLE = 'TXT, Markdown, HTML, PDF, DOCX, CSV, JSON, XLSX and XLS can be read'

const TEXT_FORMATS: ReadonlySet<Format> = new Set(['text', 'markdown', 'html', 'csv', 'json'])
const isTextFormat = (format: Format): format is TextFormat => TEXT_FORMATS.has(format)

/**
 * Returns the format of a file. The name must match the format that the bytes indicate.
 * @throws UnreadableDocument if the format is unsupported or the name does not match. The message tells the sender what
 * to do.
 */
export async function formatOf({ name, type, bytes }: RawDocument): Promise<Format> {
  const extension = /\.([^./]+)$/.exec(name)?.[1]?.toLowerCase() ?? ''
  const typed = type === ANY_TEXT ? textNamed(extension) : TYPES[type.split(';', 1)[0]?.trim() ?? '']
  if (typed !== undefined && isTextFormat(typed) && (await contentOf(bytes)) === 'text') return typed
  const convert = CONVERT[extension]
  if (convert) throw new UnreadableDocument(`Cannot read ${convert}.`)
  const named = EXTENSIONS[extension] ?? typed
  if (named === undefined && extension !== '') {
    throw new UnreadableDocument(`Cannot read .${extension}; ${READABLE}.`)
  }
  const content = await contentOf(bytes)
  if (named === undefined) return content
  if (content === named || (content === 'text' && isTextFormat(named))) return named
  const promised = EXTENSIONS[extension] ? `its name ends in .${extension}` : `it came as ${type}`
  throw new UnreadableDocument(`This is ${NAMES[content]}, but ${promised}; rename it to match its content.`)
}

function textNamed(extension: string): TextFormat {
  const named = EXTENSIONS[extension]
  return named !== undefined && isTextFormat(named) ? named : 'text'
}

async function contentOf(bytes: Buffer): Promise<Content> {
  const start = bytes.toString('latin1', 0, 8)
  if (start.startsWith('%PDF-')) return 'pdf'
  if (start.startsWith('PK\x03\x04') || start.startsWith('PK\x05\x06')) return zipContent(bytes)
  if (start.startsWith('\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1')) return compoundContent(bytes)
  if (start.startsWith('{\\rtf')) throw new UnreadableDocument(`Cannot read ${CONVERT.rtf}.`)
  if (isUtf8(bytes) || isUtf16(bytes)) return 'text'
  // The picture check comes last, because it would mistake a text that begins with "BM" for a picture.
  const found = await fileTypeFromBuffer(bytes)
  if (found && !found.mime.startsWith('text/')) {
    throw new UnreadableDocument(`This is a file of the type ${found.mime}; ${READABLE}.`)
  }
  return 'text'
}

async function zipContent(bytes: Buffer): Promise<Content> {
  const kind = await containerKind(bytes).catch(damaged('ZIP-based file, such as DOCX or XLSX'))
  if (kind === 'docx' || kind === 'xlsx') return kind
  throw new UnreadableDocument(`Cannot read ${CONVERT[kind]}.`)
}

/**
 * Detects the format of a compound file. Old Office files and encrypted new Office files are compound files: each
 * contains a small file system.
 */
async function compoundContent(bytes: Buffer): Promise<Content> {
  const streams = new Set((await compoundPaths(bytes)).map((path) => path.slice(path.indexOf('/') + 1)))
  if (streams.has('EncryptedPackage')) {
    throw new UnreadableDocument('The file is protected by a password; save it without one.')
  }
  if (streams.has('WordDocument')) throw new UnreadableDocument(`Cannot read ${CONVERT.doc}.`)
  if (streams.has('PowerPoint Document')) throw new UnreadableDocument(`Cannot read ${CONVERT.ppt}.`)
  if (streams.has('Workbook') || streams.has('Book')) return 'xls'
  throw new UnreadableDocument(`This is an old Office file of an unknown kind; ${READABLE}.`)
}

async function compoundPaths(bytes: Buffer): Promise<string[]> {
  const { CFB } = await import('@e965/xlsx')
  try {
    return (CFB.read(bytes, { type: 'buffer' }) as { FullPaths: string[] }).FullPaths
  } catch (error) {
    return damaged('old Office file')(error)
  }
}
