import { hash } from 'node:crypto'
import { GatewayError } from '../../../shared/errors.ts'
import { newBundleId } from '../../../shared/ids.ts'
import type { Clock } from '../../../shared/time.ts'
import type { ProviderRegistry } from '../../models/registry.ts'
import type { Caller } from '../../platform/http/caller.ts'
import { type RequestIds, toErrorReply } from '../../platform/http/error-response.ts'
import { RequestAborted } from '../../platform/http/request-aborted.ts'
import type { RequestContext } from '../../platform/http/route.ts'
import type { Log } from '../../platform/log.ts'
import {
  CLIENT_LEFT,
  type RequestEnd,
  type RequestFacts,
  toRequestEntry,
} from '../../records/evidence/request-entry.ts'
import type { Ledger } from '../../records/ledger/ledger.ts'
import { ClaimLostError, type LedgerRecords } from '../../records/ledger/records.ts'
import type { GuardIncident } from '../../safety/incidents/incident.ts'
import type { AppliedPolicy } from '../../safety/policies/policies.ts'
import type { ChatInput } from './input.ts'
import type { Surface } from './surface.ts'

/**
 * The facts for the evidence of a governed request. Each request has exactly one evidence entry, regardless of how the
 * request ends.
 */
export type Evidence = Omit<RequestFacts, 'policy' | 'incidents'> & {
  policy: AppliedPolicy | undefined
  incidents: GuardIncident[]
  surface: Pick<Surface, 'errors'>
  startedMonotonicMs: number
  /** Further records that must be durable before a rejection is sent. They are committed with the entry. */
  withRefusal: LedgerRecords
  /** True once the entry is part of a commit, even if the commit failed. Prevents a second entry. */
  isWritten: boolean
}

/** Begins the evidence of a well-formed request. Nothing is stored yet. */
export function beginEvidence(
  input: Pick<ChatInput, 'chain' | 'stream'>,
  surface: Surface,
  { caller, requestId, endpoint, bodySha256 }: Pick<RequestContext, 'caller' | 'requestId' | 'endpoint' | 'bodySha256'>,
  clock: Clock,
): Evidence {
  const nowMs = clock.now()
  return {
    bundleId: newBundleId(nowMs),
    requestId,
    endpoint,
    operation: surface.operation,
    tenantId: caller.tenantId,
    keyId: caller.keyId,
    userId: caller.userId,
    payerId: caller.userId,
    startedAtMs: nowMs,
    requestSha256: bodySha256,
    requestedModel: input.chain.models?.[0]?.model ?? input.chain.model ?? null,
    index: null,
    streamed: input.stream,
    policy: undefined,
    inspectors: { canary: false, dlp: false, pii: false, policy: false, prompt_shield: false },
    incidents: [],
    documentsRetrieved: 0,
    attempts: NO_ATTEMPTS,
    entitlements: [],
    heads: [],
    surface,
    startedMonotonicMs: clock.monotonic(),
    withRefusal: {},
    isWritten: false,
  }
}

const NO_ATTEMPTS: Evidence['attempts'] = Object.freeze([])

/**
 * Adds the evidence entry of a request to the records of its commit. No other entry is written for the request
 * afterwards.
 */
export function addEntry(records: LedgerRecords, evidence: Evidence, end: RequestEnd): void {
  evidence.isWritten = true
  const entry = toRequestEntry(evidence, end)
  records.evidence = records.evidence ? [...records.evidence, entry] : [entry]
}

/**
 * Commits the entry of a request with its other records. If the commit fails, clears the bundle id, so that the
 * response does not refer to a receipt.
 */
export async function commitEntry(records: LedgerRecords, context: RequestIds, ledger: Ledger): Promise<void> {
  try {
    await ledger.commit(records)
  } catch (error) {
    context.bundleId = undefined
    throw error
  }
}

/**
 * Makes a rejection or failure durable before the caller learns of it, and sets the bundle id in `context`. Writes
 * nothing if the entry is already in a commit, or another daemon took over the request. Also writes nothing if an
 * overloaded gateway rejected the request before any model call or guard finding.
 * @returns the error for the caller: `error`, or the reason why a denial could not be recorded
 */
