import type { TextFormat } from '../markdown.ts'
import { csvText } from './csv.ts'
import { type Format, formatOf, type RawDocument } from './format.ts'
import { htmlToMarkdown } from './html.ts'
import { jsonText } from './json.ts'
import { decodeText, looksLikeHtml } from './text.ts'
import { damaged, UnreadableDocument } from './unreadable.ts'

/**
 * The text of a file. `title` is empty if the file has none. `pageStarts` lists the offset of each page in the text.
 */
export type Extracted = { title: string; text: string; format: TextFormat; pageStarts?: readonly number[] }

/**
 * Reads a file of any format. The result can be stored in a database.
 * @throws UnreadableDocument if the file cannot be read or has no words; throws no other errors
 */
export async function extract(file: RawDocument): Promise<Extracted> {
  if (file.bytes.length === 0) throw new UnreadableDocument('The file is empty.')
  const format = await formatOf(file)
  const extracted = storable(await readAs(format, file.bytes).catch(damaged(KINDS[format] ?? 'file')))
  if (!/[\p{L}\p{N}]/u.test(extracted.text)) throw new UnreadableDocument('The file contains no words.')
  return extracted
}

/**
 * Removes unpaired surrogates and NUL, because databases reject or change them. Escapes in JSON and workbooks can
 * produce them.
 */
function storable(extracted: Extracted): Extracted {
  const { title, text, pageStarts } = extracted
  if (!UNSTORABLE.test(title) && !UNSTORABLE.test(text)) return extracted
  if (!pageStarts) return { ...extracted, title: storableText(title), text: storableText(text) }
  const pages = [0, ...pageStarts].map((start, at) => storableText(text.slice(start, pageStarts[at])))
  const starts: number[] = []
  let length = 0
  for (const page of pages.slice(0, -1)) {
    length += page.length
    starts.push(length)
  }
  return { ...extracted, title: storableText(title), text: pages.join(''), pageStarts: starts }
}

const UNSTORABLE = /[\0\p{Surrogate}]/u
const storableText = (text: string): string => text.replaceAll('\0', '').replace(/\p{Surrogate}/gu, '\ufffd')

const KINDS: Readonly<Partial<Record<Format, string>>> = {
  pdf: 'PDF',
  docx: 'Word document',
  xlsx: 'Excel workbook',
  xls: 'Excel workbook',
}

/** Reads a file of a known format. Large libraries are loaded when the first file needs them. */
async function readAs(format: Format, bytes: Buffer): Promise<Extracted> {
  switch (format) {
    case 'pdf':
      return { ...(await (await import('./pdf.ts')).pdfText(bytes)), format: 'text' }
    case 'docx':
      return toMarkdown(await (await import('./docx.ts')).docxText(bytes))
    case 'xlsx':
      return toMarkdown(await (await import('./spreadsheet.ts')).xlsxText(bytes))
    case 'xls':
      return toMarkdown((await import('./spreadsheet.ts')).workbookText(bytes))
    default:
      return readText(decodeText(bytes), format)
  }
}

const toMarkdown = (text: string): Extracted => ({ title: '', text, format: 'markdown' })

function readText(text: string, format: Exclude<Format, 'pdf' | 'docx' | 'xlsx' | 'xls'>): Extracted {
  if (format === 'html' || (format === 'text' && looksLikeHtml(text))) {
    return { ...htmlToMarkdown(text), format: 'markdown' }
  }
  if (format === 'csv') return { title: '', text: csvText(text), format: 'text' }
  if (format === 'json') return { title: '', text: jsonText(text), format: 'text' }
  return { title: '', text, format }
}
