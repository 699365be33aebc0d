// The stage between the checks of a request and the call of a model: the answer cache (decision 0039).
import type { IncomingHttpHeaders } from 'node:http'
import { invalidField } from '../../../shared/errors.ts'
import { CACHE_ENTRY_BYTES, CACHE_WAIT_MS } from '../../../shared/spec-limits.ts'
import { CACHE_HEADER, CACHE_REQUESTS, type CacheRequest, type CacheUse } from '../../../shared/wire/cache.ts'
import type { CacheEntryRow } from '../../platform/db/tables.ts'
import type { RequestContext } from '../../platform/http/route.ts'
import { entitlementRefused } from '../../records/evidence/entitlement.ts'
import type { RecordedCacheHit } from '../../records/evidence/request-entry.ts'
import type { AnswerCache } from '../cache/answer-cache.ts'
import type { CachedAnswer } from '../cache/cached-answer.ts'
import type { Landed, Lead } from '../cache/flights.ts'
import type { Attempt } from './chain.ts'
import type { GovernedDeps } from './deps.ts'
import type { Opened } from './failover.ts'
import type { GovernedInput } from './input.ts'
import type { Caching, Delivery, Operation, Recording, Running } from './operation.ts'
import type { Stage } from './trail.ts'

/** The part of one request that concerns the cache. */
export type CacheTurn<Begun> = {
  /** Returns an earlier answer, or calls the model. */
  open(callModel: () => Promise<Stage<Opened<Begun>>>): Promise<Stage<Opened<Begun>>>
  /** Returns the row for the commit of the request. Undefined if its answer is not to be stored. */
  toRow(delivery: Delivery): Promise<CacheEntryRow | undefined>
  /** Call this when the request is durable. Requests that wait for its answer then get it. */
  committed(): void
  /** Call this when the request has ended. Requests that still wait for its answer call the model themselves. */
  end(): void
}

const HEADER = CACHE_HEADER.toLowerCase()

/** Returns the value of the request's cache header. @throws VALIDATION_ERROR */
export function cacheRequestOf(headers: IncomingHttpHeaders): CacheRequest | undefined {
  const asked = headers[HEADER]
  if (asked === undefined) return undefined
  const known = CACHE_REQUESTS.find((one) => one === asked)
  if (known) return known
  throw invalidField(
    CACHE_HEADER,
    `The header ${CACHE_HEADER} must be one of ${CACHE_REQUESTS.join(', ')}. Omit it to use the default of the key and the policy.`,
    asked,
  )
}

/** Whether the answer came from the cache, so that no model was called. */
export const isFromCache = ({ cache }: Pick<Opened<unknown>, 'cache'>): boolean =>
  cache?.status === 'hit' || cache?.status === 'coalesced'

/**
 * Decides whether a request uses the cache. Returns undefined unless its header, its key or its policy asks for the
 * cache, so that other requests do no work.
 */
export function cacheTurnOf<Input extends GovernedInput, Prepared, Begun>(
  { caching, path }: Pick<Operation<Input, Prepared, Begun>, 'caching' | 'path'>,
  running: Running<Input, Prepared>,
  deps: GovernedDeps,
): CacheTurn<Begun> | undefined {
  if (!caching) return undefined
  const { context, screened } = running
  const asked = cacheRequestOf(context.request.headers)
  const { mode } = screened.policy.document.cache
  const isWanted = asked !== undefined || mode === 'on' || screened.caller.settings.cacheAnswers
  if (!isWanted || asked === 'off') return undefined
  const { cache } = deps
  if (!cache) return unused('operator', context)
  if (mode === 'off') return unused('policy', context)
  // The results of tools and the content of addresses are not part of the request, so they cannot be part of the key.
  // The provider stores audio only for a short time.
  const { serverTools = [], optionalTools, addresses = false } = screened.input.uses ?? {}
  const { required = [] } = screened.input.options?.native ?? {}
  if (serverTools.length > 0 || optionalTools !== undefined || addresses || required.length > 0)
    return unused('request', context)
  return createTurn({ caching, path, running, cache, isRefresh: asked === 'refresh' }, deps)
}

/** Reports that the cache was not used. */
function unused<Begun>(why: NonNullable<CacheUse['why']>, context: Responding): CacheTurn<Begun> {
  return {
    open: async (callModel) => withUse(await callModel(), { status: 'off', why }, context),
    toRow: () => Promise.resolve(undefined),
    committed() {},
    end() {},
  }
}

type TurnOptions<Input extends GovernedInput, Prepared, Begun> = {
  caching: Caching<Input, Prepared, Begun>
  path: string
  running: Running<Input, Prepared>
  cache: AnswerCache
  isRefresh: boolean
}

