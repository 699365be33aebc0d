import { sql } from 'kysely'
import type { Db } from './db.ts'
import type { TableRows } from './insert-rows.ts'
import type { SpendCounterRow, SpendReservationRow } from './tables.ts'

/** Identifies a counter. */
export type SpendCounterKey = Pick<SpendCounterRow, 'tenant_id' | 'holder' | 'holder_id' | 'period'>

/** Identifies the request that owns a reservation. */
export type ReservedRequest = Pick<SpendReservationRow, 'tenant_id' | 'request_id'>

/** The maximum amount that the request may add to a counter. */
export type Reservation = Omit<SpendReservationRow, 'expires_at'>

const emptySpend = (key: SpendCounterKey): SpendCounterRow => ({ ...key, nanos: 0, points: 0 })

/** The name of a counter. The name is unique, because no part of it contains a space. */
export const spendCounterName = ({ tenant_id, holder, holder_id, period }: SpendCounterKey): string =>
  `${tenant_id} ${holder} ${holder_id} ${period}`

/** Counters are always locked and written in this order, to prevent deadlocks. */
const inSpendOrder = <Row extends SpendCounterKey>(rows: readonly Row[]): Row[] =>
  rows
    .map((row) => ({ row, name: spendCounterName(row) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .map(({ row }) => row)

/** Returns inserts that add to these counters. Each counter may occur once; a missing counter starts at 0. */
export const toSpendInsert = (rows: readonly SpendCounterRow[]): TableRows<'spend_counters'> => ({
  table: 'spend_counters',
  rows: inSpendOrder(rows),
  onConflict: { addTo: ['tenant_id', 'holder', 'holder_id', 'period'] },
})

/** Returns the spend of this account or key in this month. Returns zero if there is no row yet. */
export async function findSpend(db: Db, key: SpendCounterKey): Promise<SpendCounterRow> {
  const found = await db
    .selectFrom('spend_counters')
    .selectAll()
    .where('tenant_id', '=', key.tenant_id)
    .where('holder', '=', key.holder)
    .where('holder_id', '=', key.holder_id)
    .where('period', '=', key.period)
    .executeTakeFirst()
  return found ?? emptySpend(key)
}

/**
 * Locks these counters until the transaction ends and returns their current values. Missing counters are created. Fails
 * as `busy` if a counter stays locked for longer than `waitMs`. PostgreSQL only.
 */
export async function lockSpend(tx: Db, keys: readonly SpendCounterKey[], waitMs: number): Promise<SpendCounterRow[]> {
  await sql`select set_config('lock_timeout', ${String(waitMs)}, true)`.execute(tx)
  const rows = JSON.stringify(inSpendOrder(keys).map(emptySpend))
  // The update writes the old value again, because only a written row is locked and returned.
  const locked = sql<SpendCounterRow>`
    insert into spend_counters (tenant_id, holder, holder_id, period, nanos, points)
    select tenant_id, holder, holder_id, period, nanos, points
    from json_populate_recordset(null::spend_counters, ${rows}::json)
    on conflict (tenant_id, holder, holder_id, period) do update set nanos = spend_counters.nanos
    returning *`
  return (await locked.execute(tx)).rows
}

/** Returns the sum of all unexpired reservations for these counters. PostgreSQL only. */
export async function sumReservations(tx: Db, keys: readonly SpendCounterKey[]): Promise<SpendCounterRow[]> {
  const sums = sql<SpendCounterRow>`
    select r.tenant_id, r.holder, r.holder_id, r.period,
      least(sum(r.nanos), ${Number.MAX_SAFE_INTEGER}) as nanos, least(sum(r.points), ${Number.MAX_SAFE_INTEGER}) as points
    from json_populate_recordset(null::spend_counters, ${JSON.stringify(keys)}::json) as k
    join spend_reservations as r using (tenant_id, holder, holder_id, period)
    where r.expires_at > ${storeTime(0)}
    group by r.tenant_id, r.holder, r.holder_id, r.period`
  return (await sums.execute(tx)).rows
}

/**
 * Creates reservations that expire after `leaseMs` unless they are renewed. If the request already has reservations,
 * they are accepted: its Idempotency-Key claim may have been lost and claimed again. PostgreSQL only.
 */
export async function insertReservations(tx: Db, rows: readonly Reservation[], leaseMs: number): Promise<void> {
  if (rows.length === 0) return
  const insert = sql`
    insert into spend_reservations (tenant_id, holder, holder_id, request_id, period, nanos, points, expires_at)
    select tenant_id, holder, holder_id, request_id, period, nanos, points, ${storeTime(leaseMs)}
    from json_populate_recordset(null::spend_reservations, ${JSON.stringify(rows)}::json)
    on conflict (tenant_id, holder, holder_id, request_id) do update
    set period = excluded.period, nanos = excluded.nanos, points = excluded.points, expires_at = excluded.expires_at`
  await insert.execute(tx)
}

/** Extends the reservations of these requests so that they expire `leaseMs` from now. PostgreSQL only. */
export async function renewReservations(db: Db, requests: readonly ReservedRequest[], leaseMs: number): Promise<void> {
  // `SKIP LOCKED` skips reservations that another transaction is deleting: waiting for them could deadlock.
  const renewal = sql`
    update spend_reservations set expires_at = ${storeTime(leaseMs)}
    where (tenant_id, holder, holder_id, request_id) in (
      select r.tenant_id, r.holder, r.holder_id, r.request_id
      from json_populate_recordset(null::spend_reservations, ${JSON.stringify(requests)}::json) as k
      join spend_reservations as r using (tenant_id, request_id)
      for update of r skip locked
    )`
  await renewal.execute(db)
}

/** Returns the time `afterMs` from now by the store's clock, as ISO 8601. The daemons' own clocks may differ. */
const storeTime = (afterMs: number) =>
  sql`to_char(
    clock_timestamp() at time zone 'UTC' + ${afterMs}::int * interval '1 millisecond', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

/** Deletes the reservations of these requests. */
export async function deleteReservations(db: Db, requests: readonly ReservedRequest[]): Promise<void> {
  if (requests.length === 0) return
  await db
    .deleteFrom('spend_reservations')
    .where(({ eb, refTuple, tuple }) =>
      eb(
        refTuple('tenant_id', 'request_id'),
        'in',
        requests.map(({ tenant_id, request_id }) => tuple(tenant_id, request_id)),
      ),
    )
    .execute()
}

/** Deletes expired reservations of all tenants. Such reservations remain if a daemon is killed. PostgreSQL only. */
export async function deleteExpiredReservations(db: Db): Promise<void> {
  await sql`delete from spend_reservations where expires_at <= ${storeTime(0)}`.execute(db)
}
