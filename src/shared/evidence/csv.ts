/** What a spreadsheet takes for the beginning of a formula. */
const FORMULA = /^[=+\-@\t\r]/

/** The columns of a log as a table, in compliance reports and in exports alike. */
export const LOG_COLUMNS: readonly string[] = ['Entry ID', 'Timestamp', 'Event', 'Actor', 'Status', 'Details']

/**
 * A row as CSV (RFC 4180), with its end. A cell that a spreadsheet would run gets an apostrophe before it: names in the log are
 * those that callers chose.
 */
export const toCsvLine = (cells: readonly string[]): string => `${cells.map(toCell).join(',')}\r\n`

function toCell(text: string): string {
  const harmless = FORMULA.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless
}
