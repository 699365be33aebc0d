// The token counts of OpenAI's Responses API.
import { isObject, type Json, member, tokenCount as tokens } from '../../../../platform/text/json.ts'
import type { TokenUsage } from '../../../provider.ts'
import { searchesOf, tierOf } from '../../stream/service-tier.ts'

/**
 * Returns the usage of an answer. Undefined if a count is missing, or if both are zero: some servers send zeros as a
 * placeholder.
 * @param searches the number of web searches in the answer
 */
export function toTokenUsage(
  { usage, service_tier: tier }: Json,
  { searches }: { searches: number },
): TokenUsage | undefined {
  if (!isObject(usage)) return undefined
  const inputTokens = tokens(usage.input_tokens)
  const outputTokens = tokens(usage.output_tokens)
  if (inputTokens === undefined || outputTokens === undefined || inputTokens + outputTokens === 0) return undefined
  return {
    inputTokens,
    outputTokens,
    cacheReadTokens: tokens(member(usage.input_tokens_details, 'cached_tokens')) ?? 0,
    cacheWriteTokens: tokens(member(usage.input_tokens_details, 'cache_write_tokens')) ?? 0,
    reasoningTokens: tokens(member(usage.output_tokens_details, 'reasoning_tokens')) ?? 0,
    ...tierOf(tier),
    ...searchesOf(searches),
    estimated: false,
  }
}
