/**
 * The provider-neutral form of a conversation. Each surface (classic, OpenAI, Anthropic) converts its requests to this
 * form. Each provider converts this form to its own.
 */

/**
 * A cache breakpoint, in the form of Anthropic's `cache_control`. The provider caches the prompt from its start to the
 * end of the marked part. `ttl` is `5m` or `1h`.
 */
export type CacheMark = { type: string; ttl?: string | undefined }

/** Further members of an object that only providers of the kind `origin` know. */
export type Extra = { origin: string; members: Readonly<Record<string, unknown>> }

export type TextPart = { type: 'text'; text: string; cache?: CacheMark | undefined; extra?: Extra | undefined }

/**
 * A part of a message. An image is inline base64 or an https address. The provider fetches the address, never the
 * gateway. `detail` is the resolution at which the model reads the image. A `native` part is a block that only providers
 * of the kind `origin` accept, such as a search result.
 */
export type ContentPart =
  | TextPart
  | ({ type: 'image'; mediaType: string; data: string } & ImageOptions)
  | ({ type: 'image_url'; url: string; mediaType?: string | undefined } & ImageOptions)
  | FilePart
  | FileUrlPart
  | NativePart

type ImageOptions = { detail?: string | undefined; cache?: CacheMark | undefined; extra?: Extra | undefined }

/** A file with its content, such as a PDF or an audio. `data` is base64. */
export type FilePart = { type: 'file'; mediaType: string; data: string } & FileOptions & FileText

/** The text of a file, read by the gateway. Only guards use it. Undefined if it was not read, or could not be read. */
type FileText = { text?: string | undefined }
/** A file at an https address. */
export type FileUrlPart = { type: 'file_url'; url: string } & FileOptions

/** `name` is the name of the file, as set by the caller. */
type FileOptions = { name?: string | undefined; cache?: CacheMark | undefined }

export type NativePart = {
  type: 'native'
  origin: string
  block: NativeBlock
  cache?: CacheMark | undefined
  /** Left out for providers of another kind, which otherwise reject it. */
  isOptional?: true | undefined
} & FileText

/** A block in the form of its API, without its cache breakpoint. */
export type NativeBlock = Readonly<Record<string, unknown>> & { type: string }

/** A system prompt. Several blocks stay separate only for providers that accept blocks. */
export type System = string | readonly TextPart[]

export type Content = string | readonly ContentPart[]

/**
 * A tool call as the model wrote it. `arguments` is the unchanged JSON text. For a custom tool, it is an object with the
 * text `input`.
 */
export type ToolCall = {
  id: string
  name: string
  arguments: string
  isCustom?: true | undefined
  cache?: CacheMark | undefined
}

/**
 * A reasoning step that must be sent back to the model in the next turn. `origin` is the kind of provider that created
 * the step (`anthropic`, `google` …). The step must be sent only to a provider of this kind. Signed text has
 * `signature`. An encrypted reasoning step has only `data`.
 */
export type Reasoning = { origin: string; text: string; signature?: string | undefined; data?: string | undefined }

export type Message =
  | {
      role: 'user'
      content: Content
      name?: string | undefined
      /** Instructions of the caller within the conversation. Anthropic receives them as the role `system`. */
      isSystem?: boolean | undefined
    }
  | {
      role: 'assistant'
      content: Content
      /** The name of the speaker, as set by the caller. Other providers than OpenAI do not receive it. */
      name?: string | undefined
      toolCalls?: readonly ToolCall[] | undefined
      reasoning?: readonly Reasoning[] | undefined
    }
  | {
      role: 'tool'
      toolCallId: string
      content: Content
      /** Set if `content` is the JSON of an object, as Gemini's function responses are. */
      isObject?: true | undefined
      isError?: boolean | undefined
      cache?: CacheMark | undefined
    }

