import { toCanonicalJson } from '../../../shared/canonical-json.ts'
import { isoTime } from '../../../shared/time.ts'
import type { FailoverAttempt } from '../../../shared/wire/chat.ts'
import type { ProviderHead } from '../../models/provider.ts'
import type { EntryDraft } from '../ledger/records.ts'
import type { Entitlement } from './entitlement.ts'
import type { SummaryFacts } from './entry-payload.ts'
import {
  type Answered,
  CLIENT_LEFT,
  type Inspector,
  type RecordedIncident,
  type RecordedPolicy,
  type RequestEnd,
  type RequestFacts,
} from './request-facts.ts'
import { type PayloadTexts, toStoredRequest } from './stored-payload.ts'

export {
  type Answered,
  CLIENT_LEFT,
  type Inspector,
  type RecordedCacheHit,
  type RecordedIncident,
  type RequestEnd,
  type RequestFacts,
} from './request-facts.ts'

/**
 * Returns the log entry of a governed request. This entry is also the receipt of the request (docs/evidence.md,
 * Receipts). It contains ids, counts, hashes, times, and names of models, policies, indexes and rules. The entry
 * contains no text of the conversation.
 *
 * Every request writes an entry, so the entry must be cheap and small. The canonical JSON (RFC 8785) is therefore
 * written directly, with properties in order. Properties that can be derived are omitted. The stored form is shorter
 * (stored-payload.ts).
 */
export function toRequestEntry(facts: RequestFacts, end: RequestEnd): EntryDraft {
  const { policy } = facts
  const { answered } = end
  const denied = end.result === 'denied'
  const issuedAt = isoTime(end.atMs)
  const startedAt = isoTime(facts.startedAtMs)
  const severity = severityOf(end)
  const complianceCategory = denied ? 'security' : 'data_protection'
  const [model, requestedModel] = [toName(answered?.model ?? null), toName(facts.requestedModel)]
  const texts: PayloadTexts = {
    model: model.json,
    requestedModel: requestedModel.json,
    index: toTextOrNull(facts.index),
    severity,
    inspected: facts.incidents.length === 0 ? bitsOf(facts.inspectors) : undefined,
    inspection: inspectionOf(facts),
    cost: costOf(answered, issuedAt),
    usage: usageOf(answered),
    unreadFiles: unreadOf(facts),
    cache: cacheOf(facts),
    text: toText,
    attemptExtras: attemptExtrasOf,
    entitlement: entitlementOf,
  }
  const payload =
    `{"actor":"key","attempts":[${attemptsOf(facts)}],"bundle_id":"${facts.bundleId}",${cacheOf(facts)}` +
    `"compliance_category":"${complianceCategory}","cost":${texts.cost},` +
    `"documents_retrieved":${facts.documentsRetrieved},"endpoint":"${facts.endpoint}",` +
    `${end.error === undefined ? '' : `"error":"${end.error}",`}"index":${texts.index},"inspection":${texts.inspection},` +
    `"issued_at":"${issuedAt}","key_id":"${facts.keyId}","kind":"request","metadata":${metadataOf(facts, end)},` +
    `"mode":"${policy?.document.mode ?? 'enforce'}","model":${texts.model},` +
    `"operation":"${facts.operation}","outcome":"${denied ? 'denied' : 'allowed'}","policy":${policyOf(policy)},` +
    `"request_id":"${facts.requestId}","request_sha256":"${facts.requestSha256}","requested_model":${texts.requestedModel},` +
    `"response_sha256":${toHash(end.responseSha256)},"result":"${end.result}","severity":"${severity}","status":${end.status},` +
    `"times":{"first_token_ms":${answered?.firstTokenMs ?? null},"latency_ms":${end.latencyMs},` +
    `"started_at":"${startedAt}"},"type":"api_access",${texts.unreadFiles}"usage":${texts.usage},` +
    `"user_id":"${facts.userId}","version":1}`
  const stored = toStoredRequest(facts, end, texts)
  const summarised: SummaryFacts = {
    kind: 'request',
    type: 'api_access',
    compliance_category: complianceCategory,
    operation: facts.operation,
    endpoint: facts.endpoint,
    result: end.result,
    severity,
    status: end.status,
    error: end.error,
    model: model.text,
    requested_model: requestedModel.text,
    user_id: facts.userId,
    key_id: facts.keyId,
    metadata: summarisedMetadata(facts),
    cost: answered ? answered.cost : null,
    usage: answered ? { input_tokens: answered.usage.inputTokens, output_tokens: answered.usage.outputTokens } : null,
    times: { started_at: startedAt },
  }
  const { bundleId: id, tenantId } = facts
  return { id, tenantId, createdAtMs: end.atMs, payload, stored, facts: summarised }
}

const NO_METADATA = {}

const summarisedMetadata = ({ payerId, userId, tag }: RequestFacts): SummaryFacts['metadata'] =>
  payerId === userId && tag === undefined
    ? NO_METADATA
    : { ...(payerId !== userId && { payer_id: payerId }), ...(tag !== undefined && { tag }) }

function attemptsOf(facts: RequestFacts): string {
  const { attempts, entitlements } = facts
  let all = ''
  for (let at = 0; at < attempts.length; at++) {
    const { model, status, latency_ms } = attempts[at] as FailoverAttempt
    all +=
      `${at === 0 ? '' : ','}{"entitlement":${entitlementOf(entitlements[at])},"latency_ms":${latency_ms},"model":${toText(model)},` +
      `${attemptExtrasOf(facts, at)}"status":"${status}"}`
  }
  return all
}

