import { type CellObject, read } from '@e965/xlsx'
import { repack } from './container.ts'
import { tableText } from './table.ts'
import { createTextParts } from './text-parts.ts'

/**
 * Returns the text of an XLSX workbook as Markdown, with one section per sheet.
 * @throws UnreadableDocument; Error for a damaged workbook
 */
export async function xlsxText(bytes: Buffer): Promise<string> {
  return workbookText(await repack(bytes))
}

/** Returns the text of an old Excel workbook. @throws UnreadableDocument; Error for a damaged workbook */
export function workbookText(bytes: Buffer): string {
  const workbook = read(bytes, { type: 'buffer', dense: true, cellFormula: false, cellHTML: false, sheetStubs: false })
  const text = createTextParts()
  for (const name of workbook.SheetNames) {
    const table = tableText(rowsOf(workbook.Sheets[name]?.['!data'] ?? []))
    if (table !== '') text.add(`# ${name.replace(/\s+/g, ' ').trim()}\n\n${table}\n\n`)
  }
  return text.toString()
}

/**
 * Iterates only over existing rows and cells. A sheet may declare a million rows of sixteen thousand columns, but
 * contain only three cells.
 */
function* rowsOf(data: CellObject[][]): Generator<string[]> {
  for (const at in data) {
    const cells: string[] = []
    data[at]?.forEach((cell, column) => {
      cells[column] = cell.w ?? (cell.v === undefined ? '' : String(cell.v))
    })
    yield Array.from(cells, (cell) => cell ?? '')
  }
}
