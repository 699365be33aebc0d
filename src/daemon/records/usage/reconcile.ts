// Compares the bills of a month: the sums that limits and reports use, and the costs in the signed receipts.
import type { z } from 'zod'
import { type Clock, isoTime } from '../../../shared/time.ts'
import type { BillDifference, ReconcileUsageResponse } from '../../../shared/wire/usage.ts'
import type { Db } from '../../platform/db/db.ts'
import { engineOf } from '../../platform/db/engine.ts'
import { payloadOf } from '../evidence/entry-payload.ts'
import { measureChains } from '../evidence/store.ts'
import { usageOf } from './usage-days.ts'

const HOUR_MS = 3_600_000
/** Entries that are read at once. They bound the memory of a comparison, however large the log is. */
export const RECONCILE_PAGE = 200
/** Maximum number of differences in the response. */
export const RECONCILE_DIFFERENCES = 1_000
/** The entries of a chain are in the order of their commits. Their times may deviate from it by less than this. */
const DISORDER_MS = HOUR_MS
/** A request is billed in the month of its start. Its entry is written at its end, no later than this. */
const LONGEST_REQUEST_MS = 24 * HOUR_MS

type Amounts = { requests: number; nanos: number; points: number }
type Holder = 'user' | 'key'
/** Entries of one chain that have no readable receipt. */
type Lost = Record<'missing' | 'expunged' | 'damaged', number>
/** Sums by `user <id>` and `key <id>`. There are as many as accounts and keys, not as requests. */
type Sums = Map<string, Amounts>

/** The sums of the store, and how far each chain reached when they were read. */
type Snapshot = {
  spent: Sums
  reported: Sums
  chains: Chain[]
}
/** `size` is the number of entries that the chain had at most, `found` the position after its last entry. */
type Chain = { chain: string; size: number; found: number; summarised: number }

export type ReconcileOptions = { tenantId: string; month: string; signal: AbortSignal }

/**
 * Compares the sums of one tenant and month with its receipts. New requests do not disturb the comparison: all sums and
 * the lengths of the chains are read from one snapshot, and only entries within these lengths are counted.
 */
export async function reconcile(
  { db, clock }: { db: Db; clock: Clock },
  { tenantId, month, signal }: ReconcileOptions,
): Promise<z.input<typeof ReconcileUsageResponse>> {
  const { spent, reported, chains } = await readSnapshot(db, tenantId, month)
  const billed: Sums = new Map()
  const summarised: Sums = new Map()
  const read = { entries: 0, receipts: 0, missing: 0, unreadable: 0 }
  const inLog: BillDifference[] = []
  for (const chain of chains) {
    const lost: Lost = { missing: 0, expunged: 0, damaged: 0 }
    for await (const { rows, missing } of pagesOf(db, tenantId, chain, month)) {
      signal.throwIfAborted()
      lost.missing += missing
      for (const row of rows) {
        read.entries += 1
        const payload = payloadOf(row)
        if (payload === undefined) lost[row.payload === null ? 'expunged' : 'damaged'] += 1
        const usage = usageOf(tenantId, payload)
        if (!usage?.day.startsWith(month)) continue
        read.receipts += 1
        const amounts = { requests: 1, nanos: usage.billed_nanos, points: usage.points }
        for (const sums of row.seq < chain.summarised ? [billed, summarised] : [billed]) {
          add(sums, `user ${usage.user_id}`, amounts)
          add(sums, `key ${usage.api_key_id}`, amounts)
        }
      }
    }
    read.missing += lost.missing
    read.unreadable += lost.expunged + lost.damaged
    for (const [field, stored] of Object.entries(lost) as [keyof Lost, number][])
      if (stored > 0) inLog.push({ source: 'log', holder: 'chain', id: chain.chain, field, stored, receipts: 0 })
  }
  const differences = [
    ...inLog,
    ...differencesOf('spend', spent, billed, (holder) => (holder === 'user' ? ['nanos', 'points'] : ['nanos'])),
    ...differencesOf('report', reported, summarised, () => ['requests', 'nanos', 'points']),
  ]
  return {
    success: true,
    month,
    compared_at: isoTime(clock.now()),
    ...read,
    holders: new Set([...billed.keys(), ...spent.keys(), ...reported.keys()]).size,
    differences: differences.slice(0, RECONCILE_DIFFERENCES),
    truncated: differences.length > RECONCILE_DIFFERENCES,
  }
}

