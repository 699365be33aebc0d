import { ProviderError } from '../../provider.ts'
import type { AnswerDraft } from './answer-format.ts'

export type Ending = NonNullable<AnswerDraft['ending']>

const SEVERITY = { complete: 0, length: 1, filtered: 2 } as const

/**
 * Of two ends with no words in between, the one that counts: a `stop` after a `length` does not make the answer whole. The
 * second of equals.
 */
export const worseEnding = (first: Ending | undefined, second: Ending): Ending =>
  first && SEVERITY[first.outcome] > SEVERITY[second.outcome] ? first : second

/** @throws ProviderError for a reason that is not among the outcomes: nobody can tell whether the model was stopped half way. */
export function toEnding(outcomes: ReadonlyMap<string, Ending['outcome']>, reason: string): Ending {
  const outcome = outcomes.get(reason)
  if (outcome) return { outcome, nativeFinishReason: reason }
  const named = /^[\w-]{1,64}$/.test(reason) ? ` "${reason}"` : ''
  throw new ProviderError('server_error', `The provider ended its answer with the unknown finish reason${named}.`)
}
