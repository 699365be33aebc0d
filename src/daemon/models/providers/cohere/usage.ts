import { isObject, tokenCount } from '../../../platform/text/json.ts'
import type { TokenUsage } from '../../provider.ts'

/**
 * Returns the tokens that Cohere bills. `tokens` also counts Cohere's own prompt template, which is not billed, so it is
 * used only if there is no billed count. Cached tokens have no price of their own, and their count includes the
 * template, so they are not reported.
 */
export function toTokenUsage(usage: unknown): TokenUsage | undefined {
  if (!isObject(usage)) return undefined
  return countsOf(usage.billed_units) ?? countsOf(usage.tokens)
}

function countsOf(counts: unknown): TokenUsage | undefined {
  if (!isObject(counts)) return undefined
  const [inputTokens, outputTokens] = [tokenCount(counts.input_tokens), tokenCount(counts.output_tokens)]
  if (inputTokens === undefined || outputTokens === undefined || inputTokens + outputTokens === 0) return undefined
  return { inputTokens, outputTokens, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0, estimated: false }
}
