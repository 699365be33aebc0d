// Tries the models of a chain until one answers. This file is long, because retries, failover and their limits depend
// on each other.
import { GatewayError } from '../../../shared/errors.ts'
import type { Clock } from '../../../shared/time.ts'
import type { FailoverAttempt } from '../../../shared/wire/chat.ts'
import type { Breaker } from '../../models/breaker.ts'
import {
  type ChatPart,
  type Entitle,
  isTrigger,
  type OnHead,
  type ProviderCall,
  ProviderError,
  type ProviderHead,
} from '../../models/provider.ts'
import type { Gates } from '../../platform/concurrency/gates.ts'
import type { Caller } from '../../platform/http/caller.ts'
import { RequestAborted } from '../../platform/http/request-aborted.ts'
import type { Log } from '../../platform/log.ts'
import type { Attempt, Chain } from './chain.ts'
import { readAhead } from './read-ahead.ts'

/**
 * With `redundancy.commit: "complete"`, a streamed answer is buffered up to this size. A longer answer is sent before
 * it is complete.
 */
const HELD_ANSWER_BYTES = 1_048_576
/** The pause before a retry of a model that sent no Retry-After. */
export const RETRY_PAUSE_MS = 250

/** An answer that has reached its commit point. No other model may be tried after this point. */
export type OpenAnswer = {
  attempt: Attempt
  /** Every attempt of the chain so far. The last attempt served the request. */
  attempts: FailoverAttempt[]
  firstTokenMs: number
  /** The parts read so far: the first tokens, or the whole answer if it is buffered until complete. */
  firstBatch: readonly ChatPart[]
  /** Yields the batches after the first. @throws ProviderError if the upstream breaks off */
  rest: AsyncIterator<readonly ChatPart[]>
  /** Call this once, after the last read. Pass the failure, or undefined after a complete answer. */
  close(failure: unknown): void
}

export type Failover = {
  breaker: Breaker
  /** One gate per provider. Each key has its own queue in the gate. */
  providerGates: Gates
  /** How often the same model is retried before the next model is tried. */
  sameModelRetries: number
}

export type FailoverDeps = { clock: Clock; log: Log; failover: Failover }

type Asked = Omit<ProviderCall, 'model' | 'timeouts' | 'entitle' | 'onHead'>

/**
 * The state that all attempts of one request share. Each attempt is added to `attempts` when it ends, so the list is
 * also complete after a failure.
 */
type FailoverRun = {
  chain: Chain
  call: Asked
  caller: Pick<Caller, 'tenantId' | 'keyId'>
  requestId: string
  attempts: FailoverAttempt[]
  /** The response heads of the attempts, at the same indexes. Undefined for an attempt without an HTTP response. */
  heads: (ProviderHead | undefined)[]
  /** The output limit to send to a model, and the options that fit within it. */
  boundsOf(attempt: Attempt): Pick<ProviderCall, 'maxTokens' | 'options'>
  /** @param place index of the attempt in `attempts` */
  entitle(attempt: Attempt, place: number): Entitle
  signal: AbortSignal
}

/**
 * Tries the models of the chain in order until one reaches its commit point. A stream commits at its first token. A
 * non-streamed answer commits when it is complete. A stream with `commit: 'complete'` also commits when it is complete,
 * unless it exceeds the buffer limit. Each model has its own timeouts. Time in the provider's queue does not count
 * towards the timeouts. If the first model rejects the request, the caller gets this rejection. If an earlier model has
 * failed, a rejection counts as one more failure. A prompt that is too long for one model is sent to the next model,
 * regardless of the triggers.
 * @throws GatewayError if no model of the chain answered, the request itself is invalid, or the last provider is
 * overloaded; the signal's reason if it was aborted
 */
