import { isUtf8 } from 'node:buffer'
import type { TextFormat } from './markdown.ts'

/** A document before it is read. `type`: the MIME type that came with it, in lower case, or empty. */
type RawDocument = { name: string; type: string; bytes: Buffer }
export type DocumentText = { text: string; format: TextFormat }

/** Why a document cannot be indexed, in words for the one who sent it. */
export class UnreadableDocument extends Error {
  override name = 'UnreadableDocument'
}

const SIGNATURES: readonly (readonly [bytes: string, kind: string])[] = [
  ['%PDF-', 'a PDF'],
  ['PK\x03\x04', 'a ZIP-based file, such as DOCX or XLSX'],
  ['\xd0\xcf\x11\xe0', 'an old Office file (DOC, XLS)'],
]
const CONTROL = /[\x01-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]/g
const CONTROL_SAMPLE_CHARS = 100_000
const CONTROL_SHARE = 0.01

/**
 * The text of a plain text or Markdown document. What a file is says its content first, then its name.
 * @throws UnreadableDocument for everything else, so that nothing is indexed as garbage.
 */
export function readDocument({ name, type, bytes }: RawDocument): DocumentText {
  if (bytes.length === 0) throw new UnreadableDocument('The file is empty.')
  const start = bytes.toString('latin1', 0, 8)
  for (const [signature, kind] of SIGNATURES) {
    if (start.startsWith(signature))
      throw new UnreadableDocument(`This is ${kind}; only text and Markdown can be read.`)
  }
  const format = formatOf(name, type)
  if (!isUtf8(bytes)) throw new UnreadableDocument('The file is not UTF-8 text; convert it first.')
  const text = bytes.toString()
  if (text.includes('\0')) throw new UnreadableDocument('The file holds NUL bytes, so it is not text.')
  const sample = text.slice(0, CONTROL_SAMPLE_CHARS)
  if ((sample.match(CONTROL)?.length ?? 0) > sample.length * CONTROL_SHARE) {
    throw new UnreadableDocument('The file is full of control characters, so it is not text.')
  }
  if (!/[\p{L}\p{N}]/u.test(text)) throw new UnreadableDocument('The file holds no words.')
  return { text, format }
}

const EXTENSIONS: Readonly<Record<string, TextFormat>> = {
  md: 'markdown',
  markdown: 'markdown',
  mdown: 'markdown',
  txt: 'text',
  text: 'text',
}
const TYPES: Readonly<Record<string, TextFormat>> = {
  'text/markdown': 'markdown',
  'text/x-markdown': 'markdown',
  'text/plain': 'text',
}

function formatOf(name: string, type: string): TextFormat {
  const extension = /\.([^./]+)$/.exec(name)?.[1]?.toLowerCase() ?? ''
  const format = EXTENSIONS[extension] ?? TYPES[type]
  if (format) return format
  const what = extension === '' ? type || 'a file without an extension' : `.${extension}`
  throw new UnreadableDocument(`Cannot read ${what}; only text (.txt) and Markdown (.md) can be indexed.`)
}
