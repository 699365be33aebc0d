import { GatewayError } from '../../../shared/errors.ts'
import { HELD_ANSWER_BYTES, RETRY_PAUSE_MS } from '../../../shared/spec-limits.ts'
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

/** A model that has begun to answer. From here on no other model may be tried. */
export type OpenAnswer = {
  attempt: Attempt
  /** Every attempt of the chain so far, the serving one last. */
  attempts: FailoverAttempt[]
  firstTokenMs: number
  /** All that was read so far: the first words, or the whole answer where it is held back to its end. */
  firstBatch: readonly ChatPart[]
  /** Yields the batches after the first. @throws ProviderError when the upstream breaks */
  rest: AsyncIterator<readonly ChatPart[]>
  /** Must be called once, when no more is read: with why there is no good end, or with undefined. */
  close(failure: unknown): void
}

export type Failover = {
  breaker: Breaker
  /** Named by provider, with a lane for each key. */
  providerGates: Gates
  /** How often a model is asked again before the next one is. */
  sameModelRetries: number
}

export type CompleteDeps = { clock: Clock; log: Log; failover: Failover }

type Asked = Omit<ProviderCall, 'model' | 'timeouts' | 'entitle' | 'onHead'>

/** What all attempts of one request share. `attempts` is filled as they are made, so it also tells what came before a failure. */
type Walk = {
  chain: Chain
  call: Asked
  caller: Pick<Caller, 'tenantId' | 'keyId'>
  requestId: string
  attempts: FailoverAttempt[]
  /** What the providers of the attempts said first, at the same places; undefined where there was no HTTP answer. */
  heads: (ProviderHead | undefined)[]
  /** The limit of a model's answer that is sent to it, and the options that this leaves room for. */
  boundsOf(attempt: Attempt): Pick<ProviderCall, 'maxTokens' | 'options'>
  /** @param place of the attempt among all of them */
  entitle(attempt: Attempt, place: number): Entitle
  signal: AbortSignal
}

/**
 * Walks the chain until a model reaches its commit point: the first words of a stream; the good end of a whole answer, and
 * with `commit: 'complete'` of a stream too, unless it is longer than what may be held back. Each model has the time of
 * its own limits, and nothing else takes any but the wait for a place at its provider.
 * A refusal of the request is the answer when it is the first one; after a model that failed, it is one failure more. A prompt
 * that is too long for one model goes to the next, whatever the triggers are (named-endpoints §26).
 * @throws GatewayError when no model of the chain answered, the request itself is at fault, or the last provider has no
 * place; the signal's reason when it was aborted.
 */
export async function openAnswer(walk: Walk, deps: CompleteDeps): Promise<OpenAnswer> {
  const { chain, caller, attempts } = walk
  const failures: ProviderError[] = []
  const last = chain.attempts.at(-1)
  for (const attempt of chain.attempts) {
    const { modelId } = attempt
    const othersFailed = attempts.length > 0
    // The last one is asked in any case: an error is the only other answer that is left.
    const downFor = attempt !== last && deps.failover.breaker.skips(caller.tenantId, modelId, chain.triggers)
    if (downFor) {
      addAttempt(walk, attempt, { reason: 'circuit_open', latencyMs: 0 }, deps.log, { circuit_reason: downFor })
      continue
    }
    let result: OpenAnswer | ProviderError
    try {
      result = await (deps.failover.sameModelRetries === 0
        ? tryModel(attempt, attempt.timeouts, walk, deps)
        : askPatiently(attempt, walk, deps))
    } catch (error) {
      // The provider of the next one may have a place.
      if (attempt !== last && isOverloaded(error)) continue
      throw error
    }
    if (!(result instanceof ProviderError)) return result
    failures.push(result)
    if (isCallersFault(result)) {
      // A fallback that cannot do what was asked must not hide that the models before it were down.
      if (othersFailed || result.reason === 'context_length') continue
      throw rejected(modelId, result)
    }
    if (!isTrigger(result.reason, chain.triggers)) break
  }
  // A model that was skipped might have answered.
  const [first] = failures
  const wereAsked = failures.length === chain.attempts.length
  if (first && wereAsked && failures.every(isCallersFault)) throw rejected(chain.attempts[0].modelId, first)
  throw exhausted(attempts, failures)
}

