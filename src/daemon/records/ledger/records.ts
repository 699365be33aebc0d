import { sql } from 'kysely'
import { payloadHash } from '../../../shared/evidence/entry.ts'
import type { Db } from '../../platform/db/db.ts'
import type { TableRows } from '../../platform/db/insert-rows.ts'
import { insertEach, insertTogether } from '../../platform/db/insert-together.ts'
import {
  deleteReservations,
  type ReservedRequest,
  spendCounterName,
  toSpendInsert,
} from '../../platform/db/spend-counters.ts'
import type {
  CacheEntryRow,
  IdempotencyResultRow,
  IncidentRow,
  OutboxEventRow,
  ProviderMessageRow,
  RateCounterRow,
  SpendCounterRow,
  StoredResponseRow,
  Tables,
} from '../../platform/db/tables.ts'
import type { SummaryFacts } from '../evidence/entry-payload.ts'

/**
 * The records of one request, stored atomically. To add a kind of record that is written once, add one line here and
 * one line in TABLES.
 */
export type LedgerRecords = {
  idempotency?: IdempotencyResultRow
  /** Events for webhooks. */
  events?: readonly OutboxEventRow[]
  /** Evidence drafts. The ledger makes them entries of the tenant's hash chain. */
  evidence?: readonly EntryDraft[]
  /** Findings of guards. */
  incidents?: readonly IncidentRow[]
  /** What providers said about failed attempts. */
  providerMessages?: readonly ProviderMessageRow[]
  /** The answer, if it is kept for later requests. */
  response?: StoredResponseRow
  /** The answer, if identical requests may get it too. */
  cacheEntry?: CacheEntryRow
  /**
   * Rate counters that the request has incremented. Counters are totals, so their values at the start of the commit are
   * stored. A counter that several requests share is stored once.
   */
  counters?: readonly RateCounterRow[]
  /**
   * Amounts to add to spend counters. Allowed only together with the request's evidence. The primary key of the
   * evidence rejects a second write of the same request.
   */
  spend?: readonly SpendCounterRow[]
  /** The request whose reservations are deleted in the same transaction. */
  reserved?: ReservedRequest
  /** The claim on an Idempotency-Key, identified by the id of its request. The claim ends with the commit. */
  claim?: string
}

/**
 * Thrown if another daemon has taken over the Idempotency-Key. In that case, the records of this request must not be
 * stored.
 */
export class ClaimLostError extends Error {
  override name = 'ClaimLostError'
}

/** The table of each kind of record. Each table has a key that rejects a second write of the same record. */
const TABLES = {
  idempotency: 'idempotency_results',
  events: 'outbox_events',
  incidents: 'incidents',
  providerMessages: 'provider_messages',
  response: 'stored_responses',
  cacheEntry: 'cache_entries',
} as const satisfies {
  [Kind in Exclude<keyof LedgerRecords, 'counters' | 'claim' | 'spend' | 'reserved' | 'evidence'>]-?: keyof Tables
}
const KINDS = Object.keys(TABLES) as (keyof typeof TABLES)[]

/**
 * Writes the records of several requests durably and atomically, with one statement per kind. `sealed` contains the
 * rows of their evidence.
 * @throws ClaimLostError
 */
export async function writeRecords(
  db: Db,
  batch: readonly LedgerRecords[],
  sealed: readonly TableRows[] = [],
): Promise<void> {
  const inserts = toInserts(batch)
  inserts.push(...sealed)
  const claims = batch.flatMap(({ claim }) => claim ?? [])
  const reserved = batch.flatMap((records) => records.reserved ?? [])
  if (claims.length === 0 && reserved.length === 0) return insertTogether(db, inserts)
  await db.transaction().execute(async (tx) => {
    if (claims.length > 0) await endClaims(tx, claims)
    await insertEach(tx, inserts)
    await deleteReservations(tx, reserved)
  })
}

