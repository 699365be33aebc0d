import { ESTIMATED_TOKENS, RESERVED_TOKENS } from '../../../shared/spec-limits.ts'
import type { Content } from '../../models/conversation.ts'
import type { ProviderCall } from '../../models/provider.ts'
import { countingTokens } from '../../platform/text/tokens.ts'

/** What a provider is given to read. */
export type Input = Pick<ProviderCall, 'system' | 'messages' | 'options'>

/** What comes on top of the texts. */
type Frames = { message: number; tools: number; image: number }

/**
 * As many input tokens as a model can possibly count in this call. No tokenizer makes more tokens than bytes, and what the
 * frame of each message, tools and images take comes on top. Images of some models are counted as more (docs/billing.md).
 */
export function inputTokensAtMost(input: Input): number {
  const { texts, frameTokens } = measure(input, RESERVED_TOKENS)
  return texts.reduce((tokens, text) => tokens + Buffer.byteLength(text), frameTokens)
}

/** About how many input tokens a model counts in this call; stops now and then, so that others can have a turn. */
export function* countingInputTokens(input: Input): Generator<void, number> {
  const { texts, frameTokens } = measure(input, ESTIMATED_TOKENS)
  let tokens = frameTokens
  for (const text of texts) {
    tokens += yield* countingTokens(text)
    yield
  }
  return tokens
}

/** One walk for both, so that nothing is reserved for that is left out of a bill, or the other way round. */
function measure({ system, messages, options }: Input, frames: Frames): { texts: string[]; frameTokens: number } {
  const texts = [system]
  let frameTokens = frames.message
  for (const message of messages) {
    frameTokens += frames.message
    frameTokens += addContent(texts, message.content, frames)
    if (message.role !== 'assistant') continue
    for (const { name, arguments: text } of message.toolCalls ?? []) {
      frameTokens += frames.message
      texts.push(name, text)
    }
    for (const { text, data = '', signature = '' } of message.reasoning ?? []) texts.push(text, data, signature)
  }
  if (options?.tools) {
    frameTokens += frames.tools
    texts.push(JSON.stringify(options.tools))
  }
  if (options?.responseFormat) texts.push(JSON.stringify(options.responseFormat))
  return { texts, frameTokens }
}

/** Adds the texts of a message; @returns what its images take */
function addContent(texts: string[], content: Content, { image }: Frames): number {
  if (typeof content === 'string') {
    texts.push(content)
    return 0
  }
  let tokens = 0
  for (const part of content) {
    if (part.type === 'image') tokens += image
    else texts.push(part.text)
  }
  return tokens
}