/** Asks one model, and again as long as that may help and its time allows the wait it wants. Returns its last failure. */
async function askPatiently(attempt: Attempt, walk: Walk, deps: CompleteDeps): Promise<OpenAnswer | ProviderError> {
  const { clock, failover } = deps
  let { timeouts } = attempt
  // A stream may have no limit in all; its tries then share the time for its first token.
  const limit = Number.isFinite(timeouts.attemptMs) ? 'attemptMs' : 'firstTokenMs'
  const endMs = clock.monotonic() + timeouts[limit]
  for (let retriesLeft = failover.sameModelRetries; ; retriesLeft--) {
    const result = await tryModel(attempt, timeouts, walk, deps)
    if (!(result instanceof ProviderError) || retriesLeft === 0 || !mayHelp(result, walk.chain)) return result
    const pauseMs = Math.max(RETRY_PAUSE_MS, 1000 * (result.retryAfterSeconds ?? 0))
    const leftMs = endMs - clock.monotonic() - pauseMs
    if (leftMs <= 0) return result
    await pause(pauseMs, clock, walk.signal)
    timeouts = { ...timeouts, [limit]: leftMs }
  }
}

/** Asking once more is of no use when the operator has to act, or the request is at fault. */
const mayHelp = ({ reason, alarm }: ProviderError, { triggers }: Chain) => !alarm && isTrigger(reason, triggers)

async function tryModel(
  attempt: Attempt,
  timeouts: ProviderCall['timeouts'],
  walk: Walk,
  { clock, log, failover: { breaker, providerGates } }: CompleteDeps,
): Promise<OpenAnswer | ProviderError> {
  const { chain, call, caller, attempts, heads, boundsOf, entitle, signal } = walk
  const { tenantId, keyId } = caller
  const { modelId, provider } = attempt
  const askedMs = clock.monotonic()
  try {
    const turn = providerGates.enter(provider.name, keyId, signal)
    if (turn) await turn
  } catch (error) {
    if (isOverloaded(error)) {
      const latencyMs = Math.round(clock.monotonic() - askedMs)
      addAttempt(walk, attempt, { reason: 'overloaded', latencyMs }, log)
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
    addAttempt(walk, attempt, { latencyMs: firstTokenMs }, log)
    const rest = batches
    return {
      attempt,
      attempts,
      firstTokenMs,
      firstBatch,
      rest,
      close(failure) {
        // Lets go of the upstream when the client, not the provider, was the one to break off.
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
      // Nobody waits for what was held back any more, but the model has said it, so it goes the way of every answer: billed.
      addAttempt(walk, attempt, { latencyMs: firstTokenMs }, log)
      return { attempt, attempts, firstTokenMs, firstBatch, rest: brokenBy(signal.reason), close: () => {} }
    }
    const latencyMs = Math.round(clock.monotonic() - startedMs)
    const failure = signal.aborted ? signal.reason : error
    const reason = signal.aborted ? 'aborted' : reasonOf(error)
    if (!(failure instanceof ProviderError)) {
      addAttempt(walk, attempt, { reason, latencyMs }, log)
      throw failure
    }
    breaker.failed(tenantId, modelId, failure.reason)
    addAttempt(walk, attempt, { reason, latencyMs, alarm: failure.alarm }, log, { detail: failure.message })
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

/** Of a whole answer nothing can leave before its end, so all of it is read; its size is bounded by the provider's reader. */
function heldBytes({ commit }: Chain, { stream }: Asked): number {
  if (!stream) return Number.POSITIVE_INFINITY
  return commit === 'complete' ? HELD_ANSWER_BYTES : 0
}

// Member by member: spreading into a new object costs more than the rest of this function together.
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

/** Lists and logs an attempt; without a `reason` it served. Served attempts are logged at `debug`, because there are many. */
function addAttempt(
  { requestId, attempts, heads }: Walk,
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
  // A client that leaves is no fault of the model.
  const level = alarm ? 'error' : reason === 'aborted' ? 'info' : 'warn'
  log[level]({ ...facts, reason, ...more }, 'model attempt failed')
}

const isOverloaded = (error: unknown): boolean => error instanceof GatewayError && error.code === 'OVERLOADED'

/** What no retry helps: this model will never take the request. */
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
 * Spec, flat errors: 429 when every failure was a rate limit, else 502; the body lists the attempts. A 502 tells a wait where every
 * model that was asked wants one.
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
