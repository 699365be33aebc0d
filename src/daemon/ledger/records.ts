import { sql } from 'kysely'
import type { Db } from '../db/database.ts'
import { insertRows } from '../db/insert-rows.ts'
import type {
  AuditEntryRow,
  IdempotencyResultRow,
  OutboxEventRow,
  RateCounterRow,
  Tables,
  UsageRecordRow,
} from '../db/tables.ts'

/** What one request leaves behind, all of it or nothing. A new kind that is written once is one line here and in TABLES. */
export type LedgerRecords = {
  usage?: UsageRecordRow
  idempotency?: IdempotencyResultRow
  /** What is told to webhooks. */
  events?: readonly OutboxEventRow[]
  audit?: readonly AuditEntryRow[]
  /**
   * Counters that the request has raised. They hold totals, so they are stored as they are when the commit begins, and one
   * that many requests share is stored once.
   */
  counters?: readonly RateCounterRow[]
}

/** Where each kind is kept. Every one of these tables has a key that a second write of the same record violates. */
const TABLES = {
  usage: 'usage_records',
  idempotency: 'idempotency_results',
  events: 'outbox_events',
  audit: 'audit_entries',
} as const satisfies {
  [Kind in Exclude<keyof LedgerRecords, 'counters'>]-?: keyof Tables
}
const KINDS = Object.keys(TABLES) as (keyof typeof TABLES)[]

/** Writes the records of several requests, durably and all or nothing: one statement per kind. */
export async function writeRecords(db: Db, batch: readonly LedgerRecords[]): Promise<void> {
  const present = KINDS.filter((kind) => batch.some((records) => records[kind] !== undefined))
  const counters = new Set<RateCounterRow>()
  for (const records of batch) for (const counter of records.counters ?? []) counters.add(counter)
  // One statement is a transaction of its own; BEGIN and COMMIT would be two more trips to the database.
  if (present.length + Math.min(counters.size, 1) < 2) return writeKinds(db, present, batch, counters)
  await db.transaction().execute((tx) => writeKinds(tx, present, batch, counters))
}

async function writeKinds(
  db: Db,
  kinds: readonly (keyof typeof TABLES)[],
  batch: readonly LedgerRecords[],
  counters: ReadonlySet<RateCounterRow>,
): Promise<void> {
  for (const kind of kinds) {
    const rows = batch.flatMap((records) => rowsOf(records, kind))
    await insertRows<(typeof TABLES)[typeof kind]>(db, TABLES[kind], rows)
  }
  await saveCounters(db, [...counters])
}

type Row = Tables[(typeof TABLES)[keyof typeof TABLES]]

const rowsOf = (records: LedgerRecords, kind: keyof typeof TABLES): Row[] => ([] as Row[]).concat(records[kind] ?? [])

/** Stores counters as they are now; which ones exist already does not matter. */
export async function saveCounters(db: Db, rows: readonly RateCounterRow[]): Promise<void> {
  await insertRows(db, 'rate_counters', rows, { onConflict: { replace: ['tenant_id', 'api_key_id', 'counter'] } })
}

/** Whether exactly these records are in the database. Counters do not count: writing them again does no harm. */
export async function isStored(db: Db, records: LedgerRecords): Promise<boolean> {
  for (const kind of KINDS) {
    for (const row of rowsOf(records, kind)) {
      const equalities = Object.entries(row).map(
        ([column, value]) => sql`${sql.ref(column)} is not distinct from ${value}`,
      )
      const query = sql`select 1 from ${sql.table(TABLES[kind])} where ${sql.join(equalities, sql` and `)}`
      if ((await query.execute(db)).rows.length === 0) return false
    }
  }
  return true
}
