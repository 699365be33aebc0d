// The form in which the payload of a request is stored. An entry takes half of its space, so four entries fit into one
// page of SQLite instead of two. The payload is restored exactly: its hash is computed over the canonical JSON.
import { toCanonicalJson } from '../../../shared/canonical-json.ts'
import { isoTime } from '../../../shared/time.ts'
import type { FailoverAttempt } from '../../../shared/wire/chat.ts'
import type { EvidenceEntryRow } from '../../platform/db/tables.ts'
import type { Entitlement } from './entitlement.ts'
import type { Answered, RecordedPolicy, RequestEnd, RequestFacts } from './request-facts.ts'

/**
 * The JSON texts of a payload that the stored form contains unchanged, or in a shorter form if their content is as
 * usual.
 */
export type PayloadTexts = {
  model: string
  requestedModel: string
  index: string
  severity: string
  /** The number of the inspectors that ran without findings, or undefined if there are findings. */
  inspected: number | undefined
  inspection: string
  cost: string
  usage: string
  /** The member `unread_files`, followed by a comma, or empty. */
  unreadFiles: string
  /** The member `cache` with a comma. Empty for most requests. */
  cache: string
  /** A name as a JSON string. */
  text(name: string): string
  /** The members of an attempt that only some attempts have, each followed by a comma. */
  attemptExtras(facts: RequestFacts, at: number): string
  entitlement(entitlement: Entitlement | undefined): string
}

/** The stored form begins with this member. Canonical JSON of a payload never does. */
const PREFIX = '{"z":1,'
/** How long an entitlement is usually valid. This number is part of the format, so it never changes. */
const USUAL_SECONDS = 60

/**
 * Returns the stored form of a request's payload. Members by which lists are filtered have the same names as in the
 * payload, so SQL can read them. Omitted are constants, values that other columns or members contain, and usual values.
 * Hashes are in base64url.
 */
export function toStoredRequest(facts: RequestFacts, end: RequestEnd, texts: PayloadTexts): string {
  const { answered, error } = end
  const { policy } = facts
  return (
    `${PREFIX}"endpoint":"${facts.endpoint}",${error === undefined ? '' : `"error":"${error}",`}` +
    `"key_id":"${facts.keyId}","model":${texts.model},"operation":"${facts.operation}",` +
    `"request_id":"${facts.requestId}",` +
    `${texts.requestedModel === texts.model ? '' : `"requested_model":${texts.requestedModel},`}"result":"${end.result}",` +
    `"severity":"${texts.severity}","status":${end.status},"user_id":"${facts.userId}",` +
    `${facts.index === null ? '' : `"index":${texts.index},`}${texts.cache}${metadataOf(facts, answered)}` +
    `${policy ? policyOf(policy, texts) : ''}${answered ? billOf(answered, texts) : ''}` +
    `${texts.inspected === undefined ? `"inspection":${texts.inspection}` : `"inspected":${texts.inspected}`},` +
    `${texts.unreadFiles}"attempts":[${attemptsOf(facts, answered, texts)}],` +
    `"sha256":["${toBase64(facts.requestSha256)}",${end.responseSha256 === null ? 'null' : `"${toBase64(end.responseSha256)}"`}],` +
    `"took":[${end.latencyMs},${answered?.firstTokenMs ?? null}${startOf(facts, end)}]}`
  )
}

const metadataOf = (
  { streamed, payerId, userId, tag, documentsRetrieved }: RequestFacts,
  answered: Answered | undefined,
) =>
  (streamed ? '"streamed":true,' : '') +
  (payerId === userId ? '' : `"payer_id":"${payerId}",`) +
  (tag === undefined ? '' : `"tag":"${tag}",`) +
  (documentsRetrieved === 0 ? '' : `"documents_retrieved":${documentsRetrieved},`) +
  (answered === undefined || answered.outcome === 'complete' ? '' : `"ending":"${answered.outcome}",`)

const policyOf = ({ canonical, source, hash, document, baseline }: RecordedPolicy, { text }: PayloadTexts) =>
  `${document.mode === 'enforce' ? '' : `"mode":"${document.mode}",`}` +
  `"policy":[${text(canonical)},"${source}","${toBase64(hash)}"${baseline === undefined ? '' : `,${text(baseline.id)}`}],`

