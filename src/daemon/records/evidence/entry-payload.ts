import type { EvidenceEntryRow } from '../../platform/db/tables.ts'
import { isObject } from '../../platform/text/json.ts'
import { parsePayload } from './stored-payload.ts'

/** The properties of a log entry's payload (docs/evidence.md). Properties that only some entries have are optional. */
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
  /** Only administrative changes have these three properties. */
  description?: string
  resource_type?: string
  resource_id?: string
  bundle_id?: string
  error?: string | undefined
  mode?: string
  status?: number
  model?: string | null
  requested_model?: string | null
  index?: string | null
  policy?: object
  attempts?: readonly LoggedAttempt[]
  usage?: Readonly<Record<string, unknown>> | null
  cost?: Readonly<Record<string, unknown>> | null
  inspection?: object
  times?: { started_at: string; first_token_ms: number | null; latency_ms: number }
}

/** The properties of a payload that are summarised (log-blocks.ts, usage-days.ts). */
export type SummaryFacts = Pick<LoggedPayload, SummarisedProperty> & { times?: { started_at: string } }
type SummarisedProperty =
  | ('kind' | 'type' | 'operation' | 'severity' | 'result' | 'compliance_category' | 'endpoint' | 'status' | 'error')
  | ('model' | 'requested_model' | 'user_id' | 'key_id' | 'description' | 'metadata' | 'usage' | 'cost')

export type LoggedAttempt = {
  model: string
  status: string
  reason?: string
  /** The HTTP status of a failed attempt. This property is missing if there was no response, and in older entries. */
  provider_status?: number
  /**
   * The provider's request id. This property is missing if there was no response, if the provider sent no id, and in
   * older entries.
   */
  provider_request_id?: string
  latency_ms: number
  /** Null if no request was created for the attempt. */
  entitlement?: object | null
}

/** Returns the payload of an entry. Returns undefined if the payload was expunged or is unreadable. */
export function payloadOf({
  payload,
  ...row
}: Pick<EvidenceEntryRow, 'id' | 'created_at' | 'payload'>): LoggedPayload | undefined {
  if (payload === null) return undefined
  try {
    const parsed: unknown = parsePayload(payload, row)
    return isObject(parsed) && isObject(parsed.metadata ?? {}) ? (parsed as LoggedPayload) : undefined
  } catch {
    return undefined
  }
}

/** Returns the action as a sentence. For a request, the sentence is not stored but generated here. */
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
  ['moderation', 'moderation'],
  ['rerank', 'reranking'],
])

/** Returns the resource of an action. For a request, the resource is the requested model. */
export const resourceOf = ({ kind, resource_type, resource_id, requested_model }: LoggedPayload) =>
  kind === 'request' && requested_model !== undefined
    ? { resourceType: 'model', resourceId: requested_model }
    : { resourceType: resource_type ?? null, resourceId: resource_id ?? null }
