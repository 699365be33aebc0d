// How an answer ended, from one or several finish reasons.
import { ProviderError } from '../../provider.ts'
import type { AnswerDraft } from './answer-format.ts'

export type Ending = NonNullable<AnswerDraft['ending']>

const SEVERITY = { complete: 0, length: 1, filtered: 2 } as const

/**
 * Returns the worse of two endings if no content arrived between them: a `stop` after a `length` does not complete the
 * answer. If both endings are equally bad, returns the second ending.
 */
export const worseEnding = (first: Ending | undefined, second: Ending): Ending =>
  first && SEVERITY[first.outcome] > SEVERITY[second.outcome] ? first : second

/** @throws ProviderError for an unknown reason, because the model may have been stopped early */
export function toEnding(outcomes: ReadonlyMap<string, Ending['outcome']>, reason: string): Ending {
  const outcome = outcomes.get(reason)
  if (outcome) return { outcome, nativeFinishReason: reason }
  const named = /^[\w-]{1,64}$/.test(reason) ? ` "${reason}"` : ''
  throw new ProviderError('server_error', `The provider ended its answer with the unknown finish reason${named}.`)
}
