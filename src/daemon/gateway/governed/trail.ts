// The facts of a governed request, for its receipt and its other records.
import { newBundleId } from '../../../shared/ids.ts'
import type { Clock } from '../../../shared/time.ts'
import type { ErrorShape, RequestContext } from '../../platform/http/route.ts'
import type { RequestFacts } from '../../records/evidence/request-entry.ts'
import type { LedgerRecords } from '../../records/ledger/records.ts'
import type { GuardIncident } from '../../safety/incidents/incident.ts'
import type { AppliedPolicy } from '../../safety/policies/policies.ts'

/**
 * The facts of a request so far. A trail is immutable: each stage returns the facts that it found, and `withFacts`
 * returns a new trail with these facts. Each request has exactly one log entry. `finish` creates this log entry from
 * the trail.
 */
export type Trail = Readonly<Omit<RequestFacts, 'policy' | 'incidents'>> & {
  readonly policy: AppliedPolicy | undefined
  readonly incidents: readonly GuardIncident[]
  /** The rows of incidents, and their events. They become durable together with the request's entry. */
  readonly found: readonly Found[]
  /** Called once the request's records are durable. */
  readonly whenDurable: readonly (() => void)[]
  /** The format of the request's errors. */
  readonly errors: ErrorShape
  readonly startedMonotonicMs: number
}

export type Found = Pick<LedgerRecords, 'incidents' | 'events'>

/** The facts that a stage adds. `incidents`, `found` and `whenDurable` are appended; other facts are replaced. */
export type Facts = Partial<
  Pick<
    Trail,
    | 'payerId'
    | 'index'
    | 'policy'
    | 'inspectors'
    | 'incidents'
    | 'found'
    | 'whenDurable'
    | 'documentsRetrieved'
    | 'unreadFiles'
    | 'attempts'
    | 'entitlements'
    | 'heads'
    | 'cacheHit'
  >
>

/**
 * The result of a stage: its value, or the error that ends the request. Both include the facts that are known at that
 * point.
 */
export type Stage<T> =
  | { facts: Facts; value: T; refusal?: undefined }
  | { facts: Facts; value?: undefined; refusal: { error: unknown } }

/** Begins the trail of a well-formed request. Nothing is stored yet. */
export function beginTrail(
  { operation, errors }: Pick<Trail, 'operation' | 'errors'>,
  { requestedModel, streamed, tag }: Pick<Trail, 'requestedModel' | 'streamed' | 'tag'>,
  { caller, requestId, endpoint, bodySha256 }: Pick<RequestContext, 'caller' | 'requestId' | 'endpoint' | 'bodySha256'>,
  clock: Clock,
): Trail {
  const nowMs = clock.now()
  return {
    bundleId: newBundleId(nowMs),
    requestId,
    endpoint,
    operation,
    tenantId: caller.tenantId,
    keyId: caller.keyId,
    userId: caller.userId,
    payerId: caller.userId,
    startedAtMs: nowMs,
    requestSha256: bodySha256,
    requestedModel,
    index: null,
    streamed,
    tag,
    policy: undefined,
    inspectors: NO_INSPECTORS,
    incidents: NONE,
    documentsRetrieved: 0,
    unreadFiles: undefined,
    attempts: NONE,
    entitlements: NONE,
    heads: NONE,
    cacheHit: undefined,
    found: NONE,
    whenDurable: NONE,
    errors,
    startedMonotonicMs: clock.monotonic(),
  }
}

const NONE: readonly never[] = Object.freeze([])

const NO_INSPECTORS: Trail['inspectors'] = Object.freeze({
  canary: false,
  dlp: false,
  pii: false,
  policy: false,
  prompt_shield: false,
})

/**
 * Returns the trail with more facts. Copies each member explicitly: spreading objects of this size takes ten times as
 * long.
 */
export function withFacts(trail: Trail, facts: Facts): Trail {
  return {
    bundleId: trail.bundleId,
    requestId: trail.requestId,
    endpoint: trail.endpoint,
    operation: trail.operation,
    tenantId: trail.tenantId,
    keyId: trail.keyId,
    userId: trail.userId,
    payerId: facts.payerId ?? trail.payerId,
    startedAtMs: trail.startedAtMs,
    requestSha256: trail.requestSha256,
    requestedModel: trail.requestedModel,
    index: facts.index ?? trail.index,
    streamed: trail.streamed,
    tag: trail.tag,
    policy: facts.policy ?? trail.policy,
    inspectors: facts.inspectors ?? trail.inspectors,
    incidents: appended(trail.incidents, facts.incidents),
    documentsRetrieved: facts.documentsRetrieved ?? trail.documentsRetrieved,
    unreadFiles: facts.unreadFiles ?? trail.unreadFiles,
    attempts: facts.attempts ?? trail.attempts,
    entitlements: facts.entitlements ?? trail.entitlements,
    heads: facts.heads ?? trail.heads,
    cacheHit: facts.cacheHit ?? trail.cacheHit,
    found: appended(trail.found, facts.found),
    whenDurable: appended(trail.whenDurable, facts.whenDurable),
    errors: trail.errors,
    startedMonotonicMs: trail.startedMonotonicMs,
  }
}

const appended = <T>(list: readonly T[], more: readonly T[] = NONE): readonly T[] =>
  more.length === 0 ? list : list.length === 0 ? more : [...list, ...more]
