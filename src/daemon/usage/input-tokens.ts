import { ESTIMATED_TOKENS, RESERVED_TOKENS } from '../../shared/spec-limits.ts'
import type { Content } from '../providers/conversation.ts'
import type { ProviderCall } from '../providers/provider.ts'
import { countTokens } from './tokens.ts'

/** What a provider is given to read. */
export type Input = Pick<ProviderCall, 'system' | 'messages' | 'options'>

/** How tokens are counted: those of a text, and those that come on top of it. */
type Measure = { of(text: string): number; message: number; tools: number; image: number }

const HIGHEST: Measure = { of: Buffer.byteLength, ...RESERVED_TOKENS }
const LIKELY: Measure = { of: countTokens, ...ESTIMATED_TOKENS }

/**
 * As many input tokens as a model can possibly count in this call. No tokenizer makes more tokens than bytes, and what the
 * frame of each message, tools and images take comes on top. Images of some models are counted as more (docs/billing.md).
 */
export const inputTokensAtMost = (input: Input): number => inputTokens(input, HIGHEST)

/** About how many input tokens a model counts in this call. */
export const inputTokensLikely = (input: Input): number => inputTokens(input, LIKELY)

/** One walk for both, so that nothing is reserved for that is left out of a bill, or the other way round. */
function inputTokens({ system, messages, options }: Input, measure: Measure): number {
  let tokens = measure.of(system) + measure.message
  for (const message of messages) {
    tokens += measure.message + contentTokens(message.content, measure)
    if (message.role !== 'assistant') continue
    for (const { name, arguments: text } of message.toolCalls ?? []) {
      tokens += measure.message + measure.of(name) + measure.of(text)
    }
    for (const { text, data = '', signature = '' } of message.reasoning ?? []) {
      tokens += measure.of(text) + measure.of(data) + measure.of(signature)
    }
  }
  if (options?.tools) tokens += measure.tools + measure.of(JSON.stringify(options.tools))
  if (options?.responseFormat) tokens += measure.of(JSON.stringify(options.responseFormat))
  return tokens
}

function contentTokens(content: Content, measure: Measure): number {
  if (typeof content === 'string') return measure.of(content)
  let tokens = 0
  for (const part of content) tokens += part.type === 'image' ? measure.image : measure.of(part.text)
  return tokens
}
