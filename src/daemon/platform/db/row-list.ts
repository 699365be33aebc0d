import { type RawBuilder, sql } from 'kysely'
import { type Engine, engineOf, UnstorableValueError } from './engine.ts'

type ColumnTypes = Readonly<Record<string, 'text' | 'integer'>>
type ListedRow<Columns extends ColumnTypes> = {
  [Name in keyof Columns]: (Columns[Name] extends 'text' ? string : number) | null
}

/**
 * Converts rows to a table that a query can join. The rows are passed as one parameter, so the SQL is the same for any
 * number of rows. Accepts text, null and integers.
 * @throws UnstorableValueError with the name of the column, if a text contains a NUL or a lone surrogate. PostgreSQL
 * rejects both.
 */
export function rowList<const Columns extends ColumnTypes>(
  db: Parameters<typeof engineOf>[0],
  columns: Columns,
  rows: readonly ListedRow<Columns>[],
): RawBuilder<ListedRow<Columns>> {
  const engine: Engine = engineOf(db)
  const names = Object.keys(columns)
  // Column names come from our own code. This check enforces it.
  for (const name of names)
    if (!/^[a-z_]+$/.test(name)) throw new UnstorableValueError(`"${name}" is not a valid column name`)
  const json = JSON.stringify(rows.map((row) => names.map((name) => row[name])))
  // In JSON, an unstorable value always contains one of these escapes. Values are checked only if such an escape is
  // found.
  if (json.includes('\\u0000') || json.includes('\\ud')) for (const row of rows) checkText(row)
  const { before, after } = engine.rowList(columns)
  return sql`${sql.raw(before)}${json}${sql.raw(after)}`
}

function checkText(row: Readonly<Record<string, string | number | null>>): void {
  for (const [name, value] of Object.entries(row)) {
    // With the u flag, \p{Surrogate} matches only lone surrogates.
    if (typeof value === 'string' && /[\0\p{Surrogate}]/u.test(value))
      throw new UnstorableValueError(`${name} contains a NUL or half a surrogate pair`)
  }
}
