import { type ActivityLog, EXPUNGED } from '../../../shared/wire/logs.ts'
import type { EvidenceEntryRow } from '../../platform/db/tables.ts'
import { descriptionOf, type LoggedPayload, payloadOf, resourceOf } from '../evidence/entry-payload.ts'
import type { AttemptMessages } from './provider-messages.ts'

/** The user of an entry in the response format. */
export type UserName = { id: string; name: string; email: string }

/** One entry in the response format of the logs. Users are looked up by id and shown with their current names. */
export function toLogEntry(
  entry: Pick<EvidenceEntryRow, 'id' | 'created_at' | 'payload'>,
  users: ReadonlyMap<string, UserName>,
  messages: AttemptMessages = NO_MESSAGES,
): ActivityLog {
  const { id, created_at: timestamp } = entry
  const payload = payloadOf(entry)
  if (!payload) return { id, timestamp, ...EXPUNGED_CONTENT }
  return {
    id,
    timestamp,
    type: payload.type,
    severity: payload.severity,
    description: descriptionOf(payload),
    user: users.get(payload.user_id ?? '') ?? null,
    metadata: {
      ...payload.metadata,
      endpoint: payload.endpoint,
      operation: payload.operation,
      apiKeyId: payload.key_id,
      requestId: payload.request_id,
      ...(payload.kind === 'request' && factsOfRequest(payload, messages)),
    },
    complianceCategory: payload.compliance_category,
    outcome: payload.result,
    ...resourceOf(payload),
  }
}

const NO_MESSAGES: AttemptMessages = new Map()

const factsOfRequest = (
  { bundle_id, attempts = [], requested_model, times, ...payload }: LoggedPayload,
  messages: AttemptMessages,
) => ({
  bundleId: bundle_id,
  mode: payload.mode,
  status: payload.status,
  model: payload.model,
  requestedModel: requested_model,
  ...(payload.error !== undefined && { error: payload.error }),
  index: payload.index,
  policy: payload.policy,
  attempts: attempts.map(({ model, status, reason, provider_status, provider_request_id, latency_ms }, at) => ({
    model,
    status,
    ...(reason !== undefined && { reason }),
    ...(provider_status !== undefined && { providerStatus: provider_status }),
    ...(provider_request_id !== undefined && { providerRequestId: provider_request_id }),
    ...(messages.has(at) && { providerMessage: messages.get(at) }),
    latencyMs: latency_ms,
  })),
  usage: payload.usage,
  cost: payload.cost,
  inspection: payload.inspection,
  latencyMs: times?.latency_ms,
})

/** The values that are shown if the content of an entry was expunged. Only the hashes of such an entry still exist. */
const EXPUNGED_CONTENT = {
  type: EXPUNGED,
  severity: null,
  description: 'The content of this entry was expunged',
  user: null,
  metadata: {},
  complianceCategory: null,
  outcome: null,
  resourceType: null,
  resourceId: null,
} as const
