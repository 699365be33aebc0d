import { CompiledQuery } from 'kysely'
import type { Db } from './db.ts'
import { type BulkInsert, type Engine, engineOf, type InsertParameters, UnstorableValueError } from './engine.ts'
import type { Tables } from './tables.ts'

/** A prepared statement, and the properties for which it was prepared. */
type Prepared = { columns: readonly string[]; onConflict: AnyConflict; common: Names; insert: BulkInsert }

/**
 * The prepared statements of each engine and table. For each table, the statements are in a list, not a map: comparing
 * a few names is far cheaper than building a map key from them.
 */
const prepared = new Map<Engine, Map<string, Prepared[]>>()

type Columns<Table extends keyof Tables> = readonly [keyof Tables[Table] & string, ...(keyof Tables[Table] & string)[]]

/**
 * What to do if the key of a new row already exists. `ignore`: skip the new row. `replace`: overwrite the existing row.
 * `addTo`: add each number to the existing row, up to the largest safe integer. `replace` and `addTo` list the columns
 * of the key.
 */
export type OnConflict<Table extends keyof Tables> = 'ignore' | { replace: Columns<Table> } | { addTo: Columns<Table> }

/**
 * Inserts many rows in one statement, all or none. Returns the number of rows written. Without `onConflict`, one
 * duplicate key rejects all rows. Two new rows must not replace the same existing row.
 *
 * Accepts text, null and integers. Fractions are rejected because SQLite slightly changes about one fraction in ten
 * thousand. NUL and lone surrogates are rejected because PostgreSQL cannot store them.
 * @throws UnstorableValueError naming the column; nothing is written.
 */
export async function insertRows<Table extends keyof Tables>(
  db: Db,
  table: Table,
  rows: readonly Tables[Table][],
  options: Pick<TableRows<Table>, 'onConflict' | 'common'> = {},
): Promise<number> {
  if (rows.length === 0) return 0
  const { sql, parameters } = toInsert(engineOf(db), { table, rows, ...options })
  const { numAffectedRows } = await db.executeQuery(CompiledQuery.raw(sql, [...parameters]))
  return Number(numAffectedRows)
}

/**
 * At least one row of one table, and what to do with existing keys. `common` lists columns with the same value in all
 * rows; this value is read from the first row.
 */
export type TableRows<Table extends keyof Tables = keyof Tables> = {
  [Name in Table]: {
    table: Name
    rows: readonly Tables[Name][]
    onConflict?: OnConflict<Name> | undefined
    common?: Columns<Name> | undefined
  }
}[Table]

/** Column names of any table. */
type Names = readonly string[]
type AnyConflict = 'ignore' | { replace: Names } | { addTo: Names } | undefined
type AnyRows = {
  table: string
  rows: readonly Record<string, unknown>[]
  onConflict?: AnyConflict
  common?: Names | undefined
}

/** Columns that contain long texts in most rows. */
const LONG_TEXTS: Readonly<Record<string, string>> = { evidence_entries: 'payload' }

/** Returns the statement that inserts these rows, and its parameters. @throws UnstorableValueError naming the column */
export function toInsert(
  engine: Engine,
  { table, rows, onConflict, common = NONE }: AnyRows,
): { sql: string; parameters: InsertParameters } {
  const columns = Object.keys(rows[0] as object)
  const values: unknown[][] = []
  for (const row of rows) {
    // Nearly all rows have their properties in the same order as the first row. The values of these rows are read by
    // position. This is three times faster than reading by name.
    const inOrder = isSameList(Object.keys(row), columns)
    values.push(checked(table, columns, inOrder ? Object.values(row) : columns.map((column) => row[column])))
  }
  const insert = bulkInsert(engine, { table, columns, onConflict, common })
  const parameters = insert.toParameters(rows, values)
  const [json, ...separate] = parameters
  // In JSON, an unstorable value always contains one of these escapes. Values are checked only if such an escape is
  // found.
  const isSuspect = json.includes('\\u0000') || json.includes('\\ud') || separate.some(isSuspectValue)
  if (isSuspect) for (const row of rows) checkText(table, row)
  return { sql: insert.sql, parameters }
}

