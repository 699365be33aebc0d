import type { DialectAdapter } from 'kysely'

/** Thrown for a value that one of the two engines would change or reject. Such values are rejected on both engines. */
export class UnstorableValueError extends Error {
  override name = 'UnstorableValueError'
}

/**
 * An engine's statement that inserts many rows in one call. `toParameters` converts the rows to the parameters of
 * `sql`. Its two arguments contain the same values: `rows` as objects, `values` as arrays in column order.
 */
export type BulkInsert = {
  sql: string
  /** May modify `values`. */
  toParameters(rows: readonly Record<string, unknown>[], values: unknown[][]): InsertParameters
}
/** The parameters of an insert: the rows as JSON, followed by the values that are passed separately. */
export type InsertParameters = readonly [json: string, ...separate: (string | number | null | Buffer)[]]

/** Special properties of columns in an insert. */
export type ColumnTraits = {
  /** A column with long texts. The engine may pass these texts separately. */
  longText?: string | undefined
  /** Columns with the same value in all rows. The engine may pass each such value once. */
  common?: readonly string[] | undefined
}

/**
 * Why a write failed. `row`: every attempt to write the row will fail (duplicate key, invalid value). `busy`: a lock
 * was not free in time. `transient`: a retry may succeed, and the write may already be committed. `other`: the store is
 * not writable.
 */
export type WriteFailure = 'row' | 'busy' | 'transient' | 'other'

/**
 * One statement that replaces several statements. `setUp` runs once before its first use. The parameters of `sql` are
 * the parameters of all replaced statements, in order.
 */
export type JoinedStatement = { setUp: readonly string[]; sql: string }

/** The differences between the two engines. All other SQL is portable. */
export type Engine = {
  name: 'sqlite' | 'postgres'
  /** @param onConflict the conflict clause in portable SQL, or an empty string */
  bulkInsert(table: string, columns: readonly string[], onConflict: string, traits?: ColumnTraits): BulkInsert
  /**
   * Joins several statements of `bulkInsert` into one statement. Defined only if one statement is cheaper than a
   * transaction on this engine.
   * @param name a name that is unique among the joined statements of a connection
   */
  joinInserts?(name: string, statements: readonly string[]): JoinedStatement
  /**
   * Returns the SQL of a table that a query can join. The table's only parameter is the rows as JSON arrays: the result
   * is the SQL text before and after this parameter.
   */
  rowList(columns: Readonly<Record<string, 'text' | 'integer'>>): { before: string; after: string }
  /**
   * Returns the SQL of a join that finds at most one row of a table for each row of the tables before it. `key` compares
   * a unique key. Without this join, PostgreSQL may scan the table, although an index finds each row faster.
   */
  joinByKey(table: string, key: string): string
  /**
   * Returns the SQL that reads a property of a JSON object in a column. A string or a number is read as text, any other
   * value as null.
   */
  jsonMember(column: string, name: string): string
  /** The query that returns the size of the store as `bytes`. */
  sizeQuery: string
  failureOf(error: unknown): WriteFailure
  /**
   * Returns the engine's name for the unique key that rejected a row. On both engines, this name contains the column
   * names. Returns undefined for other errors.
   */
  uniqueKeyOf(error: unknown): string | undefined
}

/**
 * The engine is attached to the adapter, because the adapter is the only part of the dialect that a transaction
 * exposes.
 */
export type EngineAdapter = DialectAdapter & { readonly engine: Engine }

/** Returns the engine of a database or transaction from `openDatabase`. */
export function engineOf(db: { getExecutor(): { adapter: DialectAdapter } }): Engine {
  const adapter = db.getExecutor().adapter
  if (!('engine' in adapter)) throw new Error('this database was not opened by openDatabase')
  return (adapter as EngineAdapter).engine
}
