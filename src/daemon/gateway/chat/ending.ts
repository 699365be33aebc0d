import { compatCodeOf, GatewayError } from '../../../shared/errors.ts'
import type { FailoverAttempt } from '../../../shared/wire/chat.ts'
import type { AnswerSoFar } from '../../metering/usage/counts.ts'
import { type ChatPart, mayPass, type Outcome, ProviderError } from '../../models/provider.ts'
import { flatLabel } from '../../platform/http/error-response.ts'
import { RequestAborted } from '../../platform/http/request-aborted.ts'
import { type AnswerGuard, CANARY, CANARY_LEAK } from '../../safety/guards/stream/answer-guard.ts'
import { OutputBlocked } from '../../safety/guards/stream/output-blocked.ts'
import type { Opened } from '../governed/failover.ts'
import { type Answer, type AnswerFault, type BlockedVerdict, FINISH, type Finish } from './answer-contract.ts'
import type { Begun } from './begin-answer.ts'

/** How an answer ended, and its output until then. Billing, receipts and finish_reason depend only on `outcome`. */
export type Ending = {
  outcome: Outcome
  /** The generated text and the provider's counts, for the bill. */
  output: AnswerSoFar
  /** The failure that made the answer incomplete. Undefined for a complete answer. */
  failure: unknown
}

/**
 * Forwards the parts as they arrive, until the answer ends. Never throws, because a broken answer must also be billed.
 */
export async function readAnswer(
  { begun: { firstBatch, rest }, close }: Opened<Begun>,
  guard: Pick<AnswerGuard, 'pass' | 'end' | 'whenQuiet'>,
  answer: Answer,
  signal: AbortSignal,
): Promise<Ending> {
  const output: AnswerSoFar = { usage: undefined, isFinal: false, generated: '' }
  let failure: unknown
  // Backpressure is not needed here: guards buffer little output, so the backlog for a slow client stays bounded.
  let refused: { error: unknown } | undefined
  const quiet = guard.whenQuiet(
    (parts) => answer.add(parts),
    (error) => {
      refused = { error }
      // Stops waiting for the next part, which may take minutes to arrive.
      void rest.return?.()
    },
  )
  try {
    let batch = firstBatch
    for (;;) {
      for (const part of batch) addPart(part, output)
      if (!answer.add(await guard.pass(batch))) await answer.drained(signal)
      const last = batch.at(-1)
      if (last?.type === 'end') return { outcome: last.outcome, output, failure: undefined }
      const step = await rest.next()
      if (step.done) throw new ProviderError('connection_error', 'The stream just ended.', { outcome: 'truncated' })
      batch = step.value
    }
  } catch (error) {
    failure = signal.aborted ? signal.reason : refused ? refused.error : error
    if (failure instanceof ProviderError) failure = (await flushGuard(guard, answer)) ?? failure
    return { outcome: brokenOutcome(failure), output, failure }
  } finally {
    quiet.cancel()
    close(failure)
  }
}

/**
 * After a broken answer, flushes the output that the guards have buffered. Returns the error if this output is blocked
 * or a guard fails.
 */
async function flushGuard(guard: Pick<AnswerGuard, 'end'>, answer: Answer): Promise<unknown> {
  try {
    answer.add(await guard.end())
    return undefined
  } catch (error) {
    return error
  }
}

function addPart(part: ChatPart, output: AnswerSoFar): void {
  if (part.type === 'usage') output.usage = part.usage
  else if (part.type === 'tool_call') {
    // The model generates texts and calls. Its provider adds the sources of a text.
    if (part.native !== 'annotation') output.generated += (part.name ?? '') + part.arguments
  } else if (part.type === 'end') {
    if (part.usage) {
      output.usage = part.usage
      output.isFinal = true
    }
  } else if (part.type === 'choice') for (const own of part.parts) addPart(own, output)
  else if (part.type === 'audio') output.audioChars = (output.audioChars ?? 0) + (part.data?.length ?? 0)
  else output.generated += part.text
}

function brokenOutcome(failure: unknown): Outcome {
  if (failure instanceof OutputBlocked) return 'filtered'
  if (failure instanceof RequestAborted) return failure.by === 'client' ? 'aborted' : 'error'
  return failure instanceof ProviderError ? failure.outcome : 'error'
}

const FINISHES: Partial<Record<Outcome, Finish>> = FINISH

/** The `finish_reason` in the response. Undefined for a broken answer. */
export const finishOf = ({ outcome, failure }: Pick<Ending, 'outcome' | 'failure'>): Finish | undefined =>
  failure === undefined ? FINISHES[outcome] : undefined

/** Returns the error frame for a request that fails after the head of its stream was sent. */
export function toErrorFrame(failure: unknown, traceId: string): AnswerFault {
  if (failure instanceof RequestAborted) {
    return {
      error: 'Service unavailable',
      message: 'The gateway is shutting down. Retry the request.',
      reason: 'shutdown',
      retryable: true,
    }
  }
  if (failure instanceof OutputBlocked) {
    const verdict = toVerdict(failure, traceId)
    return { error: 'Content blocked', message: BLOCKED_MESSAGE, reason: 'content_blocked', retryable: false, verdict }
  }
  if (failure instanceof ProviderError) {
    const message = `The answer is incomplete. ${failure.message} Retry the request.`
    return { error: 'Provider interrupted', message, reason: failure.reason, retryable: mayPass(failure) }
  }
  if (failure instanceof GatewayError) return toFault(failure)
  const message = 'The answer is incomplete because the gateway failed. Retry the request.'
  return { error: 'Internal server error', message, reason: 'internal_error', retryable: true }
}

/** Returns the error frame for a request that no model answered. */
function toFault(error: GatewayError): AnswerFault {
  const { code, message, retryable, extra = {} } = error
  const attempts = extra.attempts as FailoverAttempt[] | undefined
  const reason = attempts?.at(-1)?.reason ?? compatCodeOf(code, extra.reason)
  return { error: flatLabel(error), message, reason, retryable, ...(attempts && { attempts }) }
}

const BLOCKED_MESSAGE = 'Blocked: the answer contains data that a rule forbids. The rest of the answer is withheld.'

function toVerdict({ category, hits }: OutputBlocked, traceId: string): BlockedVerdict {
  const isCanary = hits.some(({ guard, action }) => guard === CANARY && action === 'block')
  return { verdict: 'BLOCK', attack_category: category ?? (isCanary ? CANARY_LEAK : null), trace_id: traceId }
}

/**
 * Returns the error response for a broken answer. This response is used if no byte was sent yet, and for requests that
 * wait for the replay.
 */
export function toRefusal(failure: unknown, opened: Opened<Begun>, traceId: string): unknown {
  if (failure instanceof OutputBlocked) {
    return new GatewayError('CONTENT_BLOCKED', BLOCKED_MESSAGE, { extra: toVerdict(failure, traceId) })
  }
  if (!(failure instanceof ProviderError)) return failure
  const failed = attemptsWith(failure, opened)
  const message = `All ${failed.length} model attempt(s) failed (last: ${opened.attempt.modelId} — ${failure.reason})`
  return new GatewayError('ALL_MODELS_FAILED', message, { cause: failure, extra: { attempts: failed } })
}

/** Returns the attempts, with the serving attempt marked as failed. */
export const attemptsWith = (failure: ProviderError, { attempts }: Opened<Begun>): FailoverAttempt[] =>
  attempts.map((earlier) =>
    earlier.status === 'served' ? { ...earlier, status: 'failed', reason: failure.reason } : earlier,
  )