export async function recordRefusal(
  error: unknown,
  evidence: Evidence,
  context: RequestIds & Pick<RequestContext, 'caller'>,
  { ledger, providers, clock, log }: { ledger: Ledger; providers: ProviderRegistry; clock: Clock; log: Log },
): Promise<unknown> {
  if (evidence.isWritten || error instanceof ClaimLostError) return error
  if (isOverloadOnly(error, evidence)) {
    context.bundleId = undefined
    return error
  }
  context.bundleId = evidence.bundleId
  if (evidence.entitlements.length === 0) evidence.requestedModel = knownName(evidence, context.caller, providers)
  const isDenied = isDenial(error)
  const errorBody = isOfClient(error) ? undefined : toErrorBody(error, evidence, context)
  const records = evidence.withRefusal
  addEntry(records, evidence, {
    atMs: clock.now(),
    latencyMs: Math.round(clock.monotonic() - evidence.startedMonotonicMs),
    result: isDenied ? 'denied' : 'failure',
    status: errorBody?.status ?? CLIENT_LEFT_STATUS,
    error: errorWord(error),
    responseSha256: errorBody?.sha256 ?? null,
    answered: undefined,
  })
  try {
    await commitEntry(records, context, ledger)
    return error
  } catch (cause) {
    if (isDenied) return cause
    // The caller still gets the models' error, including its Retry-After.
    log.error({ error: cause, request_id: evidence.requestId }, 'the evidence of a failed request could not be stored')
    return error
  }
}

/**
 * An overloaded gateway must not commit an entry for each rejected request. An entry is written only if a model was
 * called, or a guard found something, before the rejection.
 */
const isOverloadOnly = (error: unknown, { entitlements, incidents }: Evidence): boolean =>
  error instanceof GatewayError && error.code === 'OVERLOADED' && entitlements.length === 0 && incidents.length === 0

/**
 * Returns the name of a model that was not called, in a form that may be recorded. Other text from the caller must not
 * enter the evidence. The result is the full name if provider, key or policy names the model. It is `<provider>/*` if
 * the provider accepts any name, and null for an unknown model.
 */
function knownName(
  { requestedModel, policy }: Evidence,
  { settings }: Caller,
  providers: ProviderRegistry,
): string | null {
  const found = requestedModel === null ? undefined : providers.find(requestedModel)
  if (requestedModel === null || !found) return null
  const { allowedModels = [], deniedModels = [] } = policy?.document ?? {}
  const isNamed =
    found.provider.models !== undefined ||
    [settings.allowedModels, allowedModels, deniedModels].some((names) => names.includes(requestedModel))
  return isNamed ? requestedModel : `${found.provider.name}/*`
}

/** Returns the error response as the HTTP layer will render it. */
export function toErrorBody(
  error: unknown,
  { surface }: Pick<Evidence, 'surface'>,
  ids: RequestIds,
): { status: number; body: string; sha256: string } {
  const { status, body } = toErrorReply(error, surface.errors, ids, () => {})
  const text = JSON.stringify(body)
  return { status, body: text, sha256: hash('sha256', text, 'hex') }
}

/** The status that proxies log for a disconnected client. It is never sent. */
export const CLIENT_LEFT_STATUS = 499

export const isOfClient = (error: unknown): boolean => error instanceof RequestAborted && error.by === 'client'

/** Returns an error code that contains no content of the request. */
export function errorWord(error: unknown): NonNullable<RequestEnd['error']> {
  if (error instanceof GatewayError) return error.code
  if (error instanceof RequestAborted) return error.by === 'client' ? CLIENT_LEFT : 'SHUTDOWN'
  return 'INTERNAL_ERROR'
}

/** Whether a rule rejected the request. False if the models failed. */
const isDenial = (error: unknown): boolean => error instanceof GatewayError && DENIALS.has(error.code)

const DENIALS: ReadonlySet<GatewayError['code']> = new Set([
  'INSUFFICIENT_PERMISSIONS',
  'USAGE_BY_MODEL_REQUIRED',
  'COMPLETION_LIMIT_EXCEEDED',
  'USAGE_BY_MODEL_BUDGET_EXCEEDED',
  'CONTENT_BLOCKED',
  'PROMPT_BLOCKED',
  'ENTITLEMENT_REFUSED',
])
