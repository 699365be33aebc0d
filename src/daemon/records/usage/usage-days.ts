// Usage by tenant, day, user, key, model and tag: sums over the receipts of billed requests.
import type { TableRows } from '../../platform/db/insert-rows.ts'
import type { UsageDayRow } from '../../platform/db/tables.ts'
import type { SummaryFacts } from '../evidence/entry-payload.ts'

/** The usage of one entry. Undefined if the entry has no bill or is unreadable. */
export function usageOf(tenantId: string, payload: SummaryFacts | undefined): UsageDayRow | undefined {
  if (payload?.kind !== 'request' || !payload.cost || !payload.usage) return undefined
  const { cost, usage, metadata, model, key_id, user_id, times } = payload
  // Payloads of another program may have any members. None of them may stop the summaries.
  const payer = metadata?.payer_id
  const nanos = amountOf(cost.nanos)
  return {
    tenant_id: tenantId,
    // A request belongs to the day and month in which it started, as in its bill.
    day: nameOf(times?.started_at).slice(0, DAY_CHARS),
    user_id: nameOf(typeof payer === 'string' ? payer : user_id),
    api_key_id: nameOf(key_id),
    model: nameOf(model),
    tag: nameOf(metadata?.tag),
    requests: 1,
    input_tokens: amountOf(usage.input_tokens),
    output_tokens: amountOf(usage.output_tokens),
    nanos,
    billed_nanos: cost.mode === 'usage-by-model' ? nanos : 0,
    points: amountOf(cost.points),
  }
}

export const DAY_CHARS = '2026-11-22'.length

/** Stores reject these characters. No current payload contains them, but one such row would stop all summaries. */
const UNSTORABLE = /[\0\p{Surrogate}]/u
const nameOf = (value: unknown): string => {
  if (typeof value !== 'string') return ''
  return UNSTORABLE.test(value) ? value.replace(ALL_UNSTORABLE, '\ufffd') : value
}
const ALL_UNSTORABLE = new RegExp(UNSTORABLE, 'gu')

const amountOf = (value: unknown): number => (Number.isSafeInteger(value) && Number(value) > 0 ? Number(value) : 0)

/** The sums by day, user, key, model and tag, in the order of the table's key, so that parallel writers cannot deadlock. */
export function sumUsage(rows: readonly UsageDayRow[]): UsageDayRow[] {
  const sums = new Map<string, UsageDayRow>()
  for (const row of rows) {
    // Names contain no NUL, so keys differ if names differ.
    const key = `${row.tenant_id}\0${row.day}\0${row.user_id}\0${row.api_key_id}\0${row.model}\0${row.tag}`
    const sum = sums.get(key)
    if (!sum) sums.set(key, { ...row })
    else addTo(sum, row)
  }
  return [...sums].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, sum]) => sum)
}

// One line per amount: each billed request is added here, and a loop over names takes three times as long.
function addTo(sum: UsageDayRow, row: UsageDayRow): void {
  sum.requests = capped(sum.requests + row.requests)
  sum.input_tokens = capped(sum.input_tokens + row.input_tokens)
  sum.output_tokens = capped(sum.output_tokens + row.output_tokens)
  sum.nanos = capped(sum.nanos + row.nanos)
  sum.billed_nanos = capped(sum.billed_nanos + row.billed_nanos)
  sum.points = capped(sum.points + row.points)
}

const capped = (amount: number): number => Math.min(Number.MAX_SAFE_INTEGER, amount)

export const AMOUNTS = ['requests', 'input_tokens', 'output_tokens', 'nanos', 'billed_nanos', 'points'] as const

/** Adds these sums to the stored usage. */
export const toUsageInsert = (rows: readonly UsageDayRow[]): TableRows<'usage_days'> => ({
  table: 'usage_days',
  rows,
  onConflict: { addTo: ['tenant_id', 'day', 'user_id', 'api_key_id', 'model', 'tag'] },
})
