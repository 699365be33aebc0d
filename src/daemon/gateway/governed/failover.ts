// Tries the models of a chain until one answers. This file is long, because retries, failover and their limits depend
// on each other.
import { GatewayError } from '../../../shared/errors.ts'
import { FIRST_TOKEN_TIMEOUT_MS } from '../../../shared/spec-limits.ts'
import type { Clock } from '../../../shared/time.ts'
import type { CacheUse } from '../../../shared/wire/cache.ts'
import type { AttemptReason, FailoverAttempt } from '../../../shared/wire/chat.ts'
import type { Breaker } from '../../models/breaker.ts'
import { type CoolDowns, isOfOneKey } from '../../models/cool-down.ts'
import {
  type Entitle,
  isCallersFault,
  isTrigger,
  mayPass,
  type OnHead,
  type ProviderCall,
  ProviderError,
  type ProviderHead,
} from '../../models/provider.ts'
import type { Gates } from '../../platform/concurrency/gates.ts'
import type { Caller } from '../../platform/http/caller.ts'
import type { RequestTrace } from '../../platform/http/observed.ts'
import { RequestAborted } from '../../platform/http/request-aborted.ts'
import type { Log } from '../../platform/log.ts'
import type { Entitlement } from '../../records/evidence/entitlement.ts'
import { type Attempt, type Chain, modelsOf, type Pool } from './chain.ts'
import type { Stage } from './trail.ts'

/** The pause before a retry, unless Retry-After is longer. */
export const RETRY_PAUSE_MS = 250
/** A model that sends a longer Retry-After is not retried, because a fallback answers earlier. */
export const RETRY_AFTER_MAX_SECONDS = 2
/** A retry starts at most this long after the first call. A model that is silent for longer has stalled. */
export const RETRY_WITHIN_MS = FIRST_TOKEN_TIMEOUT_MS.default
/** Transient statuses: the server may answer the next call. */
const TRANSIENT_STATUSES: ReadonlySet<number | undefined> = new Set([500, 502, 503])

/** A result that has begun. The gateway must no longer try another model. */
export type Opened<Begun> = {
  attempt: Attempt
  /** All attempts of the chain so far. The last attempt produced the result. */
  attempts: readonly FailoverAttempt[]
  heads: readonly (ProviderHead | undefined)[]
  firstTokenMs: number
  begun: Begun
  /** How the answer cache was used. Undefined if the request did not ask for the cache. */
  cache?: CacheUse
  /**
   * Ends the call and frees the provider's slot. Pass the failure, or undefined after a complete result. Further calls
   * have no effect.
   */
  close(failure: unknown): void
}

export type Failover = {
  breaker: Breaker
  /** Targets of names, and keys of providers, that must not be called for some time. */
  coolDowns: CoolDowns
  /** One gate per provider. Tenants take turns in the gate, and so do the keys of a tenant. */
  providerGates: Gates
  /** The number of retries of a model before the gateway tries the next model. */
  sameModelRetries: number
}

export type FailoverDeps = { clock: Clock; log: Log; failover: Failover }

/** The timeouts, entitlement and callbacks of one attempt. */
export type AttemptTerms = Pick<ProviderCall, 'timeouts'> & {
  entitle: Entitle
  onHead: OnHead
  /** Call this when the first output has arrived, which shows that the model is healthy. */
  onFirstOutput(): void
  /** Sets the function that ends the call. This function runs if the attempt fails, and when the result is closed. */
  onClose(end: () => void): void
}

/** One request to a chain of models. */
export type ChainRun<Begun> = {
  chain: Chain
  caller: Pick<Caller, 'tenantId' | 'keyId'>
  requestId: string
  /**
   * Calls one model. Resolves at the commit point.
   * @throws ProviderError if another model may be tried
   */
  begin(attempt: Attempt, terms: AttemptTerms): Promise<Begun>
  /** Creates an attempt's entitlement. @param at index of the attempt in the chain's attempts */
  entitle(attempt: Attempt, at: number, created: (entitlement: Entitlement) => void): Entitle
  /** The name of the operation, and the trace of the request if the operator collects traces. */
  operation: string
  trace?: RequestTrace | undefined
  /** Cleans the provider's own message about a failure. Returns undefined if nothing may be shown. */
  clean(said: string): string | undefined
  signal: AbortSignal
}

