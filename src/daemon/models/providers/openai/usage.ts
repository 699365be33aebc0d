import { isObject, type Json, member, tokenCount as tokens } from '../../../platform/text/json.ts'
import type { TokenUsage } from '../../provider.ts'
import { tierOf } from '../stream/service-tier.ts'

/**
 * Returns the token usage. Returns undefined if a count is missing, or if input and output are zero: some servers send
 * zeros as a placeholder.
 * @param tier the `service_tier` of the answer
 */
export function toTokenUsage(usage: unknown, tier?: unknown): TokenUsage | undefined {
  if (!isObject(usage)) return undefined
  const inputTokens = tokens(usage.prompt_tokens) ?? restOf(usage.total_tokens, usage.completion_tokens)
  const visibleTokens = tokens(usage.completion_tokens) ?? restOf(usage.total_tokens, usage.prompt_tokens)
  if (inputTokens === undefined || visibleTokens === undefined || inputTokens + visibleTokens === 0) return undefined
  const reasoningTokens =
    tokens(member(usage.completion_tokens_details, 'reasoning_tokens')) ?? tokens(usage.reasoning_tokens) ?? 0
  const details = usage.prompt_tokens_details
  // xAI includes reasoning tokens only in the total, not in the completion tokens.
  const isExclusive = reasoningTokens > 0 && usage.total_tokens === inputTokens + visibleTokens + reasoningTokens
  return {
    inputTokens,
    outputTokens: isExclusive ? visibleTokens + reasoningTokens : visibleTokens,
    // DeepSeek, Moonshot and Mistral use other names for cached tokens.
    cacheReadTokens:
      tokens(member(details, 'cached_tokens')) ??
      tokens(usage.prompt_cache_hit_tokens) ??
      tokens(usage.cached_tokens) ??
      tokens(usage.num_cached_tokens) ??
      0,
    cacheWriteTokens: tokens(member(details, 'cache_write_tokens')) ?? 0,
    reasoningTokens,
    ...audioOf(usage),
    ...tierOf(tier),
    estimated: false,
  }
}

/** Returns the tokens of audio, if there are any. */
function audioOf(usage: Json): Pick<TokenUsage, 'audioInputTokens' | 'audioOutputTokens'> {
  const audioInputTokens = tokens(member(usage.prompt_tokens_details, 'audio_tokens')) ?? 0
  const audioOutputTokens = tokens(member(usage.completion_tokens_details, 'audio_tokens')) ?? 0
  return { ...(audioInputTokens > 0 && { audioInputTokens }), ...(audioOutputTokens > 0 && { audioOutputTokens }) }
}

/**
 * Computes the missing input or output count from the total. If the difference is zero, the total contains only the
 * known count, so the other count stays unknown.
 */
function restOf(total: unknown, side: unknown): number | undefined {
  const rest = (tokens(total) ?? 0) - (tokens(side) ?? Number.POSITIVE_INFINITY)
  return rest > 0 ? rest : undefined
}