function createTurn<Input extends GovernedInput, Prepared, Begun>(
  { caching, path, running, cache, isRefresh }: TurnOptions<Input, Prepared, Begun>,
  deps: GovernedDeps,
): CacheTurn<Begun> {
  const { clock, log } = deps
  const { context, screened, bundleId, signal } = running
  const { caller, policy, chain } = screened
  const { tenantId } = caller
  // Only the first model's answers are stored. A fallback's answer would hide that the first model is available again.
  const [first] = chain.attempts
  const startedMs = clock.monotonic()
  let keyHash = ''
  let lead: Lead | undefined
  let recording: Recording<Begun> | undefined
  let answer: CachedAnswer | undefined

  /** Returns an earlier answer, if any. Otherwise this request leads, unless a leader exists that needs too long. */
  async function findAnswer(): Promise<Landed> {
    // The time is shared by all leaders that this request follows.
    const untilMs = clock.monotonic() + CACHE_WAIT_MS
    for (;;) {
      const following = cache.flights.follow(keyHash, signal, untilMs - clock.monotonic())
      if (!following) break
      const outcome = await following
      if (outcome === 'late') return undefined
      if (outcome) return outcome
    }
    // Leads before it reads the store, so that a burst of identical requests reads the store once.
    lead = cache.flights.lead(keyHash)
    const stored = await cache.find(tenantId, keyHash)
    const found = stored && { answer: stored, wasStored: true }
    if (found) lead?.land(found)
    return found
  }

  /** Checks the key once more, as before a call of a model: the request may have waited. */
  async function requireAccepted(): Promise<void> {
    if (policy.document.mode === 'enforce' && !(await deps.isAccepted(caller))) throw entitlementRefused('revoked')
  }

  /** Begins an earlier answer like the answer of a model. */
  function openedFrom(found: NonNullable<Landed>, hit: RecordedCacheHit): Opened<Begun> {
    const { status, ageSeconds: age_s, original } = hit
    return {
      attempt: first,
      attempts: [],
      heads: [],
      firstTokenMs: Math.round(clock.monotonic() - startedMs),
      begun: caching.replay(running, first, found.answer.recorded, deps),
      cache: shownIn(context, { status, age_s, original }),
      close() {},
    }
  }

  return {
    async open(callModel) {
      const material = caching.keyOf(running, first, deps)
      if (material === undefined) return callModel()
      const { modelId, location } = first
      keyHash = await cache.keyHash([tenantId, policy.hash, path, modelId, location, material])
      if (isRefresh) lead = cache.flights.lead(keyHash)
      else {
        const found = await findAnswer()
        if (found) {
          await requireAccepted()
          const cacheHit = toHit(found, clock.now())
          log.debug({ request_id: context.requestId, original: cacheHit.original }, 'answer from the cache')
          return { facts: { cacheHit }, value: openedFrom(found, cacheHit) }
        }
      }
      const called = await callModel()
      const use: CacheUse = { status: isRefresh ? 'refreshed' : 'miss' }
      if (called.refusal || !isSameModel(called.value.attempt, first)) {
        // There is nothing to wait for.
        lead?.land(undefined)
        return withUse(called, use, context)
      }
      recording = caching.record(called.value.begun, CACHE_ENTRY_BYTES)
      const value = { ...called.value, begun: recording.begun }
      return withUse({ ...called, value }, use, context)
    },
    async toRow({ broken, outcome, usage }) {
      if (!recording || broken || outcome !== 'complete') return undefined
      const recorded = recording.complete(usage)
      if (recorded === undefined) return undefined
      answer = { original: bundleId, storedAtMs: clock.now(), recorded }
      return cache.toRow(answer, { tenantId, keyHash, keptDays: policy.document.retentionDays })
    },
    committed() {
      if (answer) lead?.land({ answer, wasStored: false })
    },
    end: () => lead?.land(undefined),
  }
}

/** Several keys of a provider have the same model. */
const isSameModel = (one: Attempt, other: Attempt): boolean =>
  one.modelId === other.modelId && one.location === other.location

function toHit({ answer: { original, storedAtMs }, wasStored }: NonNullable<Landed>, nowMs: number): RecordedCacheHit {
  const ageSeconds = Math.max(0, Math.floor((nowMs - storedAtMs) / 1000))
  return { status: wasStored ? 'hit' : 'coalesced', original, ageSeconds }
}

type Responding = Pick<RequestContext, 'response'>

const withUse = <Begun>(stage: Stage<Opened<Begun>>, cache: CacheUse, context: Responding): Stage<Opened<Begun>> =>
  stage.refusal ? stage : { facts: stage.facts, value: { ...stage.value, cache: shownIn(context, cache) } }

/** Adds the status to the headers of the response, because some interfaces have no field for it. */
function shownIn({ response }: Responding, use: CacheUse): CacheUse {
  // A keep-alive may have sent the head.
  if (!response.headersSent) response.setHeader(CACHE_HEADER, use.status)
  return use
}
