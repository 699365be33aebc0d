import type { IdempotencyResultRow, RateCounterRow, UsageRecordRow } from '../../../../src/daemon/platform/db/tables.ts'

/** A usage record of a small finished request. */
export const usageRecord = (requestId: string, changes: Partial<UsageRecordRow> = {}): UsageRecordRow => ({
  request_id: requestId,
  tenant_id: 'tenant',
  api_key_id: 'key',
  user_id: 'user',
  created_at: '2026-01-01T00:00:00.000Z',
  route: '/chat/completions',
  streamed: 0,
  requested_model: 'local/extract',
  served_model: 'local/extract',
  index_used: 'Zero-Knowledge',
  outcome: 'complete',
  native_finish_reason: null,
  input_tokens: 12,
  output_tokens: 34,
  cache_read_tokens: 0,
  cache_write_tokens: 0,
  reasoning_tokens: 0,
  tokens_estimated: 0,
  attempts: 1,
  latency_ms: 56,
  first_token_ms: null,
  billing_mode: 'user-completions',
  billing_period: '2026-01',
  cost_nanos: 0,
  points: 0,
  price_missing: 0,
  ...changes,
})

export const idempotencyResult = (requestId: string, key: string): IdempotencyResultRow => ({
  tenant_id: 'tenant',
  api_key_id: 'key',
  route: '/chat/completions',
  idempotency_key: key,
  fingerprint: 'f'.repeat(64),
  request_id: requestId,
  status: 200,
  content_type: 'application/json',
  body: JSON.stringify({ answer: 'yes\n"quoted" \u0000 \ud800' }),
  created_at: '2026-01-01T00:00:00.000Z',
  expires_at: '2026-01-02T00:00:00.000Z',
  lease_until: null,
})

export const rateCounter = (counter: string, changes: Partial<RateCounterRow> = {}): RateCounterRow => ({
  tenant_id: 'tenant',
  api_key_id: 'key',
  counter,
  window_start: '2026-01-01T00:00:00.000Z',
  used: 0,
  last_used_at: '2026-01-01T00:00:00.000Z',
  ...changes,
})
