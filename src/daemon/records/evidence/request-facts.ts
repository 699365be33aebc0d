// The facts of a governed request, from which its log entry is written.
import type { ErrorCode } from '../../../shared/errors.ts'
import type { FailoverAttempt } from '../../../shared/wire/chat.ts'
import type { IncidentAction } from '../../../shared/wire/incidents.ts'
import type { Outcome, ProviderHead, TokenUsage } from '../../models/provider.ts'
import type { Entitlement } from './entitlement.ts'

/** The inspectors of a request, by their names in receipts. */
export type Inspector = 'canary' | 'dlp' | 'pii' | 'policy' | 'prompt_shield'

/** A finding, with the properties that receipts count. */
export type RecordedIncident = { action: IncidentAction; enforced: boolean } & (
  | { kind: 'prompt_shield'; shieldPolicy: string }
  | { kind: 'canary'; canaryId: string }
  | { kind: 'dlp' | 'pii' | 'policy'; ruleId: string; types: Readonly<Record<string, number>> }
)

/** The policy of a request, as recorded in receipts. */
export type RecordedPolicy = {
  canonical: string
  source: string
  hash: string
  /** The baseline that was joined with the policy. The hash belongs to the joined document. */
  baseline?: { id: string } | undefined
  document: { mode: 'enforce' | 'monitor' }
}

/** The answer of an earlier or a simultaneous identical request, which this request got instead of a model call. */
export type RecordedCacheHit = {
  status: 'hit' | 'coalesced'
  /** The bundle id of the request whose model call created the answer. */
  original: string
  ageSeconds: number
}

/** The facts about a governed request. Each processing stage adds its facts. */
export type RequestFacts = {
  bundleId: string
  requestId: string
  /** Method and path pattern of the route. */
  endpoint: string
  operation: 'chat.completion' | 'embedding' | 'token.count' | 'moderation' | 'rerank'
  tenantId: string
  keyId: string
  userId: string
  /** The user to whom the request is billed. */
  payerId: string
  startedAtMs: number
  requestSha256: string
  /**
   * Callers choose the names of model and index, so a name may contain any text. Therefore, only names that exist in
   * this installation are recorded.
   */
  requestedModel: string | null
  index: string | null
  streamed: boolean
  /** The tag to which the cost is attributed. */
  tag?: string | undefined
  /** Undefined until the policy is known. */
  policy: RecordedPolicy | undefined
  /** The inspectors that have inspected or will inspect the request. */
  inspectors: Readonly<Record<Inspector, boolean>>
  incidents: readonly RecordedIncident[]
  documentsRetrieved: number
  /** The number of files that guards could not read, by kind. Undefined if there are none. */
  unreadFiles?: Readonly<Record<string, number>> | undefined
  attempts: readonly FailoverAttempt[]
  /** The entitlements of the attempts, by index. */
  entitlements: readonly (Entitlement | undefined)[]
  /** The head of the first response of each attempt, by index. Undefined if there was no HTTP response. */
  heads: readonly (ProviderHead | undefined)[]
  /** Undefined if the answer did not come from the cache. */
  cacheHit?: RecordedCacheHit | undefined
}

/** A model's answer, complete or not. */
export type Answered = {
  outcome: Outcome
  model: string
  usage: TokenUsage
  cost: {
    mode: string
    /** The month in which the answer is billed, as `2026-01`. */
    period: string
    nanos: number
    points: number
    isPriceKnown: boolean
  }
  firstTokenMs: number
}

/** The error code of a request whose client disconnected before the response was complete. */
export const CLIENT_LEFT = 'CLIENT_LEFT'

/** The result of a request. */
export type RequestEnd = {
  atMs: number
  latencyMs: number
  result: 'success' | 'denied' | 'failure'
  /** HTTP status; 499 if the client disconnected before the response began. */
  status: number
  /** The error code of a rejected or failed request. Undefined for a complete answer. */
  error: ErrorCode | typeof CLIENT_LEFT | 'SHUTDOWN' | undefined
  /** SHA-256 of the response body that was written to the connection. Null if nothing was written. */
  responseSha256: string | null
  /** Undefined if no model began to answer. */
  answered: Answered | undefined
}
