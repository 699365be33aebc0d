/**
 * What is said to a model and what it may answer with, in our own words: the surfaces (classic, OpenAI, Anthropic) turn
 * their requests into it, each provider turns it into its own.
 */

/** A piece of a message. Images are inline, base64; nothing is ever fetched for a caller. */
export type ContentPart = { type: 'text'; text: string } | { type: 'image'; mediaType: string; data: string }

export type Content = string | readonly ContentPart[]

/** A call of a tool as the model wrote it; `arguments` is JSON text, exactly as it came. */
export type ToolCall = { id: string; name: string; arguments: string }

/**
 * A step of a model's reasoning that it wants to see again on the next turn. `origin` is the kind of provider that made it
 * (`anthropic`, `google` …): only there may it be sent back. Signed text has `signature`, what is encrypted only `data`.
 */
export type Reasoning = { origin: string; text: string; signature?: string | undefined; data?: string | undefined }

export type Message =
  | { role: 'user'; content: Content }
  | {
      role: 'assistant'
      content: Content
      toolCalls?: readonly ToolCall[] | undefined
      reasoning?: readonly Reasoning[] | undefined
    }
  | { role: 'tool'; toolCallId: string; content: Content; isError?: boolean | undefined }

/** `parameters` is a JSON Schema. */
export type Tool = {
  name: string
  description?: string | undefined
  parameters?: object | undefined
  strict?: boolean | undefined
}

export type ToolChoice = 'auto' | 'none' | 'required' | { name: string }

export type ResponseFormat =
  | { type: 'text' }
  | { type: 'json_object' }
  | {
      type: 'json_schema'
      name: string
      schema: object
      strict?: boolean | undefined
      description?: string | undefined
    }

/** What a caller may ask for beside the text. What is absent is not sent; what a provider cannot do is its 400, never silence. */
export type GenerationOptions = {
  tools?: readonly Tool[] | undefined
  toolChoice?: ToolChoice | undefined
  parallelToolCalls?: boolean | undefined
  responseFormat?: ResponseFormat | undefined
  stop?: readonly string[] | undefined
  topP?: number | undefined
  topK?: number | undefined
  frequencyPenalty?: number | undefined
  presencePenalty?: number | undefined
  seed?: number | undefined
  logprobs?: boolean | undefined
  topLogprobs?: number | undefined
  /** The end user, as the caller names them. */
  user?: string | undefined
  reasoningEffort?: string | undefined
  /** The caller wants no reasoning. Unlike an effort of `none`, a model that has no word for that is just not told. */
  noReasoning?: boolean | undefined
}

/** The text of a message, images left out. */
export const textOf = (content: Content): string =>
  typeof content === 'string' ? content : content.map((part) => (part.type === 'text' ? part.text : '')).join('')
