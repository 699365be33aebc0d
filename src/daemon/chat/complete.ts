import { GatewayError } from '../../shared/errors.ts'
import type { Clock } from '../../shared/time.ts'
import type { FailoverAttempt, FailoverTrigger } from '../../shared/wire/chat.ts'
import type { Log } from '../log.ts'
import { type ChatPart, type ProviderCall, ProviderError } from '../providers/provider.ts'
import type { Attempt, Chain } from './chain.ts'

/** A model that has begun to answer. From here on no other model may be tried. */
export type OpenAnswer = {
  attempt: Attempt
  /** Every attempt of the chain so far, the serving one last. */
  attempts: FailoverAttempt[]
  firstTokenMs: number
  firstBatch: readonly ChatPart[]
  /** Yields the batches after the first. @throws ProviderError when the upstream breaks */
  rest: AsyncIterator<readonly ChatPart[]>
}

/**
 * Walks the chain until a model reaches its commit point.
 * @throws GatewayError when no model of the chain answered, or the request itself is at fault; the signal's reason when it
 * was aborted.
 */
export async function openAnswer(
  chain: Chain,
  call: Omit<ProviderCall, 'model' | 'timeouts'>,
  signal: AbortSignal,
  { clock, log }: { clock: Clock; log: Log },
): Promise<OpenAnswer> {
  const attempts: FailoverAttempt[] = []
  const failures: ProviderError[] = []
  for (const attempt of chain.attempts) {
    const startedMs = clock.monotonic()
    try {
      const batches = attempt.provider.chat(toProviderCall(call, attempt), signal)[Symbol.asyncIterator]()
      const first = await batches.next()
      if (first.done) throw new ProviderError('connection_error', 'The answer was empty.', { outcome: 'truncated' })
      const firstTokenMs = Math.round(clock.monotonic() - startedMs)
      attempts.push({ model: attempt.modelId, status: 'served', latency_ms: firstTokenMs })
      return { attempt, attempts, firstTokenMs, firstBatch: first.value, rest: batches }
    } catch (error) {
      if (signal.aborted) throw signal.reason
      if (!(error instanceof ProviderError)) throw error
      const latencyMs = Math.round(clock.monotonic() - startedMs)
      attempts.push({ model: attempt.modelId, status: 'failed', reason: error.reason, latency_ms: latencyMs })
      failures.push(error)
      report(attempt, error, log)
      if (isCallersFault(error)) throw rejected(attempt.modelId, error)
      if (!chain.triggers.has(error.reason as FailoverTrigger)) break
    }
  }
  throw exhausted(attempts, failures)
}

// Member by member: spreading into a new object costs more than the rest of this function together.
function toProviderCall(call: Omit<ProviderCall, 'model' | 'timeouts'>, { model, timeouts }: Attempt): ProviderCall {
  const { system, messages, grounding, temperature, maxTokens, stream } = call
  return { model, system, messages, grounding, temperature, maxTokens, stream, timeouts }
}

function report({ modelId }: Attempt, error: ProviderError, log: Log): void {
  const facts = { model: modelId, reason: error.reason, upstream_status: error.upstreamStatus }
  if (error.alarm) log.error({ ...facts, error }, 'provider refuses our credentials or does not know the model')
  else log.warn({ ...facts, detail: error.message }, 'model attempt failed')
}

/** A request that this provider will never take is not sent to the next one (architecture §9). */
function isCallersFault({ reason }: ProviderError): boolean {
  return reason === 'bad_request' || reason === 'context_length' || reason === 'content_filter'
}

function rejected(modelId: string, cause: ProviderError): GatewayError {
  return new GatewayError('PROVIDER_REJECTED', `${modelId}: ${cause.message}`, {
    cause,
    extra: { reason: cause.reason },
  })
}

/** Spec, flat errors: 429 when every failure was a rate limit, else 502; the body lists the attempts. */
function exhausted(attempts: FailoverAttempt[], failures: ProviderError[]): GatewayError {
  const last = attempts.at(-1) as FailoverAttempt
  const rateLimited = failures.every((failure) => failure.reason === 'rate_limit')
  const waits = failures.flatMap(({ retryAfterSeconds }) => retryAfterSeconds ?? [])
  return new GatewayError(
    rateLimited ? 'ALL_MODELS_RATE_LIMITED' : 'ALL_MODELS_FAILED',
    `All ${attempts.length} model attempt(s) failed (last: ${last.model} — ${last.reason})`,
    {
      cause: failures.at(-1),
      extra: { attempts },
      retryAfterSeconds: rateLimited && waits.length > 0 ? Math.min(...waits) : undefined,
    },
  )
}
