import { CompiledQuery } from 'kysely'
import type { Db } from './database.ts'
import { type BulkInsert, type Engine, engineOf, UnstorableValueError } from './engine.ts'
import type { Tables } from './tables.ts'

const prepared = new Map<Engine, Map<string, BulkInsert>>()

/** What becomes of a row whose key exists: it is left out, or it overwrites the one with the same `replace` columns. */
export type OnConflict<Table extends keyof Tables> =
  | 'ignore'
  | { replace: readonly [keyof Tables[Table] & string, ...(keyof Tables[Table] & string)[]] }

/**
 * Inserts many rows in one statement, so all of them or none, and returns how many were written. Without `onConflict` one
 * row that a unique key refuses refuses them all. No two rows may replace the same one.
 *
 * Takes text, null and whole numbers. Fractions are refused because SQLite reads about one decimal in ten thousand back a
 * bit off, NUL and lone surrogates because PostgreSQL cannot store them.
 * @throws UnstorableValueError naming the column; nothing is written.
 */
export async function insertRows<Table extends keyof Tables>(
  db: Db,
  table: Table,
  rows: readonly Tables[Table][],
  { onConflict }: { onConflict?: OnConflict<Table> } = {},
): Promise<number> {
  const [first] = rows
  if (first === undefined) return 0
  const columns = Object.keys(first)
  for (const row of rows) checkRow(table, columns, row)
  const insert = bulkInsert(engineOf(db), table, columns, onConflict)
  const json = insert.toParameter(rows)
  // Escapes in the text show that a value may hold what cannot be stored; only then is every value looked at.
  if (json.includes('\\u0000') || json.includes('\\ud')) for (const row of rows) checkText(table, row)
  const { numAffectedRows } = await db.executeQuery(CompiledQuery.raw(insert.sql, [json]))
  return Number(numAffectedRows)
}

function bulkInsert(
  engine: Engine,
  table: string,
  columns: readonly string[],
  onConflict: 'ignore' | { replace: readonly string[] } | undefined,
): BulkInsert {
  const replaced = typeof onConflict === 'object' ? onConflict.replace : undefined
  const key = `${replaced?.join() ?? onConflict} ${table} ${columns.join()}`
  const known = prepared.get(engine) ?? new Map<string, BulkInsert>()
  let insert = known.get(key)
  if (insert === undefined) {
    for (const name of [table, ...columns, ...(replaced ?? [])]) {
      // Names come from our own row types; this keeps it so.
      if (!/^[a-z_]+$/.test(name)) throw new UnstorableValueError(`"${name}" is not a name of a table or column`)
    }
    const clause = replaced ? replaceClause(columns, replaced) : onConflict && 'on conflict do nothing'
    insert = engine.bulkInsert(table, columns, clause ?? '')
    prepared.set(engine, known.set(key, insert))
  }
  return insert
}

function replaceClause(columns: readonly string[], key: readonly string[]): string {
  const rest = columns.filter((column) => !key.includes(column))
  return `on conflict (${key.join(', ')}) do update set ${rest.map((column) => `${column} = excluded.${column}`).join(', ')}`
}

function checkRow(table: string, columns: readonly string[], row: Record<string, unknown>): void {
  for (const column of columns) {
    const value = row[column]
    if (typeof value === 'string' || value === null || Number.isSafeInteger(value)) continue
    throw new UnstorableValueError(`${table}.${column} must be text, null or a whole number`)
  }
}

function checkText(table: string, row: Record<string, unknown>): void {
  for (const [column, value] of Object.entries(row)) {
    // In a pattern with the u flag, a surrogate that is half of a pair is not a character of its own.
    if (typeof value === 'string' && /[\0\p{Surrogate}]/u.test(value)) {
      throw new UnstorableValueError(`${table}.${column} holds a NUL or half a surrogate pair`)
    }
  }
}
