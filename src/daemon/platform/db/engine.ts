import type { DialectAdapter } from 'kysely'

/** A value that one of the two engines would change or reject. It is rejected on both. */
export class UnstorableValueError extends Error {
  override name = 'UnstorableValueError'
}

/**
 * The statement that an engine uses to insert many rows at once. `toParameters` makes the parameters of `sql` from the
 * rows and from the same values in column order.
 */
export type BulkInsert = {
  sql: string
  /** May modify `values`. */
  toParameters(rows: readonly Record<string, unknown>[], values: unknown[][]): InsertParameters
}
/** The rows as JSON, and the values that are passed separately. */
export type InsertParameters = readonly [json: string, ...separate: (string | number | null | Buffer)[]]

/** Special properties of columns of an insert. */
export type ColumnTraits = {
  /** A column of long texts, which may be passed separately. */
  longText?: string | undefined
  /** Columns with the same value in all rows, which may be passed once. */
  common?: readonly string[] | undefined
}

/**
 * Why a write failed. `row`: the row will always be rejected (duplicate key, invalid value). `busy`: a lock was not
 * free in time. `transient`: a retry may succeed, and the write may even have been committed. `other`: the store is not
 * writable.
 */
export type WriteFailure = 'row' | 'busy' | 'transient' | 'other'

/**
 * One statement for several: the set-up that it needs once, then the statement, which takes all their parameters in
 * order.
 */
export type JoinedStatement = { setUp: readonly string[]; sql: string }

/** The differences between the two engines. Everything else is written once, as portable SQL. */
export type Engine = {
  name: 'sqlite' | 'postgres'
  /** @param onConflict the conflict clause in portable SQL, or empty. */
  bulkInsert(table: string, columns: readonly string[], onConflict: string, traits?: ColumnTraits): BulkInsert
  /**
   * Joins several statements of `bulkInsert` into one, if that is cheaper than a transaction.
   * @param name unique among the joined statements of a connection
   */
  joinInserts?(name: string, statements: readonly string[]): JoinedStatement
  /** A table of rows to join with: the SQL before and after its one parameter, the rows as JSON arrays. */
  rowList(columns: Readonly<Record<string, 'text' | 'integer'>>): { before: string; after: string }
  /** A member of a column that contains a JSON object: a text or number as text, else null. */
  jsonMember(column: string, name: string): string
  failureOf(error: unknown): WriteFailure
  /**
   * The unique key that rejected a row, as the engine names it; on both engines the name contains the columns.
   * Undefined for other errors.
   */
  uniqueKeyOf(error: unknown): string | undefined
}

/** The engine is attached to the adapter, because a transaction can reach no other part of a dialect. */
export type EngineAdapter = DialectAdapter & { readonly engine: Engine }

/** The engine of a database or transaction that `openDatabase` made. */
export function engineOf(db: { getExecutor(): { adapter: DialectAdapter } }): Engine {
  const adapter = db.getExecutor().adapter
  if (!('engine' in adapter)) throw new Error('this database was not opened by openDatabase')
  return (adapter as EngineAdapter).engine
}