/** The members that only some attempts have. */
function attemptExtrasOf({ attempts, heads }: RequestFacts, at: number): string {
  const { status, reason } = attempts[at] as FailoverAttempt
  return `${headOf(heads[at], status)}${reason === undefined ? '' : `"reason":${toText(reason)},`}`
}

/**
 * Provider ids contain only characters that need no escapes (providers/stream/request-id.ts). The status of a `served`
 * attempt is always 200, so it is not stored. The provider's message is no evidence: receipts show their whole payload
 * to users who must not read it.
 */
function headOf(head: ProviderHead | undefined, status: FailoverAttempt['status']): string {
  if (!head) return ''
  const requestId = head.requestId === undefined ? '' : `"provider_request_id":"${head.requestId}",`
  return status === 'served' ? requestId : `${requestId}"provider_status":${head.status},`
}

function entitlementOf(entitlement: Entitlement | undefined): string {
  if (!entitlement) return 'null'
  const { bodySha256, exp, iat, jti, model, policyHash, sub, verdict } = entitlement
  return (
    `{"body_sha256":"${bodySha256}","exp":${exp},"iat":${iat},"jti":"${jti}","model":${toText(model)},` +
    `"policy_hash":"${policyHash}","sub":"${sub}","verdict":"${verdict}"}`
  )
}

/** The member is present only if the answer came from the cache. */
const cacheOf = ({ cacheHit }: RequestFacts): string =>
  cacheHit
    ? `"cache":{"age_s":${cacheHit.ageSeconds},"original":"${cacheHit.original}","status":"${cacheHit.status}"},`
    : ''

const policyOf = (policy: RecordedPolicy | undefined): string =>
  policy
    ? `{${baselineOf(policy)}"hash":"${policy.hash}","name":${toText(policy.canonical)},"source":"${policy.source}"}`
    : 'null'

const baselineOf = ({ baseline }: RecordedPolicy): string =>
  baseline === undefined ? '' : `"baseline":${toText(baseline.id)},`

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
  const { estimated, inputTokens, outputTokens, reasoningTokens, tier, webSearches } = answered.usage
  const { audioInputTokens, audioOutputTokens } = answered.usage
  const heard = audioInputTokens === undefined ? '' : `"audio_input_tokens":${audioInputTokens},`
  const spoken = audioOutputTokens === undefined ? '' : `"audio_output_tokens":${audioOutputTokens},`
  const read = cacheReadTokens === 0 ? '' : `"cache_read_tokens":${cacheReadTokens},`
  const written = cacheWriteTokens === 0 ? '' : `"cache_write_tokens":${cacheWriteTokens},`
  const forAnHour = cacheWriteHourTokens === 0 ? '' : `"cache_write_1h_tokens":${cacheWriteHourTokens},`
  const reasoned = reasoningTokens === 0 ? '' : `,"reasoning_tokens":${reasoningTokens}`
  // Decoders accept only plain words as a tier.
  const served = tier === undefined ? '' : `,"tier":"${tier}"`
  const searched = webSearches === undefined ? '' : `,"web_searches":${webSearches}`
  return (
    `{${heard}${spoken}${read}${forAnHour}${written}"estimated":${estimated},` +
    `"input_tokens":${inputTokens},"output_tokens":${outputTokens}${reasoned}${served}${searched}}`
  )
}

/** The kinds of files that guards could not read, with a comma. Empty without such files. */
const unreadOf = ({ unreadFiles }: RequestFacts): string =>
  unreadFiles === undefined ? '' : `"unread_files":${toCanonicalJson(unreadFiles)},`

/** Tags contain only characters that need no escapes. */
function metadataOf({ streamed, payerId, userId, tag }: RequestFacts, { answered }: RequestEnd): string {
  const payer = payerId === userId ? '' : `"payer_id":"${payerId}",`
  return `{"ending":${answered ? `"${answered.outcome}"` : 'null'},${payer}"streamed":${streamed}${tag === undefined ? '' : `,"tag":"${tag}"`}}`
}

const severityOf = ({ result, error }: RequestEnd): SummaryFacts['severity'] => {
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

const bitsOf = ({ canary, dlp, pii, policy, prompt_shield }: RequestFacts['inspectors']): number =>
  +canary | (+dlp << 1) | (+pii << 2) | (+policy << 3) | (+prompt_shield << 4)

function foundNothing(inspectors: RequestFacts['inspectors']): string {
  const bits = bitsOf(inspectors)
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

const toTextOrNull = (text: string | null): string => toName(text).json

const toHash = (hash: string | null): string => (hash === null ? 'null' : `"${hash}"`)

const SHOWN_CHARS = 300
/**
 * Characters to replace. A lone surrogate cannot be encoded in UTF-8. Stores parse payloads as JSON, and some stores
 * reject control characters.
 */
const UNSTORABLE = /[\p{Surrogate}\p{Cc}]/gu

const NAMES_KEPT = 1_000
/** A name as it is stored: as text, and as JSON. */
type StoredName = { text: string | null; json: string }
const NO_NAME: StoredName = { text: null, json: 'null' }
/** A cache of names. It is useful because most requests use the same names. */
const known = new Map<string, StoredName>()

const toText = (name: string): string => toName(name).json

/** Callers choose some of the names, so a name may contain any character. */
function toName(name: string | null): StoredName {
  if (name === null) return NO_NAME
  const found = known.get(name)
  if (found !== undefined) return found
  const shown = name.slice(0, SHOWN_CHARS)
  const text = shown.replace(UNSTORABLE, '\u{fffd}')
  const stored = { text, json: JSON.stringify(text) }
  // A truncated name is not cached: the cache key would keep the caller's whole text in memory.
  if (shown !== name) return stored
  if (known.size >= NAMES_KEPT) known.clear()
  known.set(name, stored)
  return stored
}