/** The bill as lists if it has only the usual members. */
function billOf({ cost, usage }: Answered, texts: PayloadTexts): string {
  const isUsualCost = texts.cost === `{"mode":"${cost.mode}","nanos":${cost.nanos},"points":${cost.points}}`
  const { inputTokens, outputTokens } = usage
  const usual = `{"estimated":false,"input_tokens":${inputTokens},"output_tokens":${outputTokens}}`
  return (
    `"cost":${isUsualCost ? `["${cost.mode}",${cost.nanos},${cost.points}]` : texts.cost},` +
    `"usage":${texts.usage === usual ? `[${inputTokens},${outputTokens}]` : texts.usage},`
  )
}

/** Time from the start until the entry. Usually equal to the latency, and then omitted. */
const startOf = ({ startedAtMs }: RequestFacts, { atMs, latencyMs }: RequestEnd) =>
  atMs - startedAtMs === latencyMs ? '' : `,${atMs - startedAtMs}`

function attemptsOf(facts: RequestFacts, answered: Answered | undefined, texts: PayloadTexts): string {
  let all = ''
  for (let at = 0; at < facts.attempts.length; at++) {
    const attempt = facts.attempts[at] as FailoverAttempt
    const entitlement = facts.entitlements[at]
    all +=
      `${at === 0 ? '' : ','}{${attempt.model === answered?.model ? '' : `"model":${texts.text(attempt.model)},`}` +
      `${attempt.status === 'served' ? '' : `"status":"${attempt.status}",`}${texts.attemptExtras(facts, at)}` +
      `${entitlement ? entitlementOf(entitlement, at, facts, attempt, texts) : ''}"latency_ms":${attempt.latency_ms}}`
  }
  return all
}

function entitlementOf(
  entitlement: Entitlement,
  at: number,
  { bundleId, keyId, policy, startedAtMs }: RequestFacts,
  { model }: FailoverAttempt,
  texts: PayloadTexts,
): string {
  const { bodySha256, exp, iat, jti, policyHash, sub, verdict } = entitlement
  const isUsual =
    exp - iat === USUAL_SECONDS &&
    verdict === 'allowed' &&
    sub === keyId &&
    policyHash === policy?.hash &&
    entitlement.model === model &&
    jti === `${bundleId}/${at}`
  if (!isUsual) return `"entitlement":${texts.entitlement(entitlement)},`
  const issued = iat === Math.floor(startedAtMs / 1000) ? '' : `"iat":${iat},`
  return `${issued}"body_sha256":"${toBase64(bodySha256)}",`
}

const HEX_CHARS = 64
const BASE64_CHARS = 43
/** Other texts are never hashes, and are stored unchanged. */
const toBase64 = (hash: string): string =>
  hash.length === HEX_CHARS ? Buffer.from(hash, 'hex').toString('base64url') : hash
const toHex = (hash: string): string =>
  hash.length === BASE64_CHARS ? Buffer.from(hash, 'base64url').toString('hex') : hash

type Stored = {
  endpoint: string
  error?: string
  operation: string
  request_id: string
  severity: string
  status: number
  user_id: string
  model: string | null
  requested_model?: string | null
  result: string
  key_id: string
  index?: string
  mode?: string
  streamed?: true
  payer_id?: string
  tag?: string
  documents_retrieved?: number
  ending?: string
  policy?: [name: string, source: string, hash: string, baseline?: string]
  cost?: [mode: string, nanos: number, points: number] | object
  usage?: [input: number, output: number] | object
  unread_files?: object
  inspected?: number
  inspection?: object
  cache?: object
  attempts: StoredAttempt[]
  sha256: [request: string, response: string | null]
  took: [latency: number, firstToken: number | null, sinceStart?: number]
}
type StoredAttempt = {
  model?: string
  status?: string
  entitlement?: object
  body_sha256?: string
  iat?: number
  latency_ms: number
}

type StoredColumns = Pick<EvidenceEntryRow, 'id' | 'created_at' | 'payload'>

/** Whether a payload has the form that this file describes. All other payloads are stored as canonical JSON. */
const isShort = (payload: string): boolean => payload.startsWith(PREFIX)

/** Returns the payload of an entry as an object. @throws SyntaxError or TypeError if the payload is unreadable */
export function parsePayload(payload: string, row: Pick<StoredColumns, 'id' | 'created_at'>): unknown {
  const parsed: unknown = JSON.parse(payload)
  return isShort(payload) ? restore(parsed as Stored, row) : parsed
}

/** Returns an entry with its payload as canonical JSON. An unreadable payload is unchanged, so that its hash is wrong. */
export function withCanonicalPayload<Row extends StoredColumns>(row: Row): Row {
  if (row.payload === null || !isShort(row.payload)) return row
  try {
    const stored = JSON.parse(row.payload) as Stored
    const payload = restore(stored, row)
    return { ...row, payload: isOrdered(stored) ? JSON.stringify(payload) : toCanonicalJson(payload) }
  } catch {
    return row
  }
}