/** A run, and its attempts so far. Each attempt is added when it ends. All three lists use the same indexes. */
type Run<Begun> = ChainRun<Begun> & {
  attempts: FailoverAttempt[]
  /** Undefined if the attempt received no HTTP response. */
  heads: (ProviderHead | undefined)[]
  entitlements: (Entitlement | undefined)[]
}

/**
 * Tries the models of the chain in order until one reaches its commit point. Each model has its own timeouts. Time in
 * the provider's queue does not count towards the timeouts. If the first model rejects the request, the rejection is
 * returned. If an earlier model failed, a rejection counts as one more failure. A prompt that is too long for one model
 * is sent to the next model, regardless of the triggers. A request that needs a feature of some providers skips the
 * models without it. A model that rejected the request is not called again with
 * another of its keys.
 *
 * A name, or a provider with several keys, has several targets. If a failure concerns one key, the next target of the
 * same name is tried, regardless of the triggers. Targets with the same priority share the time limits of one attempt.
 *
 * The facts contain every attempt, even if all attempts failed. The refusal is a GatewayError if no model of the chain
 * answered, the request itself is invalid, or the last provider is overloaded; otherwise the signal's reason.
 */
export async function runChain<Begun>(request: ChainRun<Begun>, deps: FailoverDeps): Promise<Stage<Opened<Begun>>> {
  const { chain, caller, requestId, begin, entitle, operation, trace, clean, signal } = request
  const facts: Pick<Run<Begun>, 'attempts' | 'heads' | 'entitlements'> = { attempts: [], heads: [], entitlements: [] }
  const { attempts, heads, entitlements } = facts
  // Lists each member explicitly, because a spread of closures takes microseconds.
  const run: Run<Begun> = {
    chain,
    caller,
    requestId,
    begin,
    entitle,
    operation,
    trace,
    clean,
    signal,
    attempts,
    heads,
    entitlements,
  }
  try {
    return { facts, value: await tryChain(run, deps) }
  } catch (error) {
    return { facts, refusal: { error } }
  }
}

async function tryChain<Begun>(run: Run<Begun>, deps: FailoverDeps): Promise<Opened<Begun>> {
  const { chain, attempts } = run
  const failures: ProviderError[] = []
  /** The models that rejected the request itself, with their rejections. */
  const rejections = new Map<string, ProviderError>()
  /** The providers that had no free slot. Their other keys would only cost another wait. */
  const full = new Set<string>()
  // Set while no attempt has ended in another way since.
  let overload: { error: unknown } | undefined
  let pool: { of: Pool; startedMs: number } | undefined
  // Set if only the other targets of the same entry may still be tried.
  let onlyEntry: object | undefined
  for (const attempt of modelsToTry(run, deps)) {
    if (onlyEntry && attempt.pool?.entry !== onlyEntry) continue
    // Another key of the model would reject the request too.
    if (rejections.has(attempt.modelId) || full.has(attempt.provider.name)) continue
    const startedMs = deps.clock.monotonic()
    if (attempt.pool !== pool?.of) pool = attempt.pool && { of: attempt.pool, startedMs }
    const timeouts = remaining(attempt, pool ? startedMs - pool.startedMs : 0)
    if (!timeouts) continue
    let result: Opened<Begun> | Failed
    try {
      result = await tryModel(attempt, timeouts, run, deps)
      if ('failure' in result && pool) pool.startedMs += result.queuedMs
      if ('failure' in result && !hasOtherTarget(attempt, run, deps))
        result = await retryModel(attempt, timeouts, result, startedMs, run, deps)
    } catch (error) {
      if (!isOverloaded(error)) throw error
      // The next model's provider may have capacity.
      overload = { error }
      full.add(attempt.provider.name)
      if (pool) pool.startedMs += deps.clock.monotonic() - startedMs
      continue
    }
    overload = undefined
    if (!('failure' in result)) return result
    const { failure } = result
    failures.push(failure)
    if (isCallersFault(failure)) {
      rejections.set(attempt.modelId, failure)
      // A fallback's rejection must not hide that the earlier models were down.
      if (failure.reason === 'context_length' || failure.lacksFeature || othersPrecede(attempt, run)) continue
      throw rejected(attempt.modelId, failure)
    }
    if (isTrigger(failure.reason, chain.triggers)) onlyEntry = undefined
    else if (attempt.pool && isOfOneKey(failure.reason)) onlyEntry = attempt.pool.entry
    else break
  }
  // The request counts as rejected only if every model of the chain rejected it, because a skipped model might have
  // answered.
  const [first] = rejections
  if (first && modelsOf(chain).every(({ modelId }) => rejections.has(modelId))) throw rejected(...first)
  if (overload) throw overload.error
  throw exhausted(attempts, failures)
}

