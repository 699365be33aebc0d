import type { CommitPoint } from '../../../shared/wire/chat.ts'
import { type ChatPart, type ProviderCall, ProviderError } from '../../models/provider.ts'
import { RequestAborted } from '../../platform/http/request-aborted.ts'
import type { Attempt } from '../governed/chain.ts'
import type { AttemptTerms } from '../governed/failover.ts'
import { adaptedTo } from './adapted-call.ts'
import type { Grounded } from './ground-call.ts'
import { type AttemptLimit, withoutThinking } from './output-limit.ts'
import { readAhead } from './read-ahead.ts'

/**
 * With `redundancy.commit: "complete"`, a streamed answer is buffered up to this size. A longer answer is sent before
 * it is complete.
 */
const BUFFERED_ANSWER_BYTES = 1_048_576

/** An answer that has reached its commit point. */
export type Begun = {
  /** The parts read so far: the first tokens, or the whole answer if it is buffered until complete. */
  firstBatch: readonly ChatPart[]
  /** Yields the batches after the first. @throws ProviderError if the upstream breaks off */
  rest: AsyncIterator<readonly ChatPart[]>
  /** The output limit that was sent to the model. */
  limit: AttemptLimit
}

type Call = Grounded['call']

/**
 * Sends the call to one model, and reads its answer up to the commit point. A stream commits at its first token. A
 * non-streamed answer commits when it is complete. A stream with `commit: 'complete'` also commits when it is complete,
 * unless it exceeds the buffer limit.
 * @throws ProviderError if the model fails before the commit point
 */
export async function beginAnswer(
  call: Call,
  {
    attempt,
    limit,
    commit,
    terms,
    signal,
    isLarge,
  }: {
    attempt: Attempt
    limit: AttemptLimit
    commit: CommitPoint
    terms: AttemptTerms
    signal: AbortSignal
    isLarge: boolean
  },
): Promise<Begun> {
  const batches = attempt.provider
    .chat(toProviderCall(call, attempt, limit, terms, isLarge), signal)
    [Symbol.asyncIterator]()
  terms.onClose(() => void batches.return?.())
  let firstBatch: readonly ChatPart[] | undefined
  try {
    const first = await batches.next()
    if (first.done) throw new ProviderError('connection_error', 'The answer was empty.', { outcome: 'truncated' })
    terms.onFirstOutput()
    firstBatch = first.value
    const limitBytes = bufferedBytes(commit, call)
    if (limitBytes > 0 && first.value.at(-1)?.type !== 'end') {
      const buffered = [...first.value]
      firstBatch = buffered
      await readAhead(buffered, batches, limitBytes)
    }
    return { firstBatch, rest: batches, limit }
  } catch (error) {
    const { reason } = signal
    // The client has disconnected. The buffered text is billed like every answer, because the model generated it.
    if (firstBatch && reason instanceof RequestAborted && reason.by === 'client')
      return { firstBatch, rest: brokenBy(reason), limit }
    throw error
  }
}

const brokenBy = (reason: unknown): AsyncIterator<readonly ChatPart[]> => ({ next: () => Promise.reject(reason) })

/**
 * Returns how many bytes to buffer before the commit point. A non-streamed answer has no limit here, because the
 * provider's reader limits it.
 */
function bufferedBytes(commit: CommitPoint, { stream }: Call): number {
  if (!stream) return Number.POSITIVE_INFINITY
  return commit === 'complete' ? BUFFERED_ANSWER_BYTES : 0
}

// Copies each member explicitly: object spread costs more than the rest of this function.
function toProviderCall(
  call: Call,
  attempt: Attempt,
  { tokens, thinks }: AttemptLimit,
  { timeouts, entitle, onHead }: AttemptTerms,
  isLarge: boolean,
): ProviderCall {
  const { system, grounding, temperature, temperatureIsDefault, stream, noTraining } = call
  const { messages, options } = adaptedTo(attempt, call)
  return {
    model: attempt.model,
    system,
    messages,
    grounding,
    temperature,
    temperatureIsDefault,
    maxTokens: tokens,
    stream,
    isLarge,
    options: thinks ? options : withoutThinking(options),
    noTraining,
    entitle,
    onHead,
    timeouts,
  }
}
