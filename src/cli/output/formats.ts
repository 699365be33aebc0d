/** Formats resources for output. */
import { usageError } from '../errors.ts'
import { forTerminalLine } from './terminal-text.ts'

/** A column shows the value at a path of the resource. `--fields` and `--field` use the same paths. */
export type Column = {
  path: string
  /** The header on a terminal. Defaults to the path in capitals. */
  title?: string
  /** Whether the column is truncated to the remaining width of the terminal. */
  flexible?: boolean
  /** Converts the value for tables and TSV. */
  toCell?: (value: unknown) => unknown
}

type ToCell = NonNullable<Column['toCell']>

/** The path of a column, with an optional function that converts the column's values. */
type ColumnSource = string | [path: string, toCell: ToCell] | Column

/** Makes one column for each title, in the order of `groups`. */
export const columns = (...groups: Record<string, ColumnSource>[]): Column[] =>
  groups
    .flatMap((group) => Object.entries(group))
    .map(([title, source]) => {
      if (typeof source === 'string') return { path: source, title }
      if (Array.isArray(source)) return { path: source[0], toCell: source[1], title }
      return { ...source, title }
    })

/** Creates a flexible column. Its cells are truncated to the remaining width of the terminal. */
export const flexible = (path: string, toCell?: ToCell): Column => ({ path, flexible: true, ...(toCell && { toCell }) })

/**
 * How a resource is shown. `members` lists the allowed values of `--fields`, so commands that change data can validate
 * the flag before the change.
 */
export type View = { columns: Column[]; idPath?: string; none?: string; members?: string[] }

/** Returns the value at a dotted path (`users.0.email`), or undefined if the path does not exist. */
export function findAtPath(value: unknown, path: string): unknown {
  let current = value
  for (const segment of path.split('.')) {
    if (typeof current !== 'object' || current === null || !Object.hasOwn(current, segment)) return undefined
    current = Reflect.get(current, segment)
  }
  return current
}

/** Returns the value in one cell of a table. */
export function cellOf(row: object, { path, toCell }: Column): unknown {
  const value = findAtPath(row, path)
  return toCell === undefined ? value : toCell(value)
}

/** Returns a function that converts a list of objects to the list of their values at `path`. */
export const eachAt =
  (path: string) =>
  (value: unknown): unknown =>
    Array.isArray(value) ? value.map((entry) => findAtPath(entry, path)) : value

/** Formats a value: a string stays unchanged, null becomes an empty text, and an object becomes JSON. */
function toText(value: unknown): string {
  if (value === undefined || value === null) return ''
  if (typeof value === 'string') return value
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return value.join(',')
  return JSON.stringify(value)
}

/**
 * Returns the columns that `--fields` selects. Without the flag, returns the columns of the view. Throws a usage error
 * if no row contains a field.
 */
export function chooseColumns(rows: object[], view: View, fields: string[]): Column[] {
  if (fields.length === 0) return view.columns
  return fields.map((path) => {
    const known = view.columns.find((column) => column.path === path)
    if (known !== undefined) return known
    if (rows.length > 0 && rows.every((row) => findAtPath(row, path) === undefined))
      throw unknownField(path, namesIn(rows))
    return { path }
  })
}

/** Returns the members of one resource that `--fields` selects. */
export const chooseFields = (row: object, columns: Column[]): object =>
  Object.fromEntries(columns.map(({ path }) => [path, findAtPath(row, path) ?? null]))

/**
 * Formats the value of `--field`. For a list, returns one line for each row, unless the path begins with a position
 * such as `0`.
 */
export function toFieldLines(value: object | object[], path: string): string {
  const rows = Array.isArray(value) && !/^\d+(\.|$)/.test(path) ? value : [value]
  const values = rows.map((row) => findAtPath(row, path))
  if (rows.length > 0 && values.every((found) => found === undefined)) {
    throw unknownField(path, namesIn(rows.flatMap((row) => (Array.isArray(row) ? row : [row]))))
  }
  return values.map((found) => `${toText(found)}\n`).join('')
}

const namesIn = (rows: object[]): string[] => [...new Set(rows.flatMap((row) => Object.keys(row)))]

/** Throws a usage error if a field is not in this view's `members`. */
export function assertMembers({ members }: View, paths: string[]): void {
  const unknown = paths.find((path) => members?.includes(path.split('.')[0] ?? '') === false)
  if (unknown !== undefined) throw unknownField(unknown, members ?? [])
}

function unknownField(path: string, names: string[]): Error {
  return usageError(`there is no field '${path}'`, [`Fields:  ${names.join(', ')}`])
}

/** Returns the path of the id in each row. Throws a usage error if the resource has no ids. */
export function getIdPath({ idPath }: View): string {
  if (idPath === undefined)
    throw usageError('this output has no ids', ['Use another format: -o table, json, tsv or csv.'])
  return idPath
}

/** Formats the id of each row on its own line. Throws a usage error if the resource has no ids. */
export function toIdLines(rows: object[], view: View): string {
  const idPath = getIdPath(view)
  return rows.map((row) => `${toText(findAtPath(row, idPath))}\n`).join('')
}

const TSV_ESCAPES: Record<string, string> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' }
const toTsvCell = (value: unknown): string => toText(value).replace(/[\\\t\n\r]/g, (char) => TSV_ESCAPES[char] ?? char)

/**
 * Formats rows as tab-separated lines. Inside a cell, tabs, line breaks and backslashes become `\t`, `\n`, `\r`, `\\`.
 */
export function toTsv(rows: object[], columns: Column[], headers: boolean): string {
  const lines = rows.map((row) => columns.map((column) => toTsvCell(cellOf(row, column))))
  if (headers) lines.unshift(columns.map(({ path }) => path))
  return lines.map((cells) => `${cells.join('\t')}\n`).join('')
}

/**
 * Formats rows as comma-separated values (RFC 4180) with LF line ends. A text that a spreadsheet would read as a formula
 * begins with an apostrophe.
 */
export function toCsv(rows: object[], columns: Column[], headers: boolean): string {
  const lines = rows.map((row) => columns.map((column) => toCsvCell(cellOf(row, column))))
  if (headers) lines.unshift(columns.map(({ path }) => toCsvCell(path)))
  return lines.map((cells) => `${cells.join(',')}\n`).join('')
}

function toCsvCell(value: unknown): string {
  const text = toText(value)
  const isFormula = typeof value === 'string' && /^[=+\-@\t\r]/.test(text)
  const safe = isFormula ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

/**
 * Formats a value as JSON. On a terminal, also escapes C1 controls and DEL. The escapes do not change the JSON value.
 */
export function toJson(value: unknown, { indent, terminal }: { indent: number; terminal: boolean }): string {
  const text = JSON.stringify(value, null, indent)
  if (!terminal) return `${text}\n`
  return `${text.replace(/[\x7f-\x9f]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)}\n`
}

/** Returns the text of one cell on a terminal: one line without control characters. An empty cell shows a dash. */
export const toTerminalCell = (value: unknown): string => forTerminalLine(toText(value)) || '-'

/** Returns the title of a column on a terminal. */
export const titleOf = ({ path, title }: Column): string => title ?? path.toUpperCase()
