import type { EvidenceEntryRow } from '../db/tables.ts'

/** What every entry of the log says of itself (docs/evidence.md). Requests say more; their members are optional here. */
export type LoggedPayload = {
  kind: 'request' | 'change'
  type: string
  operation: string
  severity: 'info' | 'warning' | 'error' | 'critical'
  result: 'success' | 'denied' | 'failure'
  compliance_category: string
  description: string
  request_id: string
  endpoint: string
  actor: 'key' | 'operator'
  user_id: string | null
  key_id: string | null
  resource_type: string | null
  resource_id: string | null
  metadata: Record<string, unknown>
  bundle_id?: string
  mode?: string
  status?: number
  model?: string | null
  requested_model?: string
  index?: string
  policy?: object
  attempts?: readonly { model: string; status: string; reason?: string; latency_ms: number }[]
  usage?: object
  cost?: object
  inspection?: object
  times?: { started_at: string; first_token_ms: number | null; latency_ms: number }
}

/** What an entry says; undefined once it was expunged. */
export const payloadOf = ({ payload }: Pick<EvidenceEntryRow, 'payload'>): LoggedPayload | undefined =>
  payload === null ? undefined : (JSON.parse(payload) as LoggedPayload)
