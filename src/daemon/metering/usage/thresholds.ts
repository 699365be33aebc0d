// Sends `budget:threshold` when the spend of a budget has reached a share of its limit.
import { LRUCache } from 'lru-cache'
import { BUDGET_THRESHOLDS } from '../../../shared/spec-limits.ts'
import { type Clock, isoTime } from '../../../shared/time.ts'
import { KeySettings } from '../../../shared/wire/keys.ts'
import { createCoalescedTask } from '../../platform/concurrency/coalesced-task.ts'
import type { Db } from '../../platform/db/db.ts'
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
  /** Checks the limits of a billed request soon, without delaying it. */
  spent(request: SpendRequest, period: string): void
  /**
   * Checks all limits of this month. Call it at start: after a crash, spend may be stored without its event. The id of
   * an event is derived from budget, month and threshold, so no event is sent twice.
   */
  run(): Promise<void>
  /** Waits for pending checks. */
  close(): Promise<void>
}

/** Thresholds that are known to be stored. They save a write per request once a budget has reached one. */
const SENT_CACHED = 20_000

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
  let pending = new Map<string, Limited>()
  const checking = createCoalescedTask(checkPending, (error) =>
    log.error({ error }, 'the thresholds of budgets could not be checked; they are checked again within an hour'),
  )

  async function checkPending(): Promise<void> {
    const limits = [...pending.values()]
    pending = new Map()
    for (const limited of limits) await check(limited, (await findSpend(db, limited)).nanos)
  }

  async function check(limited: Limited, spentNanos: number): Promise<void> {
    const counter = spendCounterName(limited)
    const reached = BUDGET_THRESHOLDS.filter(
      (threshold) => hasReached(spentNanos, limited.limitNanos, threshold) && !sent.has(`${counter} ${threshold}`),
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
    spent(request, period) {
      for (const limited of limitsIn(request, period)) pending.set(spendCounterName(limited), limited)
      checking.ask()
    },
    async run() {
      const period = periodAt(clock.now()).name
      for (const { nanos, ...limited } of await listLimited(db, period)) await check(limited, nanos)
    },
    close: checking.idle,
  }
}

/** In whole numbers, because the product may exceed the safe integers. A limit of 0 has no thresholds. */
const hasReached = (spent: number, limit: number, percent: number): boolean =>
  limit > 0 && BigInt(spent) * 100n >= BigInt(limit) * BigInt(percent)

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

/** Returns all limits of a month with spend, with the spent amount. */
async function listLimited(db: Db, period: string): Promise<(Limited & { nanos: number })[]> {
  const spending = db.selectFrom('spend_counters').where('spend_counters.period', '=', period)
  const users = await spending
    .innerJoin('users', 'users.id', 'spend_counters.holder_id')
    .where('spend_counters.holder', '=', 'user')
    .where('users.usage_by_model', '=', 1)
    .where('users.dollar_limit_nanos', 'is not', null)
    .select(['spend_counters.tenant_id', 'holder_id', 'nanos', 'users.dollar_limit_nanos as limit_nanos'])
    .execute()
  const keys = await spending
    .innerJoin('api_keys', 'api_keys.id', 'spend_counters.holder_id')
    .where('spend_counters.holder', '=', 'key')
    .where('api_keys.settings', 'like', '%usageByModel%')
    .select(['spend_counters.tenant_id', 'holder_id', 'nanos', 'api_keys.settings'])
    .execute()
  const budgets = await spending
    .innerJoin('budgets', 'budgets.id', 'spend_counters.holder_id')
    .where('spend_counters.holder', '=', 'budget')
    .select(['spend_counters.tenant_id', 'holder_id', 'nanos', 'scope', 'subject', 'limit_nanos'])
    .execute()
  return [
    ...users.map(({ tenant_id, holder_id, nanos, limit_nanos }) => ({
      ...{ tenant_id, period, nanos, ...ofAccount('user', holder_id), limitNanos: limit_nanos ?? 0 },
    })),
    ...keys.map(({ tenant_id, holder_id, nanos, settings }) => ({
      ...{ tenant_id, period, nanos, ...ofAccount('key', holder_id), limitNanos: keyLimitIn(settings) },
    })),
    ...budgets.map(({ tenant_id, holder_id, nanos, scope, subject, limit_nanos }) => ({
      ...{ tenant_id, period, nanos, holder: 'budget' as const, holder_id, scope, subject },
      ...{ budgetId: holder_id, limitNanos: limit_nanos },
    })),
  ]
}

/** Returns 0 without a limit, which has no thresholds. */
function keyLimitIn(settings: string): number {
  const { usageByModel } = KeySettings.parse(JSON.parse(settings))
  return usageByModel.enabled ? (toNanosLimit(usageByModel.dollarLimit) ?? 0) : 0
}
