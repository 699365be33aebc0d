/** Renders blocks of Markdown as lines for a terminal. */
import type { MarkedToken, Token, Tokens } from 'marked'
import type { Painter } from '../../output/colour.ts'
import { textWidth, wrapLine } from '../../output/text-width.ts'

/** The text styles, and the maximum width of a line in terminal cells. Words longer than a line are not split. */
export type Look = { painter: Painter; width: number }

const RULE_WIDTH = 40
const COLUMN_GAP = '  '
const SMALLEST_WIDTH = 16

// Excludes the library's catch-all token type from the union, because it would give every field the type `any`.
export const known = (token: Token): MarkedToken => token as MarkedToken

const inlinesText = (tokens: Token[], painter: Painter): string =>
  tokens.map((token) => inlineText(known(token), painter)).join('')

function inlineText(token: MarkedToken, painter: Painter): string {
  switch (token.type) {
    case 'strong':
      return painter.bold(inlinesText(token.tokens, painter))
    case 'em':
      return painter.italic(inlinesText(token.tokens, painter))
    case 'del':
      return painter.strikethrough(inlinesText(token.tokens, painter))
    case 'codespan':
      return painter.cyan(token.text)
    case 'br':
      return '\n'
    case 'checkbox':
      return boxOf(token)
    case 'link':
    case 'image':
      return linkText(token, painter)
    case 'text':
      return token.tokens === undefined ? token.text : inlinesText(token.tokens, painter)
    case 'escape':
      return token.text
    default:
      return token.raw
  }
}

const boxOf = ({ checked }: Tokens.Checkbox): string => (checked ? '[x] ' : '[ ] ')

/** The URL is always shown, because the text of a link may be misleading. */
function linkText({ href, text, tokens }: Tokens.Link | Tokens.Image, painter: Painter): string {
  const name = painter.underline(inlinesText(tokens, painter))
  return text === href || `mailto:${text}` === href ? name : `${name} ${painter.dim(`(${href})`)}`
}

/** Returns the lines of one block. Unknown blocks are shown unchanged. */
export function blockLines(block: Token, look: Look): string[] {
  const token = known(block)
  const { painter, width } = look
  switch (token.type) {
    case 'space':
      return []
    case 'heading': {
      const title = painter.bold(inlinesText(token.tokens, painter))
      return wrapped(token.depth === 1 ? painter.underline(title) : title, width)
    }
    case 'paragraph':
      return wrapped(inlinesText(token.tokens, painter), width)
    case 'text':
      return wrapped(inlineText(token, painter), width)
    case 'hr':
      return [painter.dim('─'.repeat(Math.min(width, RULE_WIDTH)))]
    case 'code':
      return codeLines(token, painter)
    case 'blockquote':
      return blocksLines(token.tokens, narrower(look, 2)).map((line) => `${painter.dim('│')} ${line}`)
    case 'list':
      return token.items.flatMap((item, at) => itemLines(item, markerOf(token, at), look))
    case 'table':
      return tableLines(token, look)
    default:
      return token.raw.trimEnd().split('\n')
  }
}

const wrapped = (text: string, width: number): string[] => text.split('\n').flatMap((line) => wrapLine(line, width))

const narrower = (look: Look, by: number): Look => ({ ...look, width: Math.max(SMALLEST_WIDTH, look.width - by) })

/** Returns the lines of nested blocks, with a blank line only between paragraphs. */
function blocksLines(tokens: Token[], look: Look): string[] {
  const lines: string[] = []
  let before: string | undefined
  for (const token of tokens) {
    if (token.type === 'space') continue
    if (before === 'paragraph' && token.type === 'paragraph') lines.push('')
    lines.push(...blockLines(token, look))
    before = token.type
  }
  return lines
}

const markerOf = ({ ordered, start }: Tokens.List, at: number): string =>
  ordered ? `${(start === '' ? 1 : start) + at}. ` : '• '

/**
 * Returns the list marker and the lines of one item. All lines after the first are indented to align with the first
 * word.
 */
export function itemLines({ tokens }: Tokens.ListItem, marker: string, look: Look): string[] {
  const box = tokens.flatMap(known).find(({ type }) => type === 'checkbox')
  const content = tokens.filter((token) => token !== box)
  const [first = '', ...more] = blocksLines(content, narrower(look, marker.length))
  return [
    `${marker}${box?.type === 'checkbox' ? boxOf(box) : ''}${first}`,
    ...more.map((line) => (line === '' ? '' : `${' '.repeat(marker.length)}${line}`)),
  ]
}

/** Prints code with its fences, so that copied text is valid Markdown. */
const codeLines = ({ text, lang = '' }: Tokens.Code, painter: Painter): string[] => [
  painter.dim(`\`\`\`${lang}`),
  ...text.split('\n'),
  painter.dim('```'),
]

/** Aligned columns. On a narrow terminal, prints each row as several lines of the form `title: value`. */
function tableLines({ header, rows, align }: Tokens.Table, { painter, width }: Look): string[] {
  const cellsOf = (row: Tokens.TableCell[]) => row.map(({ tokens }) => inlinesText(tokens, painter))
  const titles = cellsOf(header).map((title) => painter.bold(title))
  const body = rows.map(cellsOf)
  const widths = titles.map((_, at) => Math.max(...[titles, ...body].map((row) => textWidth(row[at] ?? ''))))
  const rule = widths.map((each) => '─'.repeat(each)).join(COLUMN_GAP)
  if (rule.length > width) {
    const records = body.map((row) => row.map((cell, at) => `${titles[at] ?? ''}: ${cell}`))
    return records.flatMap((lines, at) => (at === 0 ? lines : [painter.dim('─'), ...lines]))
  }
  const lineOf = (row: string[]) =>
    row.map((cell, at) => aligned(cell, widths[at] ?? 0, align[at] ?? 'left')).join(COLUMN_GAP)
  return [lineOf(titles), painter.dim(rule), ...body.map(lineOf)].map((line) => line.trimEnd())
}

function aligned(cell: string, width: number, side: 'left' | 'center' | 'right'): string {
  const room = Math.max(0, width - textWidth(cell))
  const before = side === 'left' ? 0 : side === 'right' ? room : Math.floor(room / 2)
  return ' '.repeat(before) + cell + ' '.repeat(room - before)
}
