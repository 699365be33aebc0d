import type { IdempotencyResultRow, IncidentRow, RateCounterRow } from '../../../../src/daemon/platform/db/tables.ts'

/** An incident of a small request, with the id that makes it unique. */
export const incidentRow = (id: string, changes: Partial<IncidentRow> = {}): IncidentRow => ({
  id,
  tenant_id: 'tenant',
  created_at: '2026-01-01T00:00:00.000Z',
  request_id: id,
  trace_id: 'trx-1',
  api_key_id: 'key',
  user_id: 'user',
  endpoint: '/chat/completions',
  model: null,
  kind: 'dlp',
  rule_id: 'rule',
  rule_name: 'Rule',
  category: 'custom',
  types: '{}',
  match_count: 12,
  severity: 'low',
  direction: 'input',
  action: 'log',
  enforced: 1,
  risk_score: null,
  policy: 'none',
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
  is_sealed: 0,
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