export async function openAnswer(run: FailoverRun, deps: FailoverDeps): Promise<OpenAnswer> {
  const { chain, caller, attempts } = run
  const failures: ProviderError[] = []
  const last = chain.attempts.at(-1)
  for (const attempt of chain.attempts) {
    const { modelId } = attempt
    const othersFailed = attempts.length > 0
    // The last model is tried even if its breaker is open, because the alternative is an error.
    const downFor = attempt !== last && deps.failover.breaker.skips(caller.tenantId, modelId, chain.triggers)
    if (downFor) {
      addAttempt(run, attempt, { reason: 'circuit_open', latencyMs: 0 }, deps.log, { circuit_reason: downFor })
      continue
    }
    let result: OpenAnswer | ProviderError
    try {
      result = await (deps.failover.sameModelRetries === 0
        ? tryModel(attempt, attempt.timeouts, run, deps)
        : tryWithRetries(attempt, run, deps))
    } catch (error) {
      // The next model's provider may have capacity.
      if (attempt !== last && isOverloaded(error)) continue
      throw error
    }
    if (!(result instanceof ProviderError)) return result
    failures.push(result)
    if (isCallersFault(result)) {
      // A rejection by a fallback must not hide that the earlier models were down.
      if (othersFailed || result.reason === 'context_length') continue
      throw rejected(modelId, result)
    }
    if (!isTrigger(result.reason, chain.triggers)) break
  }
  // The request counts as rejected only if every model rejected it, because a skipped model might have answered.
  const [first] = failures
  const wereAsked = failures.length === chain.attempts.length
  if (first && wereAsked && failures.every(isCallersFault)) throw rejected(chain.attempts[0].modelId, first)
  throw exhausted(attempts, failures)
}

/**
 * Tries one model. Retries the model as long as a retry may help and the timeout leaves enough time for the pause.
 * Returns the last failure.
 */
async function tryWithRetries(
  attempt: Attempt,
  run: FailoverRun,
  deps: FailoverDeps,
): Promise<OpenAnswer | ProviderError> {
  const { clock, failover } = deps
  let { timeouts } = attempt
  // Without a total timeout, the retries of a stream share the first-token timeout.
  const limit = Number.isFinite(timeouts.attemptMs) ? 'attemptMs' : 'firstTokenMs'
  const endMs = clock.monotonic() + timeouts[limit]
  for (let retriesLeft = failover.sameModelRetries; ; retriesLeft--) {
    const result = await tryModel(attempt, timeouts, run, deps)
    if (!(result instanceof ProviderError) || retriesLeft === 0 || !mayHelp(result, run.chain)) return result
    const pauseMs = Math.max(RETRY_PAUSE_MS, 1000 * (result.retryAfterSeconds ?? 0))
    const leftMs = endMs - clock.monotonic() - pauseMs
    if (leftMs <= 0) return result
    await pause(pauseMs, clock, run.signal)
    timeouts = { ...timeouts, [limit]: leftMs }
  }
}

/** A retry cannot help if the operator must act or the request is invalid. */
const mayHelp = ({ reason, alarm }: ProviderError, { triggers }: Chain) => !alarm && isTrigger(reason, triggers)

