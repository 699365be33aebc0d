import type { EvidenceEntryRow } from '../../platform/db/tables.ts'

/** What every entry of the log says of itself (docs/evidence.md). Requests say more; their members are optional here. */
export type LoggedPayload = {
  kind: 'request' | 'change'
  type: string
  operation: string
  severity: 'info' | 'warning' | 'error' | 'critical'
  result: 'success' | 'denied' | 'failure'
  compliance_category: string
  request_id: string
  endpoint: string
  actor: 'key' | 'operator'
  user_id: string | null
  key_id: string | null
  metadata: Record<string, unknown>
  /** Changes have these three. */
  description?: string
  resource_type?: string
  resource_id?: string
  bundle_id?: string
  error?: string
  mode?: string
  status?: number
  model?: string | null
  requested_model?: string | null
  index?: string | null
  policy?: object
  attempts?: readonly LoggedAttempt[]
  usage?: object
  cost?: object
  inspection?: object
  times?: { started_at: string; first_token_ms: number | null; latency_ms: number }
}

export type LoggedAttempt = {
  model: string
  status: string
  reason?: string
  /** HTTP, of a failed attempt; missing where there was no answer, and in older entries. */
  provider_status?: number
  /** Likewise: how the provider calls the request. Missing also where it gave no id. */
  provider_request_id?: string
  latency_ms: number
  /** Null where nothing was to be sent. */
  entitlement?: object | null
}

/** What an entry says; undefined once it was expunged, and for one that was changed so that nobody can read it. */
export function payloadOf({ payload }: Pick<EvidenceEntryRow, 'payload'>): LoggedPayload | undefined {
  if (payload === null) return undefined
  try {
    return JSON.parse(payload) as LoggedPayload
  } catch {
    return undefined
  }
}

/** What was done, in a sentence. That of a request follows from the rest of it, so it is not kept. */
export function descriptionOf({ description, operation, result, requested_model, error }: LoggedPayload): string {
  if (description !== undefined) return description
  const what = OPERATIONS.get(operation) ?? 'chat'
  const how = result === 'success' ? 'answered' : result === 'denied' ? 'refused' : 'failed'
  const why = error === undefined ? '' : ` (${error})`
  const model = requested_model === null ? '' : ` with "${requested_model}"`
  return `External API: ${how} ${what}${model}${why}`
}

const OPERATIONS = new Map<unknown, string>([
  ['embedding', 'embedding'],
  ['token.count', 'count of tokens'],
])

/** What it was done to: of a request, the model that was asked for. */
export const resourceOf = ({ kind, resource_type, resource_id, requested_model }: LoggedPayload) =>
  kind === 'request' && requested_model !== undefined
    ? { resourceType: 'model', resourceId: requested_model }
    : { resourceType: resource_type ?? null, resourceId: resource_id ?? null }
