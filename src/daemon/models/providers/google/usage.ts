import { isObject, tokenCount } from '../../../platform/text/json.ts'
import type { TokenUsage } from '../../provider.ts'

const tokens = (value: unknown): number => tokenCount(value) ?? 0

/** Converts token usage to our definition: thoughts count as output, and tool tokens count as prompt. */
export function toTokenUsage(usage: unknown): TokenUsage | undefined {
  if (!isObject(usage)) return undefined
  const promptTokens = tokens(usage.promptTokenCount)
  if (promptTokens === 0) return undefined
  const reasoningTokens = tokens(usage.thoughtsTokenCount)
  return {
    inputTokens: promptTokens + tokens(usage.toolUsePromptTokenCount),
    outputTokens: tokens(usage.candidatesTokenCount) + reasoningTokens,
    cacheReadTokens: tokens(usage.cachedContentTokenCount),
    cacheWriteTokens: 0,
    reasoningTokens,
    estimated: false,
  }
}
