// Sends `budget:threshold` when the spend of a budget has reached a share of its limit.
import { sql } from 'kysely'
import { LRUCache } from 'lru-cache'
import { BUDGET_REREAD_MS, BUDGET_THRESHOLDS, BUDGET_USED_UP_PERCENT } from '../../../shared/spec-limits.ts'
import { type Clock, DAY_MS, isoTime } from '../../../shared/time.ts'
import { KeySettings } from '../../../shared/wire/keys.ts'
import { createCoalescedTask } from '../../platform/concurrency/coalesced-task.ts'
import type { Db } from '../../platform/db/db.ts'
import { engineOf } from '../../platform/db/engine.ts'
import { findSpend, type SpendCounterKey, spendCounterName } from '../../platform/db/spend-counters.ts'
import type { Log } from '../../platform/log.ts'
import { type BudgetThreshold, budgetThreshold } from '../../records/events/events.ts'
import { insertEvents } from '../../records/events/outbox.ts'
import { toDollars, toNanosLimit } from './money.ts'
import { periodAt } from './period.ts'
import type { SpendRequest } from './spend-request.ts'

/** A limit in dollars, and the counter of its spend. */
type Limited = SpendCounterKey & Pick<BudgetThreshold, 'scope' | 'subject' | 'budgetId'> & { limitNanos: number }

export type Thresholds = {
  /** Checks the limits of a request that was billed `nanos` soon, without delaying it. */
  spent(request: SpendRequest, period: string, nanos: number): void
  /** Checks soon whether a limit of a refused request is used up, because hardly any spend matches a limit exactly. */
  refused(request: SpendRequest, period: string): void
  /**
   * Checks all limits of this month, and on the first day of a month also those of the month before. Call it at start: after a crash, spend may be stored without its event. The id of
   * an event is derived from budget, month and threshold, so no event is sent twice.
   */
  run(): Promise<void>
  /** Waits for pending checks. */
  close(): Promise<void>
}

/** What is known about the spend of a limit. `nanos` may be too high, but never less than this daemon's requests spent. */
type Spend = {
  limitNanos: number
  nanos: number
  /** The spend at which the store is read again: the next threshold. */
  dueNanos: number
  readAtMs: number
}
/** A limit to check. `neededNanos`: the cost of a refused request. */
type Pending = { limited: Limited; neededNanos: number }

/** Limits whose spend is known, and thresholds that are known to be stored. They save queries and writes. */
const SPENDS_CACHED = 20_000
const SENT_CACHED = 20_000
/** Limits that are read at once. */
const LIMITS_PER_PAGE = 500

