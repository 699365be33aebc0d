import { getDocumentProxy, getResolvedPDFJS } from 'unpdf'
import { BoundedInflate } from './bounded-inflate.ts'
import { createTextParts } from './text-parts.ts'
import { UnreadableDocument } from './unreadable.ts'

/** The maximum number of pages of a PDF. */
export const PDF_PAGES = 5_000

/** `pageStarts` lists the offset of each page in the text. */
export type PdfText = { title: string; text: string; pageStarts: number[] }

Object.assign(globalThis, { DecompressionStream: BoundedInflate })

/** Returns the text of a PDF. @throws UnreadableDocument; Error for a damaged PDF */
export async function pdfText(bytes: Buffer): Promise<PdfText> {
  const { VerbosityLevel } = await getResolvedPDFJS()
  const pdf = await getDocumentProxy(new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length), {
    verbosity: VerbosityLevel.ERRORS,
    // PDF.js must not send requests or read local files, even if the PDF refers to them.
    useSystemFonts: false,
    disableAutoFetch: true,
    stopAtErrors: false,
  }).catch((error: Error) => {
    if (error.name !== 'PasswordException') throw error
    throw new UnreadableDocument('The PDF is protected by a password; save it without one.')
  })
  if (pdf.numPages > PDF_PAGES) {
    throw new UnreadableDocument(`The PDF has ${pdf.numPages} pages, more than ${PDF_PAGES}; split it.`)
  }
  const text = createTextParts()
  const pageStarts: number[] = []
  for (let number = 1; number <= pdf.numPages; number++) {
    const page = await pdf.getPage(number)
    const { items } = await page.getTextContent()
    page.cleanup()
    pageStarts.push(text.length)
    const words = pageText(items.flatMap((item) => ('str' in item ? [item] : [])))
    if (words !== '') text.add(words + (endsSentence(words) ? '\n\n' : '\n'))
  }
  if (text.length === 0) {
    throw new UnreadableDocument('The PDF contains only images and no text; run text recognition (OCR) on it first.')
  }
  return { title: await titleOf(pdf), text: text.toString(), pageStarts }
}

type Item = { str: string; height: number; transform: number[]; hasEOL: boolean }
type LinePosition = { y: number; height: number }

/** If the distance between two lines exceeds this multiple of their height, they are in different paragraphs. */
const PARAGRAPH_GAP = 1.75

/** Returns the text of a page, with its lines joined to paragraphs. */
function pageText(items: readonly Item[]): string {
  let text = ''
  let line = ''
  let lineTop: LinePosition | undefined
  let last: LinePosition | undefined

  function endLine(): void {
    const words = line.replace(/\s+/g, ' ').trim()
    line = ''
    if (words === '' || !lineTop) return
    const border = borderOf(text.at(-1), words, last, lineTop)
    // Join a word that was hyphenated at the end of a line.
    if (border === ' ' && /^\p{Ll}/u.test(words) && /\p{Ll}[-\u00ad]$/u.test(text.slice(-3)))
      text = text.slice(0, -1) + words
    else text += border + words
    last = lineTop
    lineTop = undefined
  }

  for (const { str, height, transform, hasEOL } of items) {
    if (str.trim() !== '')
      lineTop = { y: lineTop?.y ?? transform[5] ?? 0, height: Math.max(lineTop?.height ?? 0, height) }
    // If a glyph has no Unicode code point, PDF.js returns NUL for it.
    line += str.replaceAll('\0', '')
    if (hasEOL) endLine()
  }
  endLine()
  return text
}

/**
 * Returns the separator to insert between two lines. `end` is the end of the first line. The separator is empty in
 * scripts without spaces, otherwise a space or a paragraph break.
 */
function borderOf(end: string | undefined, words: string, before: LinePosition | undefined, now: LinePosition): string {
  if (before === undefined) return ''
  const gap = Math.abs(before.y - now.y)
  const height = Math.max(before.height, now.height, 1)
  const isOther = Math.max(before.height, now.height) > 1.2 * Math.min(before.height, now.height)
  if (gap > PARAGRAPH_GAP * height || now.y > before.y + height || isOther) return '\n\n'
  if (/^(?:[•▪–*-]|\d{1,3}[.)])\s/.test(words)) return '\n'
  return /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]$/u.test(end ?? '') ? '' : ' '
}

const endsSentence = (text: string): boolean => /[.!?:。！？…]["'”’)\]]*$/.test(text.slice(-10))

const TITLE_CHARS = 200

/** Returns the title from the PDF's metadata. Titles that a program generated are ignored. */
async function titleOf(pdf: Awaited<ReturnType<typeof getDocumentProxy>>): Promise<string> {
  const { info } = await pdf.getMetadata()
  const title: unknown = Reflect.get(info, 'Title')
  if (typeof title !== 'string') return ''
  const words = title
    .slice(0, 2 * TITLE_CHARS)
    .replace(/[\p{C}\s]+/gu, ' ')
    .trim()
  return /^(?:untitled|microsoft word|document\d*$|.*\.\w{2,4}$)/i.test(words) ? '' : words.slice(0, TITLE_CHARS)
}