async function readSnapshot(db: Db, tenantId: string, month: string): Promise<Snapshot> {
  const snapshot = db.transaction()
  // On SQLite, every transaction is one already.
  const isolated = engineOf(db).name === 'postgres' ? snapshot.setIsolationLevel('repeatable read') : snapshot
  return isolated.execute(async (tx) => {
    const positions = await tx.selectFrom('log_positions').selectAll().where('tenant_id', '=', tenantId).execute()
    const summarised = new Map(positions.map(({ chain, size }) => [chain, size]))
    const measured = new Map((await measureChains(tx, tenantId)).map((chain) => [chain.chain, chain]))
    // The last entries of a chain may be deleted, or all of them. Checkpoints and summaries then still count them.
    const chains = [...new Set([...measured.keys(), ...summarised.keys()])].map((chain) => {
      const { size: found = 0, checkpointed = 0 } = measured.get(chain) ?? {}
      const counted = summarised.get(chain) ?? 0
      return { chain, found, size: Math.max(found, checkpointed, counted), summarised: counted }
    })
    const spent: Sums = new Map()
    const counters = await tx
      .selectFrom('spend_counters')
      .select(['holder', 'holder_id', 'nanos', 'points'])
      .where('tenant_id', '=', tenantId)
      .where('period', '=', month)
      // The counter of a budget may begin in the middle of a month.
      .where('holder', '!=', 'budget')
      .execute()
    for (const { holder, holder_id, nanos, points } of counters)
      add(spent, `${holder} ${holder_id}`, { requests: 0, nanos, points })
    const reported: Sums = new Map()
    for (const [holder, column] of [
      ['user', 'user_id'],
      ['key', 'api_key_id'],
    ] as const) {
      const rows = await tx
        .selectFrom('usage_days')
        .select([`${column} as id`])
        .select(({ fn }) => [
          fn.sum<number>('requests').as('requests'),
          fn.sum<number>('billed_nanos').as('nanos'),
          fn.sum<number>('points').as('points'),
        ])
        .where('tenant_id', '=', tenantId)
        .where('day', '>=', `${month}-01`)
        .where('day', '<=', `${month}-31`)
        .groupBy(column)
        .execute()
      for (const { id, requests, nanos, points } of rows)
        add(reported, `${holder} ${id}`, { requests: Number(requests), nanos: Number(nanos), points: Number(points) })
    }
    return { spent, reported, chains }
  })
}

/**
 * Yields the entries of a chain that may belong to the month, page by page, and how many entries before, between or after
 * them are missing.
 */
async function* pagesOf(db: Db, tenantId: string, { chain, size, found }: Chain, month: string) {
  const startMs = Date.parse(`${month}-01T00:00:00.000Z`)
  const from = isoTime(startMs - DISORDER_MS)
  const until = isoTime(nextMonth(startMs) + LONGEST_REQUEST_MS + DISORDER_MS)
  const entries = () =>
    db
      .selectFrom('evidence_entries')
      .where('tenant_id', '=', tenantId)
      .where('chain', '=', chain)
      .where('seq', '<', found)
  let seq = 0
  // The first entry at or after the start, by bisection. Deleted entries leave gaps, so the next existing one counts.
  for (let end = found; seq < end; ) {
    const middle = Math.floor((seq + end) / 2)
    const row = await entries()
      .select('created_at')
      .where('seq', '>=', middle)
      .orderBy('seq')
      .limit(1)
      .executeTakeFirst()
    if (row !== undefined && row.created_at < from) seq = middle + 1
    else end = middle
  }
  for (;;) {
    const rows = await entries().selectAll().where('seq', '>=', seq).orderBy('seq').limit(RECONCILE_PAGE).execute()
    const last = rows.at(-1)
    // Missing entries have no time. Those after the last entry may belong to the month.
    if (last === undefined) {
      yield { rows, missing: size - seq }
      return
    }
    if (rows.every(({ created_at }) => created_at > until)) {
      yield { rows: [], missing: (rows[0]?.seq ?? seq) - seq }
      return
    }
    yield { rows, missing: last.seq + 1 - seq - rows.length }
    seq = last.seq + 1
  }
}

const nextMonth = (startMs: number): number => {
  const start = new Date(startMs)
  return Date.UTC(start.getUTCFullYear(), start.getUTCMonth() + 1, 1)
}

function add(sums: Sums, name: string, { requests, nanos, points }: Amounts): void {
  const sum = sums.get(name)
  if (sum === undefined) sums.set(name, { requests, nanos, points })
  else {
    sum.requests += requests
    sum.nanos = Math.min(Number.MAX_SAFE_INTEGER, sum.nanos + nanos)
    sum.points += points
  }
}

const NOTHING: Amounts = { requests: 0, nanos: 0, points: 0 }

function* differencesOf(
  source: BillDifference['source'],
  stored: Sums,
  receipts: Sums,
  fieldsOf: (holder: Holder) => readonly (keyof Amounts)[],
): Generator<BillDifference> {
  for (const name of [...new Set([...stored.keys(), ...receipts.keys()])].sort()) {
    const [holder, id] = name.split(' ') as [Holder, string]
    const [ours, theirs] = [stored.get(name) ?? NOTHING, receipts.get(name) ?? NOTHING]
    for (const field of fieldsOf(holder))
      if (ours[field] !== theirs[field])
        yield { source, holder, id, field, stored: ours[field], receipts: theirs[field] }
  }
}
