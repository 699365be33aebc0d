import { endsFence, fenceOf } from '../../../platform/text/code-fence.ts'
import { sentenceEnds } from '../../../platform/text/sentences.ts'
import type { GroundingPassage } from '../../provider.ts'

/**
 * A part of a passage that can be quoted by itself: one sentence, one list item, one table row, or one block of code.
 */
export type Statement = {
  passage: GroundingPassage
  text: string
  kind: 'prose' | 'item' | 'code'
  /** The column names, if the statement is a table row. */
  columns: string
  /** The first cell, if the statement is a table row. The first cell names the topic of the row. */
  label: string
  /** The statement's position in its passage: its index among all statements, from 0. */
  position: number
  /** The statement announces the content that follows it, as in "as follows:". */
  announces: boolean
  /** The statement only points to another page. */
  points: boolean
}

/** The statement begins with a link. */
const LINK_FIRST = /^(?:see (?:also )?)?\[[^\]]{1,300}\]\(/i
const LINK = /\[[^\]]{1,300}\]\([^)]{0,500}\)/g
const ITEM = /^\s*(?:[-*+]|\d{1,9}[.)])\s+/
const TABLE_RULE = /^\s*\|?[\s:|-]+\|?\s*$/
/** Matches badges, images, tags and bare links. They never answer a question. */
const DECORATION = [/!\[[^\]]{0,300}\]\([^)]{0,500}\)/g, /\[[^\]]{0,300}\]\([^)]{0,500}\)/g, /<[^>]{0,500}>/g]

/** The maximum length of a list item that is quoted whole. A longer item is split into sentences. */
const ITEM_CHARS = 300

/**
 * Returns the statements of a passage in order, as plain text. The markup of lists, quotes, tables, links and bold text
 * is removed.
 */
export function statementsOf(passage: GroundingPassage): Statement[] {
  const statements: Statement[] = []
  const add = (text: string, kind: Statement['kind'], { columns = '', label = '', points = false } = {}): void => {
    const announces = /[:：]$/.test(text)
    statements.push({ passage, text, kind, columns, label, position: statements.length, announces, points })
  }
  let prose: string[] = []
  let kind: 'prose' | 'item' = 'prose'
  let code: string[] | undefined
  let fence = ''
  let columns: string[] | undefined
  let lastRow: { cells: string[]; statements: number } | undefined

  function addRow(line: string): void {
    const cells = cellsOf(line).map(withoutMarkup)
    if (TABLE_RULE.test(line)) {
      // The row above the separator line contains the column names and is not a statement.
      if (lastRow) statements.length = lastRow.statements
      columns = lastRow?.cells
    } else {
      lastRow = { cells, statements: statements.length }
      if (isInformative(line)) add(rowText(cells, columns), 'item', { columns: columns?.join(' '), label: cells[0] })
    }
  }
  function endProse(): void {
    const raw = prose.join(' ')
    prose = []
    if (!isInformative(raw)) return
    const text = withoutMarkup(raw)
    if (kind === 'item' && text.length <= ITEM_CHARS) {
      add(text, 'item', { points: isPointer(raw) })
      return
    }
    let start = 0
    const pointer = isPointer(raw)
    for (const end of sentenceEnds(text, 0, text.length)) {
      const sentence = text.slice(start, end).trim()
      if (isInformative(sentence)) add(sentence, kind, { points: pointer })
      start = end
    }
  }
  function endCode(): void {
    const text = withoutIndent(code ?? [])
      .join('\n')
      .trimEnd()
    code = undefined
    if (text.trim() !== '') add(text, 'code')
  }

  for (const line of passage.text.split('\n')) {
    // A fence may be indented, because code inside a list is indented.
    const unindented = line.trimStart()
    if (code !== undefined) {
      if (endsFence(unindented, fence)) endCode()
      else code.push(line)
      continue
    }
    const mark = fenceOf(unindented)
    const item = ITEM.exec(line)
    const isRow = unindented.startsWith('|')
    if (mark !== undefined || item !== null || line.trim() === '' || isRow) endProse()
    if (!isRow) columns = lastRow = undefined
    if (mark !== undefined) {
      fence = mark
      code = []
    } else if (item !== null) {
      kind = 'item'
      prose.push(line.slice(item[0].length))
    } else if (isRow) addRow(line)
    else if (line.trim() !== '') {
      if (prose.length === 0) kind = 'prose'
      prose.push(line.replace(/^\s*>\s?/, ''))
    }
  }
  endProse()
  endCode()
  return statements
}

/**
 * Matches bold text. Asterisks within or next to a word are not markup. Example: the masked value "b**@a***.example".
 */
const BOLD = /(?<![\p{L}\p{N}*])\*\*(?![\s*@])((?:[^*]|\*(?!\*))+)(?<!\s)\*\*(?![\p{L}\p{N}*])/gu

/** Removes the list's indentation from the lines of a code block inside a list. */
function withoutIndent(lines: readonly string[]): string[] {
  const indents = lines.filter((line) => line.trim() !== '').map((line) => line.length - line.trimStart().length)
  const indent = indents.reduce((least, next) => Math.min(least, next), Number.POSITIVE_INFINITY)
  return lines.map((line) => line.slice(indent))
}

/** Whether a text mainly consists of links to other pages. */
const isPointer = (raw: string): boolean =>
  LINK_FIRST.test(raw) || withoutMarkup(raw.replace(LINK, '')).length < withoutMarkup(raw).length / 2

function withoutMarkup(text: string): string {
  return text
    .replace(/!\[[^\]]{0,300}\]\([^)]{0,500}\)/g, '')
    .replace(/\[([^\]]{1,300})\]\([^)]{0,500}\)/g, '$1')
    .replace(BOLD, '$1')
    .replace(/\s+/g, ' ')
    .trim()
}

function isInformative(text: string): boolean {
  const words = DECORATION.reduce((left, pattern) => left.replace(pattern, ''), text)
  return /[\p{L}\p{N}]/u.test(words)
}

function cellsOf(line: string): string[] {
  const cells = line
    .trim()
    .replace(/^\||\|$/g, '')
    .split(/(?<!\\)\|/)
  return cells.map((cell) => cell.trim().replaceAll('\\|', '|'))
}

function rowText(cells: readonly string[], columns: readonly string[] = []): string {
  const named = cells.map((cell, at) => (columns[at] && at > 0 ? `${columns[at]}: ${cell}` : cell))
  return named.filter((_, at) => cells[at] !== '').join(' · ')
}