/** Whether another model comes before this attempt: it failed, was skipped, or is cooling down and may be called last. */
function othersPrecede<Begun>(attempt: Attempt, { chain, attempts }: Run<Begun>): boolean {
  const isOther = (modelId: string) => modelId !== attempt.modelId
  const earlier = chain.attempts.slice(0, chain.attempts.indexOf(attempt))
  return attempts.some(({ model }) => isOther(model)) || earlier.some(({ modelId }) => isOther(modelId))
}

/** Returns the time limits of an attempt after its pool has used a part of them, or undefined if no time is left. */
function remaining({ timeouts }: Attempt, usedMs: number): ProviderCall['timeouts'] | undefined {
  if (usedMs === 0) return timeouts
  const { attemptMs, firstTokenMs, stallMs } = timeouts
  if (usedMs >= Math.min(attemptMs, firstTokenMs)) return undefined
  return { attemptMs: attemptMs - usedMs, firstTokenMs: firstTokenMs - usedMs, stallMs }
}

/** Whether another target of the pool follows and may be called. A retry of the same target would only take time. */
function hasOtherTarget<Begun>(attempt: Attempt, { chain, caller }: Run<Begun>, { failover }: FailoverDeps): boolean {
  if (!attempt.pool) return false
  const { breaker, coolDowns } = failover
  return chain.attempts
    .slice(chain.attempts.indexOf(attempt) + 1)
    .some(
      ({ pool, slot }) =>
        pool === attempt.pool && coolDowns.endOf(slot) === undefined && !breaker.isDown(caller.tenantId, slot),
    )
}

/**
 * Yields the models of the chain in order, without those that are down or cooling down. At the end, yields the skipped
 * models whose probe has become due in the meantime, and the target whose cool-down ends first, because the alternative
 * is an error.
 */
function* modelsToTry<Begun>(
  run: Run<Begun>,
  { log, failover: { breaker, coolDowns } }: FailoverDeps,
): Generator<Attempt, void, void> {
  const { chain, caller } = run
  const downFor = ({ slot }: Attempt) => breaker.skips(caller.tenantId, slot, chain.triggers)
  const last = chain.attempts.at(-1)
  const skipped: Attempt[] = []
  let cooling: { attempt: Attempt; endMs: number } | undefined
  for (const attempt of chain.attempts) {
    const endMs = attempt.pool && coolDowns.endOf(attempt.slot)
    if (endMs !== undefined) {
      if (!cooling || endMs < cooling.endMs) cooling = { attempt, endMs }
      continue
    }
    // The last model is tried even if its breaker is open, because the alternative is an error.
    const reason = attempt !== last && downFor(attempt)
    if (reason) {
      addAttempt(run, attempt, { reason: 'circuit_open', latencyMs: 0 }, log, { circuit_reason: reason })
      skipped.push(attempt)
    } else yield attempt
  }
  for (const attempt of skipped) if (!downFor(attempt)) yield attempt
  if (cooling) yield cooling.attempt
}

/**
 * Retries a model after a failure that is probably transient. The retries share the time limits of the first call.
 * @param startedMs when the first call began
 * @returns the last failure if no retry answered
 */
async function retryModel<Begun>(
  attempt: Attempt,
  timeouts: ProviderCall['timeouts'],
  first: Failed,
  startedMs: number,
  run: Run<Begun>,
  deps: FailoverDeps,
): Promise<Opened<Begun> | Failed> {
  const { clock, failover } = deps
  const { attemptMs, firstTokenMs, stallMs } = timeouts
  const limitMs = Math.min(attemptMs, firstTokenMs, RETRY_WITHIN_MS)
  let last = first
  for (let retriesLeft = failover.sameModelRetries; retriesLeft > 0; retriesLeft--) {
    // A model that is down gets only probes.
    if (!mayHelp(last, run.chain) || failover.breaker.isDown(run.caller.tenantId, attempt.slot)) break
    const pauseMs = Math.max(RETRY_PAUSE_MS, 1000 * (last.failure.retryAfterSeconds ?? 0))
    const usedMs = clock.monotonic() - startedMs + pauseMs
    if (usedMs >= limitMs) break
    await pause(pauseMs, clock, run.signal)
    const left = { attemptMs: attemptMs - usedMs, firstTokenMs: firstTokenMs - usedMs, stallMs }
    const result = await tryModel(attempt, left, run, deps)
    if (!('failure' in result)) return result
    last = result
  }
  return last
}

