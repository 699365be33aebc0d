import type { IncidentRow } from '../src/daemon/platform/db/tables.ts'
import { newId, newRequestId } from '../src/shared/ids.ts'

/** A typical incident, overridden by `fields`. As in the gateway, its ids contain its time. */
export const incidentRow = ({
  created_at = '2026-01-01T00:00:00.000Z',
  ...fields
}: Partial<IncidentRow> & Pick<IncidentRow, 'tenant_id'>): IncidentRow => ({
  id: newId(Date.parse(created_at)),
  created_at,
  request_id: newRequestId(Date.parse(created_at)),
  trace_id: `trx-${newId()}`,
  api_key_id: newId(),
  user_id: newId(),
  endpoint: '/api/external/chat/completions',
  model: null,
  kind: 'pii',
  rule_id: 'policy:internal',
  rule_name: 'internal',
  category: 'personal_data',
  types: JSON.stringify({ EMAIL: 1 }),
  match_count: 1,
  severity: 'medium',
  direction: 'input',
  action: 'mask',
  enforced: 1,
  risk_score: null,
  policy: 'internal',
  ...fields,
})
