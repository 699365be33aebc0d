import { CsvError, parse } from 'csv-parse/sync'
import { tableText } from './table.ts'
import { UnreadableDocument } from './unreadable.ts'

const SEPARATORS = [',', ';', '\t', '|']
const SAMPLE_CHARS = 20_000
/**
 * The maximum length of a row. Without a limit, an unclosed quotation mark would turn the rest of the file into one
 * cell.
 */
const ROW_CHARS = 1_000_000

/** Returns the rows of a CSV file as text. The separator is detected. @throws UnreadableDocument */
export function csvText(text: string): string {
  try {
    return tableText(
      parse(text, {
        delimiter: separatorOf(text),
        relax_column_count: true,
        relax_quotes: true,
        skip_empty_lines: true,
        max_record_size: ROW_CHARS,
      }),
    )
  } catch (error) {
    if (!(error instanceof CsvError)) throw error
    throw new UnreadableDocument(`The file is not well-formed CSV: ${error.message.slice(0, 150)}.`)
  }
}

/**
 * Counts each separator in each of the first lines. Returns the separator whose lowest count is highest. If several
 * separators tie, returns the separator with the highest total count.
 */
function separatorOf(text: string): string {
  const lines = text.slice(0, SAMPLE_CHARS).split(/\r?\n/, 20).filter(Boolean)
  const counted = SEPARATORS.map((separator) => {
    const counts = lines.map((line) => line.split(separator).length - 1)
    return { separator, least: Math.min(...counts), sum: counts.reduce((sum, count) => sum + count, 0) }
  })
  counted.sort((one, other) => other.least - one.least || other.sum - one.sum)
  return counted[0]?.separator ?? ','
}
