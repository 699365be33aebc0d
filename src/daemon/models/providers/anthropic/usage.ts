// The token counts of the Messages API: a stream sends them in several events.
import { isObject, type Json, tokenCount as tokens } from '../../../platform/text/json.ts'
import type { TokenUsage } from '../../provider.ts'

/**
 * Counts that the start event contains. At the end of a stream, some servers send zeros for these counts. Such zeros
 * are ignored.
 */
const OF_THE_START = new Set(['input_tokens', 'cache_read_input_tokens', 'cache_creation_input_tokens'])

/**
 * Merges counts. Counts are cumulative, so later values replace earlier ones. Missing or null values change nothing.
 */
export function withCounts(before: Json, usage: unknown): Json {
  if (!isObject(usage)) return before
  const isNone = (name: string, count: unknown) =>
    count === null || (count === 0 && OF_THE_START.has(name) && before[name] !== undefined)
  return { ...before, ...Object.fromEntries(Object.entries(usage).filter(([name, count]) => !isNone(name, count))) }
}

/**
 * Converts counts. Anthropic's input count excludes cached tokens; its output count includes thinking. Returns
 * undefined if a count is missing, or if both are zero: some servers send zeros as a placeholder.
 */
export function toTokenUsage(counts: Json): TokenUsage | undefined {
  const freshTokens = tokens(counts.input_tokens)
  const outputTokens = tokens(counts.output_tokens)
  if (freshTokens === undefined || outputTokens === undefined) return undefined
  const cacheReadTokens = tokens(counts.cache_read_input_tokens) ?? 0
  const cacheWriteTokens = tokens(counts.cache_creation_input_tokens) ?? 0
  const inputTokens = freshTokens + cacheReadTokens + cacheWriteTokens
  if (inputTokens + outputTokens === 0) return undefined
  const details = isObject(counts.output_tokens_details) ? counts.output_tokens_details : {}
  const reasoningTokens = tokens(details.thinking_tokens) ?? 0
  return { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, reasoningTokens, estimated: false }
}
