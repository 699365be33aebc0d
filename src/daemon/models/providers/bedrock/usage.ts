import { isObject, tokenCount } from '../../../platform/text/json.ts'
import type { TokenUsage } from '../../provider.ts'

const tokens = (value: unknown): number => tokenCount(value) ?? 0

/**
 * Converts counts. Bedrock's input count excludes cached tokens. Its output count includes reasoning tokens and does
 * not list them separately.
 */
export function toTokenUsage(usage: unknown): TokenUsage | undefined {
  if (!isObject(usage)) return undefined
  const cacheReadTokens = tokens(usage.cacheReadInputTokens)
  const cacheWriteTokens = tokens(usage.cacheWriteInputTokens)
  const inputTokens = tokens(usage.inputTokens) + cacheReadTokens + cacheWriteTokens
  const outputTokens = tokens(usage.outputTokens)
  if (inputTokens + outputTokens === 0) return undefined
  const hourTokens = hourTokensIn(usage.cacheDetails)
  return {
    inputTokens,
    outputTokens,
    cacheReadTokens,
    cacheWriteTokens,
    ...(hourTokens > 0 && { cacheWriteHourTokens: hourTokens }),
    reasoningTokens: 0,
    estimated: false,
  }
}

/** The tokens that were cached for an hour. Bedrock lists cache writes by lifetime. */
function hourTokensIn(details: unknown): number {
  if (!Array.isArray(details)) return 0
  return details.reduce(
    (sum: number, detail: unknown) => sum + (isObject(detail) && detail.ttl === '1h' ? tokens(detail.inputTokens) : 0),
    0,
  )
}
