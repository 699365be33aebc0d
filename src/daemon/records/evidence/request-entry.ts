import { toCanonicalJson } from '../../../shared/canonical-json.ts'
import type { ErrorCode } from '../../../shared/errors.ts'
import { isoTime } from '../../../shared/time.ts'
import type { FailoverAttempt } from '../../../shared/wire/chat.ts'
import type { IncidentAction } from '../../../shared/wire/incidents.ts'
import type { Outcome, ProviderHead, TokenUsage } from '../../models/provider.ts'
import type { EntryDraft } from '../ledger/records.ts'
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
  document: { mode: 'enforce' | 'monitor' }
}

/** The facts about a governed request. Each processing stage adds its facts. */
export type RequestFacts = {
  bundleId: string
  requestId: string
  /** Method and path pattern of the route. */
  endpoint: string
  operation: 'chat.completion' | 'embedding' | 'token.count'
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
  /** Undefined until the policy is known. */
  policy: RecordedPolicy | undefined
  /** The inspectors that have inspected or will inspect the request. */
  inspectors: Readonly<Record<Inspector, boolean>>
  incidents: readonly RecordedIncident[]
  documentsRetrieved: number
  attempts: readonly FailoverAttempt[]
  /** The entitlements of the attempts, by index. */
  entitlements: readonly (Entitlement | undefined)[]
  /** The head of the first response of each attempt, by index. Undefined if there was no HTTP response. */
  heads: readonly (ProviderHead | undefined)[]
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

/**
 * Returns the log entry of a governed request. This entry is also the receipt of the request (docs/evidence.md,
 * Receipts). It contains ids, counts, hashes, times, and names of models, policies, indexes and rules. The entry
 * contains no text of the conversation.
 *
 * Every request writes an entry, so the entry must be cheap and small. The canonical JSON (RFC 8785) is therefore
 * written directly, with properties in order. Properties that can be derived are omitted. Two entries fit into one
 * SQLite page, so a request costs half a page.
 */
export function toRequestEntry(facts: RequestFacts, end: RequestEnd): EntryDraft {
  const { policy } = facts
  const { answered } = end
  const denied = end.result === 'denied'
  const issuedAt = isoTime(end.atMs)
  const payload =
    `{"actor":"key","attempts":[${attemptsOf(facts)}],"bundle_id":"${facts.bundleId}",` +
    `"compliance_category":"${denied ? 'security' : 'data_protection'}","cost":${costOf(answered, issuedAt)},` +
    `"documents_retrieved":${facts.documentsRetrieved},"endpoint":"${facts.endpoint}",` +
    `${end.error === undefined ? '' : `"error":"${end.error}",`}"index":${toTextOrNull(facts.index)},"inspection":${inspectionOf(facts)},` +
    `"issued_at":"${issuedAt}","key_id":"${facts.keyId}","kind":"request","metadata":${metadataOf(facts, end)},` +
    `"mode":"${policy?.document.mode ?? 'enforce'}","model":${toTextOrNull(answered?.model ?? null)},` +
    `"operation":"${facts.operation}","outcome":"${denied ? 'denied' : 'allowed'}","policy":${policyOf(policy)},` +
    `"request_id":"${facts.requestId}","request_sha256":"${facts.requestSha256}","requested_model":${toTextOrNull(facts.requestedModel)},` +
    `"response_sha256":${toHash(end.responseSha256)},"result":"${end.result}","severity":"${severityOf(end)}","status":${end.status},` +
    `"times":{"first_token_ms":${answered?.firstTokenMs ?? null},"latency_ms":${end.latencyMs},` +
    `"started_at":"${isoTime(facts.startedAtMs)}"},"type":"api_access","usage":${usageOf(answered)},` +
    `"user_id":"${facts.userId}","version":1}`
  return { id: facts.bundleId, tenantId: facts.tenantId, createdAtMs: end.atMs, payload }
}

function attemptsOf({ attempts, entitlements, heads }: RequestFacts): string {
  let all = ''
  for (let at = 0; at < attempts.length; at++) {
    const { model, status, reason, latency_ms } = attempts[at] as FailoverAttempt
    // The head of a `served` attempt is not stored, because its status is always 200.
    const head = status === 'served' ? undefined : heads[at]
    all +=
      `${at === 0 ? '' : ','}{"entitlement":${entitlementOf(entitlements[at])},"latency_ms":${latency_ms},"model":${toText(model)},` +
      `${headOf(head)}${reason === undefined ? '' : `"reason":${toText(reason)},`}"status":"${status}"}`
  }
  return all
}

/** Provider ids contain only characters that need no escapes (providers/stream/read-answer.ts). */
function headOf(head: ProviderHead | undefined): string {
  if (!head) return ''
  const requestId = head.requestId === undefined ? '' : `"provider_request_id":"${head.requestId}",`
  return `${requestId}"provider_status":${head.status},`
}

function entitlementOf(entitlement: Entitlement | undefined): string {
  if (!entitlement) return 'null'
  const { bodySha256, exp, iat, jti, model, policyHash, sub, verdict } = entitlement
  return (
    `{"body_sha256":"${bodySha256}","exp":${exp},"iat":${iat},"jti":"${jti}","model":${toText(model)},` +
    `"policy_hash":"${policyHash}","sub":"${sub}","verdict":"${verdict}"}`
  )
}

const policyOf = (policy: RecordedPolicy | undefined): string =>
  policy ? `{"hash":"${policy.hash}","name":${toText(policy.canonical)},"source":"${policy.source}"}` : 'null'

/** The bill. Names the month only if the answer ended in a later month, and the price only if the price is assumed. */
function costOf(answered: Answered | undefined, issuedAt: string): string {
  if (!answered) return 'null'
  const { mode, nanos, period, points, isPriceKnown } = answered.cost
  const assumed = isPriceKnown ? '' : '"assumed_price":true,'
  const month = issuedAt.startsWith(period) ? '' : `"period":"${period}",`
  return `{${assumed}"mode":"${mode}","nanos":${nanos},${month}"points":${points}}`
}

function usageOf(answered: Answered | undefined): string {
  if (!answered) return 'null'
  const { cacheReadTokens, cacheWriteTokens, cacheWriteHourTokens = 0 } = answered.usage
  const { estimated, inputTokens, outputTokens, reasoningTokens } = answered.usage
  const read = cacheReadTokens === 0 ? '' : `"cache_read_tokens":${cacheReadTokens},`
  const written = cacheWriteTokens === 0 ? '' : `"cache_write_tokens":${cacheWriteTokens},`
  const forAnHour = cacheWriteHourTokens === 0 ? '' : `"cache_write_1h_tokens":${cacheWriteHourTokens},`
  const reasoned = reasoningTokens === 0 ? '' : `,"reasoning_tokens":${reasoningTokens}`
  return (
    `{${read}${forAnHour}${written}"estimated":${estimated},` +
    `"input_tokens":${inputTokens},"output_tokens":${outputTokens}${reasoned}}`
  )
}

function metadataOf({ streamed, payerId, userId }: RequestFacts, { answered }: RequestEnd): string {
  const payer = payerId === userId ? '' : `"payer_id":"${payerId}",`
  return `{"ending":${answered ? `"${answered.outcome}"` : 'null'},${payer}"streamed":${streamed}}`
}

const severityOf = ({ result, error }: RequestEnd): string => {
  if (result === 'success' || error === CLIENT_LEFT) return 'info'
  return result === 'denied' ? 'warning' : 'error'
}

const INSPECTORS = ['canary', 'dlp', 'pii', 'policy', 'prompt_shield'] as const satisfies readonly Inspector[]

/** The number of findings of each inspector, and the strongest action. */
function inspectionOf({ inspectors, incidents }: RequestFacts): string {
  if (incidents.length === 0) return foundNothing(inspectors)
  const verdicts = INSPECTORS.map((inspector) => {
    const own = incidents.filter(({ kind }) => kind === inspector)
    return [inspector, own.length > 0 ? foundBy(own) : { verdict: inspectors[inspector] ? 'clean' : 'not_run' }]
  })
  return toCanonicalJson(Object.fromEntries(verdicts))
}

/**
 * Cached JSON of an inspection without findings, by bit mask of the inspectors. Nearly all requests have one of a few
 * combinations.
 */
const nothingFound = new Map<number, string>()

function foundNothing(inspectors: RequestFacts['inspectors']): string {
  const { canary, dlp, pii, policy, prompt_shield } = inspectors
  const bits = +canary | (+dlp << 1) | (+pii << 2) | (+policy << 3) | (+prompt_shield << 4)
  const known = nothingFound.get(bits)
  if (known !== undefined) return known
  const verdicts = INSPECTORS.map((inspector) => [inspector, { verdict: inspectors[inspector] ? 'clean' : 'not_run' }])
  const json = toCanonicalJson(Object.fromEntries(verdicts))
  nothingFound.set(bits, json)
  return json
}

function foundBy(incidents: readonly RecordedIncident[]): object {
  const rules: Record<string, number> = Object.create(null)
  let hits = 0
  for (const incident of incidents) {
    const { rule, count } = ruleOf(incident)
    hits += count
    rules[rule] = (rules[rule] ?? 0) + count
  }
  return { hits, rules, verdict: verdictOf(incidents) }
}

function ruleOf(incident: RecordedIncident): { rule: string; count: number } {
  if (incident.kind === 'prompt_shield') return { rule: incident.shieldPolicy, count: 1 }
  if (incident.kind === 'canary') return { rule: incident.canaryId, count: 1 }
  return { rule: incident.ruleId, count: Object.values(incident.types).reduce((sum, count) => sum + count, 0) }
}

function verdictOf(incidents: readonly RecordedIncident[]): 'logged' | 'changed' | 'blocked' {
  const done = incidents.filter(({ enforced, action }) => enforced && action !== 'log' && action !== 'flag')
  if (done.some(({ action }) => action === 'block')) return 'blocked'
  return done.length > 0 ? 'changed' : 'logged'
}

const toTextOrNull = (text: string | null): string => (text === null ? 'null' : toText(text))

const toHash = (hash: string | null): string => (hash === null ? 'null' : `"${hash}"`)

const SHOWN_CHARS = 300
/**
 * Characters to replace. A lone surrogate cannot be encoded in UTF-8. Stores parse payloads as JSON, and some stores
 * reject control characters.
 */
const UNSTORABLE = /[\p{Surrogate}\p{Cc}]/gu

const NAMES_KEPT = 1_000
/** A cache of names as JSON strings. It is useful because most requests use the same names. */
const known = new Map<string, string>()

/** A name as a JSON string. Callers choose some of the names, so a name may contain any character. */
function toText(name: string): string {
  const found = known.get(name)
  if (found !== undefined) return found
  const text = name.slice(0, SHOWN_CHARS)
  const json = JSON.stringify(text.replace(UNSTORABLE, '\u{fffd}'))
  // A truncated name is not cached: the cache key would keep the caller's whole text in memory.
  if (text !== name) return json
  if (known.size >= NAMES_KEPT) known.clear()
  known.set(name, json)
  return json
}
