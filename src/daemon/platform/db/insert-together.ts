import { CompiledQuery, type DialectAdapter } from 'kysely'
import type { Db } from './db.ts'
import { engineOf } from './engine.ts'
import { insertRows, isSameList, type TableRows, toInsert } from './insert-rows.ts'
import type { Tables } from './tables.ts'

/** Several statements, and a promise for the single statement into which they are joined. */
type Joined = { statements: readonly string[]; sql: Promise<string> }

const joined = new WeakMap<DialectAdapter, Joined[]>()
let joinsMade = 0

/**
 * Inserts rows into several tables in this order and in one transaction, all or nothing; see `insertRows`.
 * @throws UnstorableValueError naming the column; nothing is written.
 */
export async function insertTogether(db: Db, inserts: readonly TableRows[]): Promise<void> {
  // A single statement is a transaction by itself.
  if (inserts.length < 2) return insertEach(db, inserts)
  const engine = engineOf(db)
  if (engine.joinInserts === undefined) return db.transaction().execute((tx) => insertEach(tx, inserts))
  const statements = inserts.map((insert) => toInsert(engine, insert))
  const sql = await joinedStatement(
    db,
    statements.map((statement) => statement.sql),
  )
  const parameters = statements.flatMap((statement) => [...statement.parameters])
  await db.executeQuery(CompiledQuery.raw(sql, parameters))
}

/** Like `insertTogether`, but runs inside an existing transaction. */
export async function insertEach(tx: Db, inserts: readonly TableRows[]): Promise<void> {
  for (const insert of inserts) await insertOne(tx, insert)
}

const insertOne = <Table extends keyof Tables>(tx: Db, { table, rows, ...options }: TableRows<Table>) =>
  insertRows<Table>(tx, table, rows, options)

function joinedStatement(db: Db, statements: readonly string[]): Promise<string> {
  const { adapter } = db.getExecutor()
  const known = joined.get(adapter) ?? []
  joined.set(adapter, known)
  const found = known.find((one) => isSameList(one.statements, statements))
  if (found) return found.sql
  joinsMade += 1
  const made = { statements, sql: joinStatements(db, `together_${joinsMade}`, statements) }
  known.push(made)
  // If joining fails, the waiting caller gets the error, and the next caller retries.
  made.sql.catch(() => known.splice(known.indexOf(made), 1))
  return made.sql
}

async function joinStatements(db: Db, name: string, statements: readonly string[]): Promise<string> {
  const { setUp = [], sql = '' } = engineOf(db).joinInserts?.(name, statements) ?? {}
  for (const step of setUp) await db.executeQuery(CompiledQuery.raw(step))
  return sql
}