const NONE: Names = []

/** In UTF-8, a lone surrogate becomes a replacement character. Values are checked only if this character is found. */
function isSuspectValue(value: InsertParameters[number]): boolean {
  if (typeof value === 'string') return UNSTORABLE.test(value)
  return Buffer.isBuffer(value) && (value.includes(0) || value.includes('\ufffd'))
}

type InsertShape = { table: string; columns: Names; onConflict: AnyConflict; common: Names }

function bulkInsert(engine: Engine, { table, columns, onConflict, common }: InsertShape): BulkInsert {
  const ofEngine = prepared.get(engine) ?? new Map<string, Prepared[]>()
  const ofTable = ofEngine.get(table) ?? []
  const known = ofTable.find(
    (one) =>
      isSameList(one.columns, columns) && isSameConflict(one.onConflict, onConflict) && isSameList(one.common, common),
  )
  if (known !== undefined) return known.insert
  for (const name of [table, ...columns, ...keyOf(onConflict)]) {
    // Table and column names come from our own row types. This check enforces it.
    if (!/^[a-z_]+$/.test(name)) throw new UnstorableValueError(`"${name}" is not a valid name of a table or column`)
  }
  const clause = conflictClause(table, columns, onConflict)
  const insert = engine.bulkInsert(table, columns, clause, { longText: LONG_TEXTS[table], common })
  prepared.set(engine, ofEngine.set(table, [...ofTable, { columns, onConflict, common, insert }]))
  return insert
}

/** Whether two lists contain the same strings in the same order. */
export function isSameList(a: readonly string[], b: readonly string[]): boolean {
  if (a.length !== b.length) return false
  for (let at = 0; at < a.length; at++) if (a[at] !== b[at]) return false
  return true
}

const isSameConflict = (a: AnyConflict, b: AnyConflict): boolean =>
  a === b ||
  (typeof a === 'object' && typeof b === 'object' && 'addTo' in a === 'addTo' in b && isSameList(keyOf(a), keyOf(b)))

/** The columns that identify an existing row. */
function keyOf(onConflict: AnyConflict): readonly string[] {
  if (typeof onConflict !== 'object') return []
  return 'addTo' in onConflict ? onConflict.addTo : onConflict.replace
}

function conflictClause(table: string, columns: readonly string[], onConflict: AnyConflict): string {
  if (onConflict === undefined) return ''
  if (onConflict === 'ignore') return 'on conflict do nothing'
  const adds = 'addTo' in onConflict
  const key = keyOf(onConflict)
  const sets = columns
    .filter((column) => !key.includes(column))
    .map((column) => `${column} = ${adds ? sumOf(`${table}.${column}`, `excluded.${column}`) : `excluded.${column}`}`)
  return `on conflict (${key.join(', ')}) do update set ${sets.join(', ')}`
}

// The sum is capped at the largest safe integer: a larger sum could be stored but not read back.
const sumOf = (a: string, b: string) =>
  `case when ${a} > ${Number.MAX_SAFE_INTEGER} - ${b} then ${Number.MAX_SAFE_INTEGER} else ${a} + ${b} end`

function checked(table: string, columns: readonly string[], values: unknown[]): unknown[] {
  for (let at = 0; at < values.length; at++) {
    const value = values[at]
    if (typeof value !== 'string' && value !== null && !Number.isSafeInteger(value)) {
      throw new UnstorableValueError(`${table}.${columns[at]} must be text, null or a whole number`)
    }
  }
  return values
}

// With the u flag, \p{Surrogate} matches only lone surrogates.
const UNSTORABLE = /[\0\p{Surrogate}]/u

function checkText(table: string, row: Record<string, unknown>): void {
  for (const [column, value] of Object.entries(row)) {
    if (typeof value === 'string' && UNSTORABLE.test(value)) {
      throw new UnstorableValueError(`${table}.${column} contains a NUL or half a surrogate pair`)
    }
  }
}
