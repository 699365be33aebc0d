import { sql } from 'kysely'
import type { Db } from '../db/database.ts'
import { insertRows } from '../db/insert-rows.ts'
import type { IdempotencyResultRow, Tables, UsageRecordRow } from '../db/tables.ts'

/** What one request leaves behind, all of it or nothing. A new kind is one line here and one in TABLES. */
export type LedgerRecords = {
  usage?: UsageRecordRow
  idempotency?: IdempotencyResultRow
}

/** Where each kind is kept. Every one of these tables has a key that a second write of the same record violates. */
const TABLES = { usage: 'usage_records', idempotency: 'idempotency_results' } as const satisfies {
  [Kind in keyof LedgerRecords]-?: keyof Tables
}
const KINDS = Object.keys(TABLES) as (keyof LedgerRecords)[]

/** Writes the records of several requests, durably and all or nothing: one statement per kind. */
export async function writeRecords(db: Db, batch: readonly LedgerRecords[]): Promise<void> {
  const present = KINDS.filter((kind) => batch.some((records) => records[kind] !== undefined))
  // One statement is a transaction of its own; BEGIN and COMMIT would be two more trips to the database.
  if (present.length < 2) return writeKinds(db, present, batch)
  await db.transaction().execute((tx) => writeKinds(tx, present, batch))
}

async function writeKinds(db: Db, kinds: readonly (keyof LedgerRecords)[], batch: readonly LedgerRecords[]) {
  for (const kind of kinds) {
    const rows = batch.flatMap((records) => records[kind] ?? [])
    await insertRows<(typeof TABLES)[typeof kind]>(db, TABLES[kind], rows)
  }
}

/** Whether exactly these records are in the database. */
export async function isStored(db: Db, records: LedgerRecords): Promise<boolean> {
  for (const kind of KINDS) {
    const row = records[kind]
    if (row === undefined) continue
    const equalities = Object.entries(row).map(
      ([column, value]) => sql`${sql.ref(column)} is not distinct from ${value}`,
    )
    const query = sql`select 1 from ${sql.table(TABLES[kind])} where ${sql.join(equalities, sql` and `)}`
    if ((await query.execute(db)).rows.length === 0) return false
  }
  return true
}
