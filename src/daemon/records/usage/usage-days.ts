// Usage by tenant, day, user, key and model: sums over the receipts of billed requests.
import type { TableRows } from '../../platform/db/insert-rows.ts'
import type { UsageDayRow } from '../../platform/db/tables.ts'
import type { LoggedPayload } from '../evidence/entry-payload.ts'

/** The usage of one entry. Undefined if the entry has no bill or is unreadable. */
export function usageOf(tenantId: string, payload: LoggedPayload | undefined): UsageDayRow | undefined {
  if (payload?.kind !== 'request' || !payload.cost || !payload.usage) return undefined
  const { cost, usage, metadata, model, key_id, user_id, times } = payload
  const payer = metadata.payer_id
  const nanos = amountOf(cost.nanos)
  return {
    tenant_id: tenantId,
    // A request belongs to the day and month in which it started, as in its bill.
    day: (times?.started_at ?? '').slice(0, DAY_CHARS),
    user_id: typeof payer === 'string' ? payer : (user_id ?? ''),
    api_key_id: key_id ?? '',
    model: model ?? '',
    requests: 1,
    input_tokens: amountOf(usage.input_tokens),
    output_tokens: amountOf(usage.output_tokens),
    nanos,
    billed_nanos: cost.mode === 'usage-by-model' ? nanos : 0,
    points: amountOf(cost.points),
  }
}

export const DAY_CHARS = '2026-11-22'.length

const amountOf = (value: unknown): number => (Number.isSafeInteger(value) && Number(value) > 0 ? Number(value) : 0)

/** The sums by day, user, key and model, in the order of the table's key, so that parallel writers cannot deadlock. */
export function sumUsage(rows: readonly UsageDayRow[]): UsageDayRow[] {
  const sums = new Map<string, UsageDayRow>()
  for (const row of rows) {
    const key = JSON.stringify([row.tenant_id, row.day, row.user_id, row.api_key_id, row.model])
    const sum = sums.get(key)
    if (!sum) sums.set(key, { ...row })
    else for (const amount of AMOUNTS) sum[amount] = Math.min(Number.MAX_SAFE_INTEGER, sum[amount] + row[amount])
  }
  return [...sums].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, sum]) => sum)
}

export const AMOUNTS = ['requests', 'input_tokens', 'output_tokens', 'nanos', 'billed_nanos', 'points'] as const

/** Adds these sums to the stored usage. */
export const toUsageInsert = (rows: readonly UsageDayRow[]): TableRows<'usage_days'> => ({
  table: 'usage_days',
  rows,
  onConflict: { addTo: ['tenant_id', 'day', 'user_id', 'api_key_id', 'model'] },
})
