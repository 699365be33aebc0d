import { PLAUSIBLE_TOKENS } from '../../../shared/spec-limits.ts'
import type { TokenUsage } from '../../models/provider.ts'
import { countingTokens } from '../../platform/text/tokens.ts'
import { countingInputTokens, type Input, inputTokensAtMost } from './input-tokens.ts'

/** What is known of an answer when it is over, however it ended. */
export type Heard = {
  /** The last that the provider has counted, when it did. */
  usage: TokenUsage | undefined
  /** Those are the counts of the whole answer. */
  isFinal: boolean
  /** Everything that the model has said. */
  generated: string
}

/** `doubts` names what the provider has counted and is not billed: its counts are at fault, and somebody should know. */
export type Counts = { usage: TokenUsage; doubts: Partial<Record<keyof TokenUsage, number>> | undefined }

/**
 * The tokens that an answer is billed for. Those of the provider, but our own estimate for a side of which it counted nothing
 * although something was said there, or more than can be true; and where its last count is not that of the whole answer,
 * whichever of the two is higher. Whatever comes out can be multiplied and added, and its parts are within its totals.
 * Stops now and then while it estimates, so that others can have a turn.
 * @param maxTokens the limit that was sent to the model
 */
export function* counting(
  call: Input,
  maxTokens: number | undefined,
  { usage, isFinal, generated }: Heard,
): Generator<void, Counts> {
  const input = yield* countSide(usage?.inputTokens ?? 0, isFinal, {
    likely: () => countingInputTokens(call),
    // Most counts are below what is plausible in any case, so the texts need not be measured.
    mayBe: (count) => count <= PLAUSIBLE_TOKENS.beyond || count <= plausible(inputTokensAtMost(call)),
  })
  const output = yield* countSide(usage?.outputTokens ?? 0, isFinal, {
    likely: () => countingTokens(generated),
    mayBe: (count) => count <= plausible(Math.max(maxTokens ?? PLAUSIBLE_TOKENS.output, Buffer.byteLength(generated))),
  })
  const cacheReadTokens = Math.min(usage?.cacheReadTokens ?? 0, input.tokens)
  const final = {
    inputTokens: input.tokens,
    outputTokens: output.tokens,
    cacheReadTokens,
    cacheWriteTokens: Math.min(usage?.cacheWriteTokens ?? 0, input.tokens - cacheReadTokens),
    reasoningTokens: Math.min(usage?.reasoningTokens ?? 0, output.tokens),
    estimated: !isFinal || input.isOurs || output.isOurs || usage?.estimated === true,
  }
  return { usage: final, doubts: usage && doubtsOf(usage, final) }
}

type Side = { likely(): Generator<void, number>; mayBe(count: number): boolean }

function* countSide(
  count: number,
  isFinal: boolean,
  { likely, mayBe }: Side,
): Generator<void, { tokens: number; isOurs: boolean }> {
  const isBelieved = mayBe(count)
  if (isFinal && isBelieved && count > 0) return { tokens: count, isOurs: false }
  const ours = yield* likely()
  return isBelieved && count >= ours ? { tokens: count, isOurs: false } : { tokens: ours, isOurs: true }
}

const plausible = (tokens: number) => tokens * PLAUSIBLE_TOKENS.times + PLAUSIBLE_TOKENS.beyond

/** What was lowered; what was raised is only what the provider had not counted yet. */
function doubtsOf(told: TokenUsage, final: TokenUsage): Counts['doubts'] {
  const names = ['inputTokens', 'outputTokens', 'cacheReadTokens', 'cacheWriteTokens', 'reasoningTokens'] as const
  const lowered = names.filter((name) => told[name] > final[name])
  return lowered.length === 0 ? undefined : Object.fromEntries(lowered.map((name) => [name, told[name]]))
}
