import type { TokenUsage } from '../../models/provider.ts'
import { countingTokens } from '../../platform/text/tokens.ts'
import { countingInputTokens, type Input, inputTokensAtMost } from './input-tokens.ts'

/**
 * Limits for a provider's token counts. A count is plausible up to `times` × our own estimate + `beyond`. `output` is
 * the assumed maximum output of an answer for which no limit was sent.
 */
export const PLAUSIBLE_TOKENS = { times: 10, beyond: 100_000, output: 128_000 } as const
/**
 * Characters of base64 per output token of audio. Streamed audio has 24,000 samples of two bytes per second, and 20
 * tokens per second.
 */
const AUDIO_CHARS_PER_TOKEN = 3_200
/** The highest plausible number of web searches for one answer. */
const PLAUSIBLE_SEARCHES = 1_000

/** The output of an answer so far, and the provider's token counts. */
export type AnswerSoFar = {
  /** The provider's latest counts, if any. */
  usage: TokenUsage | undefined
  /** True if `usage` covers the whole answer. */
  isFinal: boolean
  /** All text that the model has generated. */
  generated: string
  /** The length of the generated audio in base64. Undefined without audio. */
  audioChars?: number
}

/** The tokens to bill. `doubts` lists the provider's counts that were too high to bill; they are logged. */
export type Counts = { usage: TokenUsage; doubts: Partial<Record<keyof TokenUsage, number>> | undefined }

/**
 * Computes the tokens to bill. By default, these are the provider's counts. If the input or output count is zero or
 * implausibly high, it is replaced by an estimate. If the counts do not cover the whole answer, the higher of count and
 * estimate is used. The results are safe integers, and no part exceeds its total. Yields regularly while estimating.
 * @param maxTokens the limit that was sent to the model
 */
export function* counting(
  call: Input,
  maxTokens: number | undefined,
  { usage, isFinal, generated, audioChars = 0 }: AnswerSoFar,
): Generator<void, Counts> {
  const spokenTokens = Math.ceil(audioChars / AUDIO_CHARS_PER_TOKEN)
  const input = yield* countSide(usage?.inputTokens ?? 0, isFinal, {
    likely: () => countingInputTokens(call),
    // The texts are measured only in the rare case that the count exceeds the fixed bound.
    mayBe: (count) => count <= PLAUSIBLE_TOKENS.beyond || count <= plausible(inputTokensAtMost(call)),
  })
  const output = yield* countSide(usage?.outputTokens ?? 0, isFinal, {
    *likely() {
      return (yield* countingTokens(generated)) + spokenTokens
    },
    mayBe: (count) => count <= plausible(Math.max(maxTokens ?? PLAUSIBLE_TOKENS.output, Buffer.byteLength(generated))),
  })
  const audioInputTokens = Math.min(usage?.audioInputTokens ?? 0, input.tokens)
  const spokenAtLeast = isFinal && !output.isOurs ? 0 : spokenTokens
  const audioOutputTokens = Math.min(Math.max(usage?.audioOutputTokens ?? 0, spokenAtLeast), output.tokens)
  const cacheReadTokens = Math.min(usage?.cacheReadTokens ?? 0, input.tokens)
  const cacheWriteTokens = Math.min(usage?.cacheWriteTokens ?? 0, input.tokens - cacheReadTokens)
  const hourTokens = Math.min(usage?.cacheWriteHourTokens ?? 0, cacheWriteTokens)
  const webSearches = Math.min(usage?.webSearches ?? 0, PLAUSIBLE_SEARCHES)
  const final = {
    inputTokens: input.tokens,
    outputTokens: output.tokens,
    cacheReadTokens,
    cacheWriteTokens,
    ...(hourTokens > 0 && { cacheWriteHourTokens: hourTokens }),
    reasoningTokens: Math.min(usage?.reasoningTokens ?? 0, output.tokens),
    ...(audioInputTokens > 0 && { audioInputTokens }),
    ...(audioOutputTokens > 0 && { audioOutputTokens }),
    ...(usage?.tier !== undefined && { tier: usage.tier }),
    ...(webSearches > 0 && { webSearches }),
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
  const isPlausible = mayBe(count)
  if (isFinal && isPlausible && count > 0) return { tokens: count, isOurs: false }
  const ours = yield* likely()
  return isPlausible && count >= ours ? { tokens: count, isOurs: false } : { tokens: ours, isOurs: true }
}

const plausible = (tokens: number) => tokens * PLAUSIBLE_TOKENS.times + PLAUSIBLE_TOKENS.beyond

/**
 * Returns the provider's counts that were lowered. Raised counts are not included, because they were only incomplete.
 */
function doubtsOf(counted: TokenUsage, final: TokenUsage): Counts['doubts'] {
  const names = [
    ...(['inputTokens', 'outputTokens', 'cacheReadTokens', 'cacheWriteTokens', 'reasoningTokens'] as const),
    ...(['audioInputTokens', 'audioOutputTokens', 'webSearches'] as const),
  ]
  const lowered = names.filter((name) => (counted[name] ?? 0) > (final[name] ?? 0))
  return lowered.length === 0 ? undefined : Object.fromEntries(lowered.map((name) => [name, counted[name]]))
}
