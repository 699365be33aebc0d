import { CompiledQuery, type DialectAdapter } from 'kysely'
import type { Db } from './database.ts'
import { engineOf } from './engine.ts'
import { insertRows, type TableRows, toInsert } from './insert-rows.ts'
import type { Tables } from './tables.ts'

/** By database, then by the statements that were joined: the one statement for them, as soon as it can be used. */
const joined = new WeakMap<DialectAdapter, Map<string, Promise<string>>>()
let joinsMade = 0

/**
 * Inserts into several tables, in this order and all or nothing, in a transaction of its own; for each as `insertRows` does.
 * @throws UnstorableValueError naming the column; nothing is written.
 */
export async function insertTogether(db: Db, inserts: readonly TableRows[]): Promise<void> {
  // One statement is a transaction of its own.
  if (inserts.length < 2) return insertEach(db, inserts)
  const engine = engineOf(db)
  if (engine.joinInserts === undefined) return db.transaction().execute((tx) => insertEach(tx, inserts))
  const statements = inserts.map((insert) => toInsert(engine, insert))
  const sql = await joinedStatement(
    db,
    statements.map((statement) => statement.sql),
  )
  const parameters = statements.map(({ parameter }) => parameter)
  await db.executeQuery(CompiledQuery.raw(sql, parameters))
}

/** The same as a part of a transaction that does more. */
export async function insertEach(tx: Db, inserts: readonly TableRows[]): Promise<void> {
  for (const insert of inserts) await insertOne(tx, insert)
}

const insertOne = <Table extends keyof Tables>(tx: Db, { table, rows, onConflict }: TableRows<Table>) =>
  insertRows<Table>(tx, table, rows, { onConflict })

function joinedStatement(db: Db, statements: readonly string[]): Promise<string> {
  const { adapter } = db.getExecutor()
  const known = joined.get(adapter) ?? new Map<string, Promise<string>>()
  joined.set(adapter, known)
  const key = statements.join(';')
  const found = known.get(key)
  if (found) return found
  joinsMade += 1
  const made = joinStatements(db, `together_${joinsMade}`, statements)
  known.set(key, made)
  // Whoever awaits it gets the failure; the next one tries again.
  made.catch(() => known.delete(key))
  return made
}

async function joinStatements(db: Db, name: string, statements: readonly string[]): Promise<string> {
  const { setUp = [], sql = '' } = engineOf(db).joinInserts?.(name, statements) ?? {}
  for (const step of setUp) await db.executeQuery(CompiledQuery.raw(step))
  return sql
}