/**
 * Whether a retry of the same model may succeed. Timeouts are excluded, because a retry would multiply the wait. An
 * answer that broke after its first output is excluded, because generating it again takes as long as a fallback.
 */
function mayHelp({ failure, hadOutput }: Failed, { triggers }: Chain): boolean {
  const { reason, upstreamStatus, retryAfterSeconds, alarm } = failure
  if (hadOutput || alarm || !isTrigger(reason, triggers)) return false
  if (reason === 'rate_limit') return retryAfterSeconds !== undefined && retryAfterSeconds <= RETRY_AFTER_MAX_SECONDS
  if ((retryAfterSeconds ?? 0) > RETRY_AFTER_MAX_SECONDS) return false
  return reason === 'connection_error' || (reason === 'server_error' && TRANSIENT_STATUSES.has(upstreamStatus))
}

/**
 * A failed call. `hadOutput`: whether the model had already sent a part of its answer. `queuedMs`: the time in the
 * provider's queue before the call.
 */
type Failed = { failure: ProviderError; hadOutput: boolean; queuedMs: number }

async function tryModel<Begun>(
  attempt: Attempt,
  timeouts: ProviderCall['timeouts'],
  run: Run<Begun>,
  { clock, log, failover: { breaker, coolDowns, providerGates } }: FailoverDeps,
): Promise<Opened<Begun> | Failed> {
  const { caller, attempts, heads, entitlements, begin, entitle, signal } = run
  const { tenantId, keyId } = caller
  const { provider, slot } = attempt
  const enteredMs = clock.monotonic()
  try {
    const turn = providerGates.enter(provider.name, { tenantId, keyId }, signal)
    if (turn) await turn
  } catch (error) {
    if (isOverloaded(error)) {
      const latencyMs = Math.round(clock.monotonic() - enteredMs)
      addAttempt(run, attempt, { reason: 'overloaded', latencyMs }, log)
    }
    throw error
  }
  const startedMs = clock.monotonic()
  const at = attempts.length
  const call = run.trace?.beginCall({ operation: run.operation, provider: provider.name, model: attempt.model })
  let firstTokenMs = 0
  let endCall = () => {}
  let hadOutput = false
  try {
    const entitleCall = entitle(attempt, at, (entitlement) => {
      entitlements[at] = entitlement
    })
    const terms: AttemptTerms = {
      timeouts,
      entitle: call ? withHeaders(entitleCall, call.headers) : entitleCall,
      onHead(head) {
        heads[at] = head
      },
      onFirstOutput() {
        hadOutput = true
        firstTokenMs = Math.round(clock.monotonic() - startedMs)
        breaker.firstToken(tenantId, slot)
      },
      onClose(end) {
        endCall = end
      },
    }
    const begun = await begin(attempt, terms)
    if (attempt.pool) coolDowns.answered(slot, startedMs)
    addAttempt(run, attempt, { latencyMs: firstTokenMs }, log)
    let isClosed = false
    return {
      attempt,
      attempts,
      heads,
      firstTokenMs,
      begun,
      close(failure) {
        if (isClosed) return
        isClosed = true
        endCall()
        call?.end(failure === undefined ? undefined : reasonOf(failure))
        providerGates.leave(provider.name)
        if (failure === undefined) breaker.succeeded(tenantId, slot)
        else if (failure instanceof ProviderError) breaker.failed(tenantId, slot, failure.reason)
      },
    }
  } catch (error) {
    endCall()
    providerGates.leave(provider.name)
    const latencyMs = Math.round(clock.monotonic() - startedMs)
    const failure = signal.aborted ? signal.reason : error
    const reason = signal.aborted ? 'aborted' : reasonOf(error)
    call?.end(reason)
    if (!(failure instanceof ProviderError)) {
      addAttempt(run, attempt, { reason, latencyMs }, log)
      throw failure
    }
    breaker.failed(tenantId, slot, failure.reason)
    if (attempt.pool) coolDowns.failed(slot, failure)
    // The message may quote the output, which is not kept here, so it could not be cleaned.
    const message = hadOutput ? undefined : messageOf(failure, run.clean)
    const head = heads[at]
    if (head && message !== undefined) heads[at] = { ...head, message }
    addAttempt(run, attempt, { reason, latencyMs, alarm: failure.alarm }, log, { detail: failure.message })
    return { failure, hadOutput, queuedMs: startedMs - enteredMs }
  }
}