/** `parameters` is a JSON Schema. */
export type Tool = {
  name: string
  description?: string | undefined
  parameters?: object | undefined
  strict?: boolean | undefined
  cache?: CacheMark | undefined
  /**
   * Set for a custom tool (custom-tools.ts). `format` restricts the text that the model writes, in the form of the
   * surface.
   */
  custom?: { format?: NativeBlock | undefined } | undefined
  /**
   * The definition of a tool that only providers of the kind `origin` know. Other members then repeat parts of it.
   * `isOptional`: it is left out for other providers, which otherwise reject it.
   */
  native?: { origin: string; definition: NativeBlock; isOptional?: true | undefined } | undefined
  extra?: Extra | undefined
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
  /** The names of the tools that the model may call. Undefined: all. */
  allowedTools?: readonly string[] | undefined
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
  /** The number of answers. Undefined for one answer. */
  choices?: number | undefined
  /** Disables reasoning. Unlike effort `none`, this option is dropped if the model does not support it. */
  noReasoning?: boolean | undefined
  native?: NativeOptions | undefined
}

/**
 * The options of a request that only one kind of provider understands. A provider of the kind `origin` receives them
 * unchanged. For any other provider, `droppedBy` lists the options that are lost.
 */
export type NativeOptions = {
  /** The kind of provider whose API the request uses. */
  origin: string
  /** Members of the request's body. Guards inspect them as JSON. */
  fields: Readonly<Record<string, unknown>>
  headers: Readonly<Record<string, string>>
  /** The names of other members that the conversation contains and that some providers do not support. */
  marks: readonly string[]
  /** The names of fields without which the answer would be wrong. Other providers reject the request. */
  required?: readonly string[] | undefined
  /** Anthropic's `thinking` and `output_config.effort`. Other providers receive `reasoningEffort`. */
  thinking?: { config: ThinkingConfig | undefined; effort: string | undefined } | undefined
  /**
   * The field for thinking in any other API, with its value. Other providers receive `reasoningEffort`, and the field
   * is reported as changed instead of dropped.
   */
  effort?: { field: string; asked: number | string } | undefined
  /** Set if the request asks for a cache lifetime of an hour, which costs more. */
  cachesForAnHour?: boolean | undefined
}

/** Anthropic's `thinking`, in the form of the request. */
export type ThinkingConfig = { type: string; budget_tokens?: number | undefined }

/** Returns a system prompt as one text. */
export const systemText = (system: System): string =>
  typeof system === 'string' ? system : system.map(({ text }) => text).join('\n\n')

/** Appends a text to a system prompt. Earlier blocks stay unchanged, because their prefix may be cached. */
export function withSystemText(system: System, text: string): System {
  if (text === '') return system
  if (typeof system !== 'string') return [...system, { type: 'text', text }]
  return system === '' ? text : `${system}\n\n${text}`
}

/** Returns a text with citations as a plain text, for providers without citations. Undefined for other blocks. */
export const citedText = ({ block: { type, text }, cache }: NativePart): TextPart | undefined =>
  type === 'text' && typeof text === 'string' ? { type, text, cache } : undefined

/** The origin of blocks and options in the form of OpenAI's APIs. */
export const OPENAI_ORIGIN = 'openai'
/** The option of chat completions that asks for a spoken answer. */
export const SPOKEN_ANSWER = 'audio'
/** The reference of a message to the audio of an earlier answer. It is an option that providers may lack. */
export const EARLIER_AUDIO = 'messages.audio'
/** The type of the block that contains this reference. */
export const EARLIER_AUDIO_BLOCK = 'audio'

/** Whether a request asks for a spoken answer. */
export const asksForAudio = ({ native }: Pick<GenerationOptions, 'native'>): boolean =>
  native?.required?.includes(SPOKEN_ANSWER) === true

/** The origin of options that only OpenAI's Responses API has. */
export const RESPONSES_ORIGIN = 'openai-responses'

const partText = (part: ContentPart): string =>
  part.type === 'text' ? part.text : part.type === 'native' ? (citedText(part)?.text ?? '') : ''

/** Returns the text of a message, without images and documents. */
export const textOf = (content: Content): string =>
  typeof content === 'string' ? content : content.map(partText).join('')
