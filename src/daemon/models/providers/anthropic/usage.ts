// The token counts of the Messages API: a stream sends them in several events.
import { isObject, type Json, member, tokenCount as tokens } from '../../../platform/text/json.ts'
import type { TokenUsage } from '../../provider.ts'
import { searchesOf, tierOf } from '../stream/service-tier.ts'

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

const COUNTED = ['input_tokens', 'cache_read_input_tokens', 'cache_creation_input_tokens', 'output_tokens'] as const

/**
 * Adds up the iterations of an answer. The total counts of an answer omit some iterations, such as a compaction of the
 * conversation, but all iterations are billed. Returns the total counts if there are no higher iterations.
 */
function withIterations(counts: Json): Json {
  const iterations: unknown = counts.iterations
  if (!Array.isArray(iterations)) return counts
  const all = iterations.filter(isObject)
  const sum = (count: (one: Json) => unknown) => all.reduce((total, one) => total + (tokens(count(one)) ?? 0), 0)
  const sums = Object.fromEntries(COUNTED.map((name) => [name, sum((one) => one[name])]))
  const totalOf = (of: Json) => COUNTED.reduce((total, name) => total + (tokens(of[name]) ?? 0), 0)
  if (totalOf(sums) <= totalOf(counts)) return counts
  return { ...counts, ...sums, cache_creation: { ephemeral_1h_input_tokens: sum(hourTokensOf) } }
}

const hourTokensOf = (counts: Json): unknown =>
  isObject(counts.cache_creation) ? counts.cache_creation.ephemeral_1h_input_tokens : undefined

/**
 * Converts counts. Anthropic's input count excludes cached tokens; its output count includes thinking. Returns
 * undefined if a count is missing, or if both are zero: some servers send zeros as a placeholder.
 */
export function toTokenUsage(reported: Json): TokenUsage | undefined {
  const counts = withIterations(reported)
  const freshTokens = tokens(counts.input_tokens)
  const outputTokens = tokens(counts.output_tokens)
  if (freshTokens === undefined || outputTokens === undefined) return undefined
  const cacheReadTokens = tokens(counts.cache_read_input_tokens) ?? 0
  const cacheWriteTokens = tokens(counts.cache_creation_input_tokens) ?? 0
  const inputTokens = freshTokens + cacheReadTokens + cacheWriteTokens
  if (inputTokens + outputTokens === 0) return undefined
  const details = isObject(counts.output_tokens_details) ? counts.output_tokens_details : {}
  const reasoningTokens = tokens(details.thinking_tokens) ?? 0
  const hourTokens = tokens(hourTokensOf(counts)) ?? 0
  return {
    inputTokens,
    outputTokens,
    cacheReadTokens,
    cacheWriteTokens,
    ...(hourTokens > 0 && { cacheWriteHourTokens: hourTokens }),
    reasoningTokens,
    // An answer at a higher speed has a price of its own, whatever its tier.
    ...tierOf(counts.speed === 'fast' ? counts.speed : counts.service_tier),
    ...searchesOf(tokens(member(counts.server_tool_use, 'web_search_requests'))),
    estimated: false,
  }
}
