import type { DialectAdapter } from 'kysely'

/** A value that one of the two engines would change or refuse, so neither gets it. */
export class UnstorableValueError extends Error {
  override name = 'UnstorableValueError'
}

/**
 * Which statement an engine needs to insert many rows at once; `sql` takes the parameters that `toParameters` makes of the
 * rows and of the same values in the order of the columns.
 */
export type BulkInsert = {
  sql: string
  /** May change the values. */
  toParameters(rows: readonly Record<string, unknown>[], values: unknown[][]): InsertParameters
}
/** The rows as JSON, and what was handed over beside it. */
export type InsertParameters = readonly [json: string, ...beside: (string | number | null | Buffer)[]]

/** What is special about columns of an insert. */
export type ColumnTraits = {
  /** Holds long texts, which may be handed over in a way of their own. */
  longText?: string | undefined
  /** Have one value in all rows, which may be handed over once. */
  common?: readonly string[] | undefined
}

/**
 * What a failed write means: `row` is a row that will always be refused (a key that exists, a value that does not fit),
 * `busy` has waited too long for somebody else, `transient` may work when tried again and may even have been committed,
 * `other` is a store that cannot be written.
 */
export type WriteFailure = 'row' | 'busy' | 'transient' | 'other'

/** One statement for several: what has to be set up for it once, then the statement, which takes all their parameters in turn. */
export type JoinedStatement = { setUp: readonly string[]; sql: string }

/** Where the two engines differ. Everything else is written once, as portable SQL. */
export type Engine = {
  name: 'sqlite' | 'postgres'
  /**
   * @param onConflict the clause for rows that exist: portable SQL, or empty.
   */
  bulkInsert(table: string, columns: readonly string[], onConflict: string, traits?: ColumnTraits): BulkInsert
  /**
   * Makes one statement of several that `bulkInsert` made, where that is cheaper than a transaction.
   * @param name tells it from others of the same connection
   */
  joinInserts?(name: string, statements: readonly string[]): JoinedStatement
  /** A table of rows that a statement joins with: the SQL around its one parameter, the rows as JSON arrays. */
  rowList(columns: Readonly<Record<string, 'text' | 'integer'>>): { before: string; after: string }
  /** A member of a column that holds a JSON object: its text or number as text, null where it is none. */
  jsonMember(column: string, name: string): string
  failureOf(error: unknown): WriteFailure
  /** What the engine calls the unique key that refused a row; on both, it names the columns. Undefined for other errors. */
  uniqueKeyOf(error: unknown): string | undefined
}

/** The adapter is the one part of a dialect that a transaction can reach as well, so the engine travels on it. */
export type EngineAdapter = DialectAdapter & { readonly engine: Engine }

/** The engine behind a database or a transaction that `openDatabase` made. */
export function engineOf(db: { getExecutor(): { adapter: DialectAdapter } }): Engine {
  const adapter = db.getExecutor().adapter
  if (!('engine' in adapter)) throw new Error('not a database of openDatabase')
  return (adapter as EngineAdapter).engine
}
