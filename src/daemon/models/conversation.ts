/**
 * The provider-neutral form of a conversation. Each surface (classic, OpenAI, Anthropic) converts its requests to this
 * form. Each provider converts this form to its own.
 */

/** A part of a message. Images are inline base64, because the gateway never fetches a URL for a caller. */
export type ContentPart = { type: 'text'; text: string } | { type: 'image'; mediaType: string; data: string }

export type Content = string | readonly ContentPart[]

/** A tool call as the model wrote it. `arguments` is the unchanged JSON text. */
export type ToolCall = { id: string; name: string; arguments: string }

/**
 * A reasoning step that must be sent back to the model in the next turn. `origin` is the kind of provider that created
 * the step (`anthropic`, `google` …). The step must be sent only to a provider of this kind. Signed text has
 * `signature`. An encrypted reasoning step has only `data`.
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

/**
 * The generation options of a call. Absent options are not sent. If the provider does not support an option, it
 * responds with 400; options are never dropped silently.
 */
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
  /** The end user's name, as set by the caller. */
  user?: string | undefined
  reasoningEffort?: string | undefined
  /** Disables reasoning. Unlike effort `none`, this option is dropped if the model does not support it. */
  noReasoning?: boolean | undefined
}

/** Returns the text of a message, without images. */
export const textOf = (content: Content): string =>
  typeof content === 'string' ? content : content.map((part) => (part.type === 'text' ? part.text : '')).join('')