async function tryModel(
  attempt: Attempt,
  timeouts: ProviderCall['timeouts'],
  run: FailoverRun,
  { clock, log, failover: { breaker, providerGates } }: FailoverDeps,
): Promise<OpenAnswer | ProviderError> {
  const { chain, call, caller, attempts, heads, boundsOf, entitle, signal } = run
  const { tenantId, keyId } = caller
  const { modelId, provider } = attempt
  const askedMs = clock.monotonic()
  try {
    const turn = providerGates.enter(provider.name, keyId, signal)
    if (turn) await turn
  } catch (error) {
    if (isOverloaded(error)) {
      const latencyMs = Math.round(clock.monotonic() - askedMs)
      addAttempt(run, attempt, { reason: 'overloaded', latencyMs }, log)
    }
    throw error
  }
  const startedMs = clock.monotonic()
  const place = attempts.length
  const onHead: OnHead = (head) => {
    heads[place] = head
  }
  let batches: AsyncIterator<readonly ChatPart[]> | undefined
  let firstBatch: readonly ChatPart[] | undefined
  let firstTokenMs = 0
  try {
    const { maxTokens, options } = boundsOf(attempt)
    const ofAttempt = { maxTokens, options, timeouts, entitle: entitle(attempt, place), onHead }
    batches = provider.chat(toProviderCall(call, attempt, ofAttempt), signal)[Symbol.asyncIterator]()
    const first = await batches.next()
    if (first.done) throw new ProviderError('connection_error', 'The answer was empty.', { outcome: 'truncated' })
    firstTokenMs = Math.round(clock.monotonic() - startedMs)
    breaker.firstToken(tenantId, modelId)
    firstBatch = first.value
    const limitBytes = heldBytes(chain, call)
    if (limitBytes > 0 && first.value.at(-1)?.type !== 'end') {
      const held = [...first.value]
      firstBatch = held
      await readAhead(held, batches, limitBytes)
    }
    addAttempt(run, attempt, { latencyMs: firstTokenMs }, log)
    const rest = batches
    return {
      attempt,
      attempts,
      firstTokenMs,
      firstBatch,
      rest,
      close(failure) {
        // Closes the upstream connection if the client, not the provider, ended the answer.
        void rest.return?.()
        providerGates.leave(provider.name)
        if (failure === undefined) breaker.succeeded(tenantId, modelId)
        else if (failure instanceof ProviderError) breaker.failed(tenantId, modelId, failure.reason)
      },
    }
  } catch (error) {
    void batches?.return?.()
    providerGates.leave(provider.name)
    if (firstBatch && signal.reason instanceof RequestAborted && signal.reason.by === 'client') {
      // The client has disconnected, but the model generated the buffered text, so it is billed like every answer.
      addAttempt(run, attempt, { latencyMs: firstTokenMs }, log)
      return { attempt, attempts, firstTokenMs, firstBatch, rest: brokenBy(signal.reason), close: () => {} }
    }
    const latencyMs = Math.round(clock.monotonic() - startedMs)
    const failure = signal.aborted ? signal.reason : error
    const reason = signal.aborted ? 'aborted' : reasonOf(error)
    if (!(failure instanceof ProviderError)) {
      addAttempt(run, attempt, { reason, latencyMs }, log)
      throw failure
    }
    breaker.failed(tenantId, modelId, failure.reason)
    addAttempt(run, attempt, { reason, latencyMs, alarm: failure.alarm }, log, { detail: failure.message })
    return failure
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof ProviderError) return error.reason
  return error instanceof GatewayError && error.code === 'ENTITLEMENT_REFUSED'
    ? 'entitlement_refused'
    : 'internal_error'
}

const brokenBy = (reason: unknown): AsyncIterator<readonly ChatPart[]> => ({ next: () => Promise.reject(reason) })

/**
 * Returns how many bytes to buffer before the commit point. A non-streamed answer has no limit here, because the
 * provider's reader limits it.
 */
function heldBytes({ commit }: Chain, { stream }: Asked): number {
  if (!stream) return Number.POSITIVE_INFINITY
  return commit === 'complete' ? HELD_ANSWER_BYTES : 0
}

// Copied member by member: object spread costs more than the rest of this function.
function toProviderCall(
  call: Asked,
  { model }: Attempt,
  {
    maxTokens,
    options,
    timeouts,
    entitle,
    onHead,
  }: Pick<ProviderCall, 'maxTokens' | 'options' | 'timeouts' | 'entitle' | 'onHead'>,
): ProviderCall {
  const { system, messages, grounding, temperature, temperatureIsDefault, stream, noTraining } = call
  return {
    model,
    system,
    messages,
    grounding,
    temperature,
    temperatureIsDefault,
    maxTokens,
    stream,
    options,
    noTraining,
    entitle,
    onHead,
    timeouts,
  }
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

type EndedAttempt = { reason?: string; latencyMs: number; alarm?: boolean }

/**
 * Adds an attempt to the list and logs it. An attempt without `reason` served the request. Serving attempts are logged
 * at `debug`, because there are many.
 */
function addAttempt(
  { requestId, attempts, heads }: FailoverRun,
  { modelId: model, provider }: Attempt,
  { reason, latencyMs: latency_ms, alarm }: EndedAttempt,
  log: Log,
  more: object = {},
): void {
  const head = heads[attempts.length]
  const facts = {
    request_id: requestId,
    model,
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
}

const isOverloaded = (error: unknown): boolean => error instanceof GatewayError && error.code === 'OVERLOADED'

/** Whether this model would reject the request again on every retry. */
function isCallersFault({ reason }: ProviderError): boolean {
  return reason === 'bad_request' || reason === 'context_length' || reason === 'content_filter'
}

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
    },
  )
}
