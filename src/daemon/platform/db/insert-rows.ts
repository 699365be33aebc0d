import { CompiledQuery } from 'kysely'
import type { Db } from './db.ts'
import { type BulkInsert, type Engine, engineOf, type InsertParameters, UnstorableValueError } from './engine.ts'
import type { Tables } from './tables.ts'

/** A statement that was made once, and what it was made for. */
type Prepared = { columns: readonly string[]; onConflict: AnyConflict; common: Names; insert: BulkInsert }

/** By engine and table. A list, because comparing a few names costs far less than joining them to the key of a map. */
const prepared = new Map<Engine, Map<string, Prepared[]>>()

type Columns<Table extends keyof Tables> = readonly [keyof Tables[Table] & string, ...(keyof Tables[Table] & string)[]]

/**
 * What becomes of a row whose key exists: it is left out, it overwrites the one with the same `replace` columns, or it is
 * added, number by number and up to the largest safe one, to the one with the same `addTo` columns.
 */
export type OnConflict<Table extends keyof Tables> = 'ignore' | { replace: Columns<Table> } | { addTo: Columns<Table> }

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
  options: Pick<TableRows<Table>, 'onConflict' | 'common'> = {},
): Promise<number> {
  if (rows.length === 0) return 0
  const { sql, parameters } = toInsert(engineOf(db), { table, rows, ...options })
  const { numAffectedRows } = await db.executeQuery(CompiledQuery.raw(sql, [...parameters]))
  return Number(numAffectedRows)
}

/**
 * Rows of one table, at least one, and what becomes of those whose key exists. `common` are columns that have one value in
 * all these rows: the first row speaks for all.
 */
export type TableRows<Table extends keyof Tables = keyof Tables> = {
  [Name in Table]: {
    table: Name
    rows: readonly Tables[Name][]
    onConflict?: OnConflict<Name> | undefined
    common?: Columns<Name> | undefined
  }
}[Table]

/** The same where it no longer matters which table it is. */
type Names = readonly string[]
type AnyConflict = 'ignore' | { replace: Names } | { addTo: Names } | undefined
type AnyRows = {
  table: string
  rows: readonly Record<string, unknown>[]
  onConflict?: AnyConflict
  common?: Names | undefined
}

/** Columns of texts that are long in most rows. */
const LONG_TEXTS: Readonly<Record<string, string>> = { evidence_entries: 'payload' }

/** The statement that inserts these rows and its parameters. @throws UnstorableValueError naming the column */
export function toInsert(
  engine: Engine,
  { table, rows, onConflict, common = NONE }: AnyRows,
): { sql: string; parameters: InsertParameters } {
  const columns = Object.keys(rows[0] as object)
  const values: unknown[][] = []
  for (const row of rows) {
    // Rows of one table are nearly always made in one place, so their members come in one order: then they need not be
    // asked for by name, which takes three times as long.
    const inOrder = isSameList(Object.keys(row), columns)
    values.push(checked(table, columns, inOrder ? Object.values(row) : columns.map((column) => row[column])))
  }
  const insert = bulkInsert(engine, { table, columns, onConflict, common })
  const parameters = insert.toParameters(rows, values)
  const [json, ...beside] = parameters
  // Escapes in the text show that a value may hold what cannot be stored; only then is every value looked at.
  const isSuspect = json.includes('\\u0000') || json.includes('\\ud') || beside.some(isSuspectBeside)
  if (isSuspect) for (const row of rows) checkText(table, row)
  return { sql: insert.sql, parameters }
}

const NONE: Names = []

/** Of half a surrogate pair UTF-8 makes a replacement character. */
function isSuspectBeside(value: InsertParameters[number]): boolean {
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
    // Names come from our own row types; this keeps it so.
    if (!/^[a-z_]+$/.test(name)) throw new UnstorableValueError(`"${name}" is not a name of a table or column`)
  }
  const clause = conflictClause(table, columns, onConflict)
  const insert = engine.bulkInsert(table, columns, clause, { longText: LONG_TEXTS[table], common })
  prepared.set(engine, ofEngine.set(table, [...ofTable, { columns, onConflict, common, insert }]))
  return insert
}

/** Whether two lists hold the same texts in the same order. */
export function isSameList(a: readonly string[], b: readonly string[]): boolean {
  if (a.length !== b.length) return false
  for (let at = 0; at < a.length; at++) if (a[at] !== b[at]) return false
  return true
}

const isSameConflict = (a: AnyConflict, b: AnyConflict): boolean =>
  a === b ||
  (typeof a === 'object' && typeof b === 'object' && 'addTo' in a === 'addTo' in b && isSameList(keyOf(a), keyOf(b)))

/** The columns by which a row is found that exists already. */
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

// A larger sum could be stored and never be read again.
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

// In a pattern with the u flag, a surrogate that is half of a pair is not a character of its own.
const UNSTORABLE = /[\0\p{Surrogate}]/u

function checkText(table: string, row: Record<string, unknown>): void {
  for (const [column, value] of Object.entries(row)) {
    if (typeof value === 'string' && UNSTORABLE.test(value)) {
      throw new UnstorableValueError(`${table}.${column} holds a NUL or half a surrogate pair`)
    }
  }
}
