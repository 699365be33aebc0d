import { type RawBuilder, sql } from 'kysely'
import { type Engine, engineOf, UnstorableValueError } from './engine.ts'

type ColumnTypes = Readonly<Record<string, 'text' | 'integer'>>
type ListedRow<Columns extends ColumnTypes> = {
  [Name in keyof Columns]: (Columns[Name] extends 'text' ? string : number) | null
}

/**
 * Rows of ours as a table that a statement can join with, in one parameter: the statement stays the same however many there
 * are. Takes text, null and whole numbers.
 * @throws UnstorableValueError naming a column whose text has a NUL or half a surrogate pair, which PostgreSQL refuses.
 */
export function rowList<const Columns extends ColumnTypes>(
  db: Parameters<typeof engineOf>[0],
  columns: Columns,
  rows: readonly ListedRow<Columns>[],
): RawBuilder<ListedRow<Columns>> {
  const engine: Engine = engineOf(db)
  const names = Object.keys(columns)
  // Names come from our own code; this keeps it so.
  for (const name of names) if (!/^[a-z_]+$/.test(name)) throw new UnstorableValueError(`"${name}" is no column name`)
  const json = JSON.stringify(rows.map((row) => names.map((name) => row[name])))
  // Escapes show that a value may hold what cannot be stored, or one that speaks of them; only then is every value looked at.
  if (json.includes('\\u0000') || json.includes('\\ud')) for (const row of rows) checkText(row)
  const { before, after } = engine.rowList(columns)
  return sql`${sql.raw(before)}${json}${sql.raw(after)}`
}

function checkText(row: Readonly<Record<string, string | number | null>>): void {
  for (const [name, value] of Object.entries(row)) {
    // In a pattern with the u flag, a surrogate that is half of a pair is not a character of its own.
    if (typeof value === 'string' && /[\0\p{Surrogate}]/u.test(value))
      throw new UnstorableValueError(`${name} holds a NUL or half a surrogate pair`)
  }
}