/** The call carries these headers, which continue the request's trace at the provider. */
const withHeaders =
  (entitle: Entitle, headers: readonly string[]): Entitle =>
  (model, body) =>
    Object.assign(entitle(model, body), { headers })

/** Returns the provider's own message about a failure, cleaned. */
export const messageOf = (failure: ProviderError, clean: (said: string) => string | undefined): string | undefined =>
  failure.said === undefined ? undefined : clean(failure.said)

function reasonOf(error: unknown): AttemptReason {
  if (error instanceof ProviderError) return error.reason
  if (error instanceof RequestAborted) return 'aborted'
  return error instanceof GatewayError && error.code === 'ENTITLEMENT_REFUSED'
    ? 'entitlement_refused'
    : 'internal_error'
}

/** @throws the signal's reason */
function pause(ms: number, clock: Clock, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.reject(signal.reason)
  return new Promise((resolve, reject) => {
    const timer = clock.after(ms, () => {
      signal.removeEventListener('abort', onAbort)
      resolve()
    })
    function onAbort(): void {
      timer.cancel()
      reject(signal.reason)
    }
    signal.addEventListener('abort', onAbort, { once: true })
  })
}

type EndedAttempt = { reason?: AttemptReason; latencyMs: number; alarm?: boolean }

/**
 * Adds an attempt to the list and logs it. An attempt without `reason` served the request. Serving attempts are logged
 * at `debug`, because there are many.
 */
function addAttempt(
  { requestId, attempts, heads }: Pick<Run<unknown>, 'requestId' | 'attempts' | 'heads'>,
  { modelId: model, provider, requested, slot }: Attempt,
  { reason, latencyMs: latency_ms, alarm }: EndedAttempt,
  log: Log,
  more: object = {},
): void {
  const head = heads[attempts.length]
  const facts = {
    request_id: requestId,
    model,
    requested_model: requested === model ? undefined : requested,
    target: slot === model ? undefined : slot,
    provider: provider.name,
    provider_status: head?.status,
    provider_request_id: head?.requestId,
    latency_ms,
  }
  if (reason === undefined) {
    attempts.push({ model, status: 'served', latency_ms })
    log.debug(facts, 'model attempt served')
    return
  }
  attempts.push({ model, status: 'failed', reason, latency_ms })
  // A disconnected client is not a failure of the model.
  const level = alarm ? 'error' : reason === 'aborted' ? 'info' : 'warn'
  log[level]({ ...facts, reason, ...more }, 'model attempt failed')
  if (head?.message !== undefined) log.debug({ ...facts, provider_message: head.message }, PROVIDER_MESSAGE)
}

/** The log line that contains the provider's own message, cleaned. */
export const PROVIDER_MESSAGE = 'message of the provider'

const isOverloaded = (error: unknown): boolean => error instanceof GatewayError && error.code === 'OVERLOADED'

function rejected(modelId: string, cause: ProviderError): GatewayError {
  return new GatewayError('PROVIDER_REJECTED', `${modelId}: ${cause.message}`, {
    cause,
    extra: { reason: cause.reason },
  })
}

/**
 * Returns 429 if every failure was a rate limit, otherwise 502. The body lists the attempts. A 502 has a Retry-After if
 * every model that was tried sent one.
 */
function exhausted(attempts: FailoverAttempt[], failures: ProviderError[]): GatewayError {
  const last = attempts.at(-1) as FailoverAttempt
  const rateLimited = attempts.every(({ reason }) => reason === 'rate_limit')
  const waits = failures.flatMap(({ retryAfterSeconds }) => retryAfterSeconds ?? [])
  const isToWait = waits.length > 0 && (rateLimited || waits.length === failures.length)
  return new GatewayError(
    rateLimited ? 'ALL_MODELS_RATE_LIMITED' : 'ALL_MODELS_FAILED',
    `All ${attempts.length} model attempt(s) failed (last: ${last.model} — ${last.reason})`,
    {
      cause: failures.at(-1),
      extra: { attempts },
      retryAfterSeconds: isToWait ? Math.min(...waits) : undefined,
      retryable: failures.length > 0 && !failures.some(mayPass) ? false : undefined,
    },
  )
}