export function createThresholds({
  db,
  clock,
  log,
  announceEvents,
}: {
  db: Db
  clock: Clock
  log: Pick<Log, 'error'>
  announceEvents(): void
}): Thresholds {
  const sent = new LRUCache<string, true>({ max: SENT_CACHED })
  const spends = new LRUCache<string, Spend>({ max: SPENDS_CACHED })
  const pending = new Map<string, Pending>()
  // Other daemons spend from the same limits.
  const rereadMs = engineOf(db).name === 'postgres' ? BUDGET_REREAD_MS : Number.POSITIVE_INFINITY
  const checking = createCoalescedTask(checkPending, (error) =>
    log.error({ error }, 'the thresholds of budgets could not be checked; they are checked again within an hour'),
  )

  async function checkPending(): Promise<void> {
    for (const [name, { limited, neededNanos }] of pending) {
      pending.delete(name)
      const { limitNanos } = limited
      // Bills that are stored during the query are added to this entry.
      const spend: Spend = { limitNanos, nanos: 0, dueNanos: Number.POSITIVE_INFINITY, readAtMs: clock.monotonic() }
      spends.set(name, spend)
      try {
        const { nanos } = await findSpend(db, limited)
        await check(limited, nanos, neededNanos)
        spend.nanos += nanos
        spend.dueNanos = nextThreshold(nanos, limitNanos)
        if (spend.nanos >= spend.dueNanos && !pending.has(name)) pending.set(name, { limited, neededNanos: 0 })
      } catch (error) {
        spends.delete(name)
        throw error
      }
    }
  }

  const isDue = (spend: Spend | undefined, { limitNanos }: Limited): boolean =>
    spend === undefined ||
    spend.limitNanos !== limitNanos ||
    spend.nanos >= spend.dueNanos ||
    clock.monotonic() - spend.readAtMs >= rereadMs

  async function check(limited: Limited, spentNanos: number, neededNanos = 0): Promise<void> {
    const counter = spendCounterName(limited)
    const isUsedUp = isExhausted(spentNanos, limited.limitNanos, neededNanos)
    const reached = BUDGET_THRESHOLDS.filter(
      (threshold) =>
        (isUsedUp || hasReached(spentNanos, limited.limitNanos, threshold)) && !sent.has(`${counter} ${threshold}`),
    )
    if (reached.length === 0) return
    const createdAt = isoTime(clock.now())
    const resetTime = isoTime(periodAt(Date.parse(`${limited.period}-01`)).endMs)
    const { scope, subject, budgetId, limitNanos, period } = limited
    const events = reached.map((threshold) =>
      budgetThreshold(
        { tenantId: limited.tenant_id, createdAt },
        {
          ...{ scope, subject, budgetId, threshold, period, resetTime },
          dollarLimit: toDollars(limitNanos),
          currentSpend: toDollars(spentNanos),
        },
      ),
    )
    if (await insertEvents(db, events)) announceEvents()
    for (const threshold of reached) sent.set(`${counter} ${threshold}`, true)
  }

  return {
    spent(request, period, nanos) {
      for (const limited of limitsIn(request, period)) {
        const name = spendCounterName(limited)
        const spend = spends.get(name)
        if (spend) spend.nanos += nanos
        if (isDue(spend, limited) && !pending.has(name)) pending.set(name, { limited, neededNanos: 0 })
      }
      if (pending.size > 0) checking.ask()
    },
    refused(request, period) {
      if (!request.mayPayDollars || request.isDryRun) return
      const neededNanos = request.nanosAtLeast(false)
      for (const limited of limitsIn(request, period)) {
        const name = spendCounterName(limited)
        const spend = spends.get(name)
        if (sent.has(`${name} ${USED_UP}`)) continue
        if (spend && !isDue(spend, limited) && !isExhausted(spend.nanos, limited.limitNanos, neededNanos)) continue
        pending.set(name, { limited, neededNanos })
      }
      if (pending.size > 0) checking.ask()
    },
    async run() {
      const now = clock.now()
      const { name, startMs } = periodAt(now)
      // A threshold may have been reached in the last moments of a month.
      const periods = now - startMs < DAY_MS ? [periodAt(startMs - 1).name, name] : [name]
      for (const period of periods) {
        for await (const { nanos, ...limited } of listLimited(db, period, log)) await check(limited, nanos)
      }
    },
    close: checking.idle,
  }
}

/** In whole numbers, because the product may exceed the safe integers. A limit of 0 has no thresholds. */
const hasReached = (spent: number, limit: number, percent: number): boolean =>
  limit > 0 && BigInt(spent) * 100n >= BigInt(limit) * BigInt(percent)

/** The spend at which the next threshold is reached. */
function nextThreshold(spent: number, limit: number): number {
  const next = limit > 0 ? BUDGET_THRESHOLDS.find((threshold) => !hasReached(spent, limit, threshold)) : undefined
  return next === undefined ? Number.POSITIVE_INFINITY : Number((BigInt(limit) * BigInt(next) + 99n) / 100n)
}

const USED_UP = 100 satisfies (typeof BUDGET_THRESHOLDS)[number]

/**
 * Whether a limit is used up for a request that needs this amount. A request that needs a large part of the limit does
 * not show that.
 */
const isExhausted = (spent: number, limit: number, needed: number): boolean =>
  needed > 0 && spent + needed > limit && hasReached(spent, limit, BUDGET_USED_UP_PERCENT)

