/** Characters that start a formula in a spreadsheet. */
const FORMULA = /^[=+\-@\t\r]/

/** The columns of a log in compliance reports and exports. */
export const LOG_COLUMNS: readonly string[] = ['Entry ID', 'Timestamp', 'Event', 'Actor', 'Status', 'Details']

/**
 * Returns a row as CSV (RFC 4180), with a line break at its end. Adds an apostrophe before a cell that a spreadsheet
 * would evaluate as a formula, because callers choose some of the names in a log.
 */
export const toCsvLine = (cells: readonly string[]): string => `${cells.map(toCell).join(',')}\r\n`

function toCell(text: string): string {
  const harmless = FORMULA.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless
}
