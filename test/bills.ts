// The bills of answered requests, read from their receipts.
import type { Db } from '../src/daemon/platform/db/db.ts'
import { payloadOf } from '../src/daemon/records/evidence/entry-payload.ts'

export type Bill = ReturnType<typeof toBill>

/** Returns the bills in the order of their commits. Requests without an answer, and free requests, have none. */
export async function billsOf(db: Db): Promise<Bill[]> {
  const entries = await db
    .selectFrom('evidence_entries')
    .select(['id', 'created_at', 'tenant_id', 'payload'])
    .orderBy('created_at')
    .orderBy('seq')
    .execute()
  return entries.flatMap((row) => {
    const receipt = payloadOf(row)
    const isBilled = receipt?.kind === 'request' && receipt.cost && receipt.operation !== 'token.count'
    return isBilled ? [toBill(row.tenant_id, receipt as unknown as Receipt)] : []
  })
}

/** The properties of a receipt that a bill consists of. */
type Receipt = {
  request_id: string
  key_id: string
  user_id: string
  endpoint: string
  issued_at: string
  index: string
  requested_model: string
  model: string
  attempts: unknown[]
  metadata: { ending: string; streamed: boolean; payer_id?: string }
  usage: {
    input_tokens: number
    output_tokens: number
    cache_read_tokens?: number
    cache_write_tokens?: number
    reasoning_tokens?: number
    estimated: boolean
  }
  cost: { mode: string; nanos: number; points: number; period?: string; assumed_price?: true }
  times: { latency_ms: number; first_token_ms: number }
}

const toBill = (tenantId: string, receipt: Receipt) => ({
  request_id: receipt.request_id,
  tenant_id: tenantId,
  api_key_id: receipt.key_id,
  user_id: receipt.metadata.payer_id ?? receipt.user_id,
  created_at: receipt.issued_at,
  route: receipt.endpoint.replace(/^POST /, ''),
  streamed: receipt.metadata.streamed ? 1 : 0,
  requested_model: receipt.requested_model,
  served_model: receipt.model,
  index_used: receipt.index,
  outcome: receipt.metadata.ending,
  input_tokens: receipt.usage.input_tokens,
  output_tokens: receipt.usage.output_tokens,
  cache_read_tokens: receipt.usage.cache_read_tokens ?? 0,
  cache_write_tokens: receipt.usage.cache_write_tokens ?? 0,
  reasoning_tokens: receipt.usage.reasoning_tokens ?? 0,
  tokens_estimated: receipt.usage.estimated ? 1 : 0,
  attempts: receipt.attempts.length,
  latency_ms: receipt.times.latency_ms,
  first_token_ms: receipt.times.first_token_ms,
  billing_mode: receipt.cost.mode,
  billing_period: receipt.cost.period ?? receipt.issued_at.slice(0, 7),
  cost_nanos: receipt.cost.nanos,
  points: receipt.cost.points,
  price_missing: receipt.cost.assumed_price ? 1 : 0,
})