function limitsIn(
  { tenantId, payerId, keyId, userLimitNanos, keyLimitNanos, budgets }: SpendRequest,
  period: string,
): Limited[] {
  const common = { tenant_id: tenantId, period }
  const limits: Limited[] = budgets.map(({ id, scope, subject, limitNanos }) => ({
    ...{ ...common, holder: 'budget', holder_id: id, scope, subject, budgetId: id, limitNanos },
  }))
  if (userLimitNanos !== null) limits.push({ ...common, ...ofAccount('user', payerId), limitNanos: userLimitNanos })
  if (keyLimitNanos !== null) limits.push({ ...common, ...ofAccount('key', keyId), limitNanos: keyLimitNanos })
  return limits
}

const ofAccount = (holder: 'user' | 'key', id: string) =>
  ({ holder, holder_id: id, scope: holder, subject: id, budgetId: null }) as const

type Counter = Pick<SpendCounterKey, 'tenant_id' | 'holder_id'> & { nanos: number }

/** Yields all limits of a month with spend, with the spent amount. Those below the first threshold may be left out. */
async function* listLimited(
  db: Db,
  period: string,
  log: Pick<Log, 'error'>,
): AsyncGenerator<Limited & { nanos: number }> {
  const spending = db
    .selectFrom('spend_counters')
    .where('spend_counters.period', '=', period)
    .where('spend_counters.nanos', '>', 0)
    .orderBy('holder_id')
    .limit(LIMITS_PER_PAGE)
    .select(['spend_counters.tenant_id', 'holder_id', 'nanos'])
  const users = spending
    .innerJoin('users', 'users.id', 'spend_counters.holder_id')
    .where('spend_counters.holder', '=', 'user')
    .where('users.usage_by_model', '=', 1)
    .whereRef('nanos', '>=', sql<number>`users.dollar_limit_nanos / ${FIRST_SHARE}`)
    .select('users.dollar_limit_nanos as limit_nanos')
  for await (const { limit_nanos, ...counter } of pagesOf((after) => users.where('holder_id', '>', after).execute()))
    yield { ...counter, period, ...ofAccount('user', counter.holder_id), limitNanos: limit_nanos ?? 0 }
  const keys = spending
    .innerJoin('api_keys', 'api_keys.id', 'spend_counters.holder_id')
    .where('spend_counters.holder', '=', 'key')
    .where('api_keys.settings', 'like', '%usageByModel%')
    .select('api_keys.settings')
  for await (const { settings, ...counter } of pagesOf((after) => keys.where('holder_id', '>', after).execute())) {
    const limitNanos = keyLimitIn(settings)
    if (limitNanos === undefined)
      log.error({ api_key_id: counter.holder_id }, 'the settings of this key are unreadable')
    else yield { ...counter, period, ...ofAccount('key', counter.holder_id), limitNanos }
  }
  const budgets = spending
    .innerJoin('budgets', 'budgets.id', 'spend_counters.holder_id')
    .where('spend_counters.holder', '=', 'budget')
    .whereRef('nanos', '>=', sql<number>`budgets.limit_nanos / ${FIRST_SHARE}`)
    .select(['scope', 'subject', 'limit_nanos'])
  for await (const { limit_nanos, ...counter } of pagesOf((after) => budgets.where('holder_id', '>', after).execute()))
    yield { ...counter, period, holder: 'budget', budgetId: counter.holder_id, limitNanos: limit_nanos }
}

/** The first threshold is this part of a limit. Division rounds down, so no limit is missed. */
const FIRST_SHARE = sql.lit(100 / BUDGET_THRESHOLDS[0])

/** Yields the rows of all pages. `holder_id` is unique among them. */
async function* pagesOf<Row extends Counter>(read: (after: string) => Promise<Row[]>): AsyncGenerator<Row> {
  for (let after = ''; ; ) {
    const rows = await read(after)
    yield* rows
    const last = rows.at(-1)
    if (last === undefined || rows.length < LIMITS_PER_PAGE) return
    after = last.holder_id
  }
}

/** Returns 0 without a limit, which has no thresholds. Returns undefined for settings that cannot be read. */
function keyLimitIn(settings: string): number | undefined {
  try {
    const { usageByModel } = KeySettings.parse(JSON.parse(settings))
    return usageByModel.enabled ? (toNanosLimit(usageByModel.dollarLimit) ?? 0) : 0
  } catch {
    return undefined
  }
}
