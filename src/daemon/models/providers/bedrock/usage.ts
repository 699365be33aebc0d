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
  return { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, reasoningTokens: 0, estimated: false }
}
