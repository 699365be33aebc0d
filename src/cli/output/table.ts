/** Tables and cards for a terminal. */
import type { Painter } from './colour.ts'
import { type Column, cellOf, titleOf, toTerminalCell } from './formats.ts'
import { relativeTime } from './relative-time.ts'
import { wrapText } from './text-width.ts'

const BARE = {
  ...{ top: '', 'top-mid': '', 'top-left': '', 'top-right': '' },
  ...{ bottom: '', 'bottom-mid': '', 'bottom-left': '', 'bottom-right': '' },
  ...{ left: '', 'left-mid': '', mid: '', 'mid-mid': '', right: '', 'right-mid': '' },
  middle: '  ',
}
const GAP = 2
const SMALLEST_FLEXIBLE = 16

type TableOptions = { columns: Column[]; headers: boolean; width: number; painter: Painter; now: number }

/**
 * Formats a list as aligned columns for a terminal of `width` cells. The flexible column gets the remaining width. If
 * the columns do not fit, formats each row as a card.
 */
export async function toTable(
  rows: object[],
  { columns, headers, width, painter, now }: TableOptions,
): Promise<string> {
  const { default: Table } = await import('cli-table3')
  const titles = columns.map(titleOf)
  const cellsOf = (row: object, shown: Column[]) =>
    shown.map((column) => {
      const value = cellOf(row, column)
      return toTerminalCell(relativeTime(value, now) ?? value)
    })
  const draw = (head: string[], body: string[][], colWidths: (number | null)[] = []) => {
    const table = new Table({
      chars: BARE,
      style: { 'padding-left': 0, 'padding-right': 0, head: [], border: [] },
      colWidths,
    })
    table.push(head, ...body)
    return table.toString().split('\n')
  }

  // Takes the table's width from the first line, because titles are padded and ASCII. The length of a row may differ
  // from its width, because rows may contain wide characters.
  const fixed = columns.filter((column) => column.flexible !== true)
  const [ruler = ''] = draw(
    fixed.map(titleOf),
    rows.map((row) => cellsOf(row, fixed)),
  )
  const left = Math.max(SMALLEST_FLEXIBLE, width - ruler.length - GAP)
  const natural = draw(
    titles,
    rows.map((row) => cellsOf(row, columns)),
  )
  const overflows = (natural[0]?.length ?? 0) > width
  const lines = overflows
    ? draw(
        titles,
        rows.map((row) => cellsOf(row, columns)),
        columns.map(({ flexible }) => (flexible ? left : null)),
      )
    : natural

  if ((lines[0]?.length ?? 0) > width) {
    return rows.map((row) => toCard(row, columns, { painter, now, width })).join('\n')
  }

  const [head = '', ...body] = lines.map((line) => line.trimEnd())
  return [...(headers ? [painter.bold(head)] : []), ...body].map((line) => `${line}\n`).join('')
}

type CardOptions = {
  painter: Painter
  now: number
  /** Wraps values that are longer. Without this member, a value stays on one line, so that it can be copied. */
  width?: number
}

/** Formats one resource for a terminal. Each line contains a title and a value. */
export function toCard(row: object, columns: Column[], { painter, now, width }: CardOptions): string {
  const titles = columns.map(titleOf)
  const margin = Math.max(0, ...titles.map((title) => title.length)) + GAP
  return columns
    .map((column, at) => {
      const value = cellOf(row, column)
      const relative = relativeTime(value, now)
      const text = toTerminalCell(relative === undefined ? value : `${relative} (${value})`)
      const lines = width === undefined ? [text] : wrapText(text, Math.max(SMALLEST_FLEXIBLE, width - margin))
      return `${painter.bold((titles[at] ?? '').padEnd(margin))}${lines.join(`\n${' '.repeat(margin)}`)}\n`
    })
    .join('')
}
