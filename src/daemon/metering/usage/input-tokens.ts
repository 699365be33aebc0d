import { type Content, systemText } from '../../models/conversation.ts'
import type { ProviderCall } from '../../models/provider.ts'
import { countingTokens } from '../../platform/text/tokens.ts'

/**
 * Input tokens that are reserved in addition to the bytes of the text: per message, for all tools together, and per
 * image, per document at an address, and per byte of a document.
 */
export const RESERVED_TOKENS = { message: 32, tools: 1_024, image: 5_000, document: 50_000, byte: 1 } as const
/**
 * The likely input tokens per message, of all tools together, and per image. Used for estimates if the provider reports
 * no count.
 */
export const ESTIMATED_TOKENS = { message: 4, tools: 100, image: 1_000, document: 5_000, byte: 0.1 } as const

/** The input of a provider call. */
export type Input = Pick<ProviderCall, 'system' | 'messages' | 'options'>

/** The tokens that are added to the tokens of the text: per message, for all tools together, and per image. */
type Frames = { message: number; tools: number; image: number; document: number; byte: number }

/**
 * Returns an upper bound for the input tokens of this call. Each byte of text counts as one token, the maximum of any
 * tokenizer. Tokens for message frames, tools and images are added. Some models count more for images
 * (docs/billing.md).
 */
export function inputTokensAtMost(input: Input): number {
  const { texts, frameTokens } = measure(input, RESERVED_TOKENS)
  return texts.reduce((tokens, text) => tokens + Buffer.byteLength(text), frameTokens)
}

/** Estimates the input tokens of this call. Yields regularly. */
export function* countingInputTokens(input: Input): Generator<void, number> {
  const { texts, frameTokens } = measure(input, ESTIMATED_TOKENS)
  let tokens = frameTokens
  for (const text of texts) {
    tokens += yield* countingTokens(text)
    yield
  }
  return tokens
}

/** Both the upper bound and the estimate use this function, so that reservation and bill cover the same texts. */
function measure({ system, messages, options }: Input, frames: Frames): { texts: string[]; frameTokens: number } {
  const texts = [systemText(system)]
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
    const { native, tools } = options
    // Members that only one provider's API has are not counted, because other providers do not receive them.
    texts.push(JSON.stringify(native ? tools.map(({ extra: _, ...tool }) => tool) : tools))
  }
  if (options?.responseFormat) texts.push(JSON.stringify(options.responseFormat))
  return { texts, frameTokens }
}

/** Adds the texts of a message to `texts`. @returns the tokens of the message's images and documents */
function addContent(texts: string[], content: Content, { image, document, byte }: Frames): number {
  if (typeof content === 'string') {
    texts.push(content)
    return 0
  }
  let tokens = 0
  for (const part of content) {
    if (part.type === 'text') texts.push(part.text)
    else if (part.type === 'file') tokens += Math.ceil(part.data.length * byte)
    else if (part.type === 'file_url') tokens += document
    else if (part.type !== 'native') tokens += image
    else {
      // The data of a file is not text; its tokens are estimated from its size.
      texts.push(
        JSON.stringify(part.block, function (this: { type?: unknown }, name: string, value: unknown) {
          if (name === 'url' || name === 'file_id' || name === 'fileUri') tokens += document
          if (isPicture(name, value, this)) {
            tokens += image
            return undefined
          }
          if (name !== 'data' || this.type !== 'base64' || typeof value !== 'string') return value
          tokens += Math.ceil(value.length * byte)
          return undefined
        }),
      )
    }
  }
  return tokens
}

/** Whether a member of a step of OpenAI's tools is a picture: a screenshot, or a generated image. */
const isPicture = (name: string, value: unknown, { type }: { type?: unknown }): boolean =>
  typeof value === 'string' &&
  ((name === 'image_url' && value.startsWith('data:')) || (name === 'result' && type === 'image_generation_call'))