/** One insert for each kind of record that has rows. */
function toInserts(batch: readonly LedgerRecords[]): TableRows[] {
  const inserts: TableRows[] = []
  for (const kind of KINDS) {
    const rows: Row[] = []
    for (const records of batch) addRows(records, kind, rows)
    if (rows.length > 0) inserts.push({ table: TABLES[kind], rows } as TableRows)
  }
  const counters = new Set<RateCounterRow>()
  for (const records of batch) for (const counter of records.counters ?? []) counters.add(counter)
  if (counters.size > 0) inserts.push(toCounterInsert([...counters]))
  const spend = sumOf(batch)
  if (spend.length > 0) inserts.push(toSpendInsert(spend))
  return inserts
}

/** Sums the amounts of each counter into one row, so that many requests of one account need only one write. */
function sumOf(batch: readonly LedgerRecords[]): SpendCounterRow[] {
  const sums = new Map<string, SpendCounterRow>()
  for (const { spend = [] } of batch) {
    for (const row of spend) {
      const name = spendCounterName(row)
      const sum = sums.get(name)
      if (sum) {
        sum.nanos = Math.min(Number.MAX_SAFE_INTEGER, sum.nanos + row.nanos)
        sum.points += row.points
      } else sums.set(name, { ...row })
    }
  }
  return [...sums.values()]
}

/**
 * Ends the claims if this daemon still owns all of them, so that the responses can be stored. The row locks last until
 * the commit.
 */
async function endClaims(tx: Db, requestIds: readonly string[]): Promise<void> {
  const { numDeletedRows } = await tx
    .deleteFrom('idempotency_results')
    .where('request_id', 'in', requestIds)
    .where('lease_until', 'is not', null)
    .executeTakeFirstOrThrow()
  const lost = requestIds.length - Number(numDeletedRows)
  if (lost > 0) throw new ClaimLostError(`${lost} of ${requestIds.length} claims were taken over by another daemon`)
}

type Row = Tables[(typeof TABLES)[keyof typeof TABLES]]

function addRows(records: LedgerRecords, kind: keyof typeof TABLES, rows: Row[]): void {
  const found: Row | readonly Row[] | undefined = records[kind]
  if (found === undefined) return
  if (isList(found)) rows.push(...found)
  else rows.push(found)
}

const isList = (found: Row | readonly Row[]): found is readonly Row[] => Array.isArray(found)

/** Stores the current values of counters. Inserts new rows and overwrites existing ones. */
export async function saveCounters(db: Db, rows: readonly RateCounterRow[]): Promise<void> {
  await insertEach(db, [toCounterInsert(rows)])
}

const toCounterInsert = (rows: readonly RateCounterRow[]): TableRows<'rate_counters'> => ({
  table: 'rate_counters',
  rows,
  onConflict: { replace: ['tenant_id', 'api_key_id', 'counter'] },
})

/**
 * Whether exactly these records are stored. Counters are not compared, because writing them again is harmless. The
 * dispatch time of an event is not compared, because the dispatcher may have set it since.
 */
export async function isStored(db: Db, records: LedgerRecords): Promise<boolean> {
  for (const kind of KINDS) {
    const rows: Row[] = []
    addRows(records, kind, rows)
    for (const row of rows) {
      const equalities = Object.entries(row)
        .filter(([column]) => column !== 'fanned_out_at')
        .map(([column, value]) => sql`${sql.ref(column)} is not distinct from ${value}`)
      const query = sql`select 1 from ${sql.table(TABLES[kind])} where ${sql.join(equalities, sql` and `)}`
      if ((await query.execute(db)).rows.length === 0) return false
    }
  }
  for (const { id, tenantId, payload } of records.evidence ?? []) {
    // The position in the chain is not compared, because it may have changed.
    const found = await db
      .selectFrom('evidence_entries')
      .select('id')
      .where('id', '=', id)
      .where('tenant_id', '=', tenantId)
      .where('payload_hash', '=', payloadHash(payload))
      .executeTakeFirst()
    if (found === undefined) return false
  }
  return true
}

/** The content of an entry before it is appended to a hash chain. */
export type EntryDraft = {
  id: string
  tenantId: string
  createdAtMs: number
  /** Canonical JSON (RFC 8785). The hash covers this text. */
  payload: string
  /** The facts of the payload that are summarised. If they are missing, the payload is parsed. */
  facts?: SummaryFacts
  /** The stored form of the payload, if it differs (stored-payload.ts). */
  stored?: string
}