/** Whether `restore` returns all members in canonical order. JSON.stringify is then sufficient, and much faster. */
const isOrdered = ({ inspected, attempts }: Stored): boolean =>
  inspected !== undefined && attempts.every((attempt) => Object.keys(attempt).every((name) => IN_ORDER.has(name)))

/** Members of an attempt that `restoreAttempt` returns in canonical order. */
const IN_ORDER: ReadonlySet<string> = new Set([
  ...['body_sha256', 'entitlement', 'iat', 'latency_ms', 'model'],
  ...['provider_request_id', 'provider_status', 'reason', 'status'],
])

function restore(stored: Stored, { id, created_at }: Pick<StoredColumns, 'id' | 'created_at'>): object {
  const { cost, usage, policy, sha256, took, model, requested_model = model } = stored
  const [latency, firstToken, sinceStart = latency] = took
  const startedAtMs = Date.parse(created_at) - sinceStart
  const isDenied = stored.result === 'denied'
  return {
    actor: 'key',
    attempts: stored.attempts.map((attempt, at) => restoreAttempt(attempt, at, { stored, id, startedAtMs })),
    bundle_id: id,
    ...(stored.cache !== undefined && { cache: stored.cache }),
    compliance_category: isDenied ? 'security' : 'data_protection',
    cost: Array.isArray(cost) ? { mode: cost[0], nanos: cost[1], points: cost[2] } : (cost ?? null),
    documents_retrieved: stored.documents_retrieved ?? 0,
    endpoint: stored.endpoint,
    ...(stored.error !== undefined && { error: stored.error }),
    index: stored.index ?? null,
    inspection: stored.inspected === undefined ? stored.inspection : inspectionOf(stored.inspected),
    issued_at: created_at,
    key_id: stored.key_id,
    kind: 'request',
    metadata: {
      ending: stored.ending ?? (cost === undefined ? null : 'complete'),
      ...(stored.payer_id !== undefined && { payer_id: stored.payer_id }),
      streamed: stored.streamed ?? false,
      ...(stored.tag !== undefined && { tag: stored.tag }),
    },
    mode: stored.mode ?? 'enforce',
    model,
    operation: stored.operation,
    outcome: isDenied ? 'denied' : 'allowed',
    policy: policy ? toPolicy(policy) : null,
    request_id: stored.request_id,
    request_sha256: toHex(sha256[0]),
    requested_model,
    response_sha256: sha256[1] === null ? null : toHex(sha256[1]),
    result: stored.result,
    severity: stored.severity,
    status: stored.status,
    times: { first_token_ms: firstToken, latency_ms: latency, started_at: isoTime(startedAtMs) },
    type: 'api_access',
    ...(stored.unread_files && { unread_files: stored.unread_files }),
    usage: Array.isArray(usage)
      ? { estimated: false, input_tokens: usage[0], output_tokens: usage[1] }
      : (usage ?? null),
    user_id: stored.user_id,
    version: 1,
  }
}

const toPolicy = ([name, source, hash, baseline]: NonNullable<Stored['policy']>): object => ({
  ...(baseline !== undefined && { baseline }),
  hash: toHex(hash),
  name,
  source,
})

function restoreAttempt(
  { body_sha256, iat, entitlement, latency_ms, ...others }: StoredAttempt,
  at: number,
  { stored, id, startedAtMs }: { stored: Stored; id: string; startedAtMs: number },
): object {
  const { model = stored.model, status = 'served', ...extras } = others
  const issuedAt = iat ?? Math.floor(startedAtMs / 1000)
  const usual = body_sha256 !== undefined && {
    body_sha256: toHex(body_sha256),
    exp: issuedAt + USUAL_SECONDS,
    iat: issuedAt,
    jti: `${id}/${at}`,
    model,
    policy_hash: toHex(stored.policy?.[2] ?? ''),
    sub: stored.key_id,
    verdict: 'allowed',
  }
  return {
    entitlement: entitlement ?? (usual || null),
    latency_ms,
    model,
    ...extras,
    status,
  }
}

/** The inspectors by the bits of `inspected`. The order is part of the format. */
const INSPECTORS = ['canary', 'dlp', 'pii', 'policy', 'prompt_shield']

const inspectionOf = (inspected: number): object =>
  Object.fromEntries(INSPECTORS.map((name, bit) => [name, { verdict: (inspected >> bit) & 1 ? 'clean' : 'not_run' }]))
