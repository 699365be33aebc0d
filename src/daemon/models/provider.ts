import type { AttemptReason } from '../../shared/wire/chat.ts'
import type { LargeBody } from '../platform/text/json-writer.ts'
import type { GenerationOptions, Message, NativeOptions, System } from './conversation.ts'

/**
 * A retrieved passage that the answer may cite. `number` is its number in the prompt. `headings` are the headings above
 * the passage, outermost first, joined by " > ".
 */
export type GroundingPassage = { number: number; source: string; headings?: string; text: string }

/** The body of a call. The body of a large call is written and hashed in pieces. */
export type CallBody = string | LargeBody

/**
 * Checks that this body is allowed to be sent to this model. Called right before the call is sent. A successful check
 * allows one call, and expires after a short time.
 * @throws the error that rejects the call; asynchronously if a lookup is needed
 */
export type Entitled = ((model: string, body: CallBody) => Promise<void> | undefined) & {
  /** Headers of this call, added to those of the provider: names and values alternately. */
  headers?: readonly string[]
}

/** Requests the right to send exactly this body to this model. Called as soon as body and model are known. */
export type Entitle = (model: string, body: CallBody) => Entitled

/**
 * The HTTP status of a provider's response, and the provider's request id if the response contains one. `message` is
 * the provider's own message about a failed attempt, cleaned (gateway/governed/provider-message.ts). Only
 * administrators of the tenant may read it.
 */
export type ProviderHead = { status: number; requestId: string | undefined; message?: string | undefined }
export type OnHead = (head: ProviderHead) => void

/** A validated and clamped request to a provider. */
export type ProviderCall = {
  /** The provider's name of the model, without `<provider>/`. */
  model: string
  /**
   * The system prompt for the model. Contains the retrieved passages between markers. The text is empty if there is no
   * system prompt.
   */
  system: System
  messages: readonly Message[]
  /** Retrieved passages for `local/extract`. Null if the request does no retrieval. */
  grounding: { index: string; passages: readonly GroundingPassage[] } | null
  /** Undefined: the model's default. */
  temperature: number | undefined
  /**
   * True if the caller did not set the temperature. If a model rejects temperatures, the default temperature is
   * dropped.
   */
  temperatureIsDefault?: boolean | undefined
  /** If undefined, no limit is sent, and the model's default limit applies. */
  maxTokens: number | undefined
  stream: boolean
  /** The call is so large that its body must be written in steps. */
  isLarge?: boolean | undefined
  /** The options are undefined for a plain chat. */
  options?: GenerationOptions | undefined
  /** Asks the provider not to train on this call. */
  noTraining?: boolean | undefined
  /**
   * A governed call cannot be sent without this permission. It is undefined for calls that the gateway makes for
   * itself.
   */
  entitle?: Entitle | undefined
  /** Called with the head of the HTTP response, for any status. */
  onHead?: OnHead | undefined
  /** The time limits in milliseconds: for the whole attempt, for the first part, and for the silence between parts. */
  timeouts: { attemptMs: number; firstTokenMs: number; stallMs: number }
}

/**
 * The outcome of a provider call. Billing, receipts, events and finish_reason depend only on the outcome. Answers:
 * `complete`, `length` (token limit), `filtered` (the provider withheld text). Failures: `truncated` (ended without its
 * terminal event), `error`, `aborted` (the client disconnected).
 */
export type Outcome = 'complete' | 'length' | 'filtered' | 'truncated' | 'error' | 'aborted'

/**
 * Tokens as the provider counts them, not yet validated (usage/counts.ts). Totals are inclusive, as in OpenAI's API:
 * input includes cached tokens, output includes reasoning tokens.
 */
export type TokenUsage = {
  inputTokens: number
  outputTokens: number
  cacheReadTokens: number
  cacheWriteTokens: number
  /** The part of `cacheWriteTokens` with a cache lifetime of an hour. Absent if there is none. */
  cacheWriteHourTokens?: number
  reasoningTokens: number
  /** The part of `inputTokens` and of `outputTokens` that is audio. Absent if there is none. */
  audioInputTokens?: number
  audioOutputTokens?: number
  /**
   * The tier of service that served the answer, such as `flex`, `priority` and `fast`. Absent for the standard tier.
   */
  tier?: string
  /** The number of web searches that the provider ran and bills. Absent if there is none. */
  webSearches?: number
  /** True if the provider sent no count, so the gateway counted the tokens. */
  estimated: boolean
}

/** Parts of an answer that are neither text nor calls. Their content is the JSON of an object. */
export type NativeKind = 'block' | 'citation' | 'break' | 'annotation'

/** One step of an answer. A complete answer ends with exactly one `end`. */
export type ChatPart =
  /** `logprobs` in the provider's form, if requested. */
  | { type: 'text'; text: string; logprobs?: unknown }
  /**
   * Signed or encrypted reasoning. It is sent back to its origin in the next turn (conversation.ts). If
   * `isSignatureOfPart` is set, `data` signs a part of the answer instead of reasoning text.
   */
  | {
      type: 'reasoning'
      text: string
      origin?: string
      signature?: string
      data?: string
      isSignatureOfPart?: true
    }
  /**
   * A part of a tool call. For each index, the first part has `id` and `name`. `arguments` continues the arguments of
   * the earlier parts.
   */
  | {
      type: 'tool_call'
      index: number
      id?: string
      name?: string
      arguments: string
      /**
       * Set on the first part if `arguments` is not a call but the JSON of a block or a citation of the provider's own
       * API. A `break` separates two text blocks. Only requests with native options get these parts. Any request may
       * get an `annotation`: a source of the text before it, in the form of OpenAI's Responses API. Its `index` is
       * negative, so that calls keep theirs. Guards inspect all of them like the arguments of a call.
       */
      native?: NativeKind
    }
  /**
   * A piece of a spoken answer. `data` is base64. The transcript follows as text parts, so guards inspect it like any
   * other text. Guards cannot inspect or change the audio itself.
   */
  | { type: 'audio'; id?: string; data?: string; expiresAt?: number }
  /**
   * Parts of one of several answers to the same request (`options.choices`). Each answer ends with its own `end`, which
   * has no usage. After all of them, the `end` of the call follows.
   */
  | { type: 'choice'; index: number; parts: readonly ChatPart[] }
  /** The token counts so far. These counts are used if the answer breaks off, or if no later counts arrive. */
  | { type: 'usage'; usage: TokenUsage }
  | {
      type: 'end'
      outcome: 'complete' | 'length' | 'filtered'
      nativeFinishReason: string
      /** The stop sequence that ended the answer, if the provider named it. */
      stopSequence?: string
      /** The token counts of the whole answer. Undefined if the provider sent no counts after the last content. */
      usage: TokenUsage | undefined
    }

/** The parts that only requests of OpenAI's chat completions and completions can ask for. */
export type OtherPart = 'audio' | 'choice'

export type EmbedCall = {
  /** The provider's name of the model, without `<provider>/`. */
  model: string
  input: readonly string[]
  /** Undefined: the model's default. */
  dimensions?: number | undefined
  /** The end user's name, as set by the caller. */
  user?: string | undefined
  /** Fields that only providers of the kind `origin` know. */
  native?: Pick<NativeOptions, 'origin' | 'fields'> | undefined
  noTraining?: boolean | undefined
  /** As for a chat. */
  isLarge?: boolean | undefined
  entitle?: Entitle | undefined
  onHead?: OnHead | undefined
  /** The timeout of the whole call. */
  attemptMs: number
}

/** The type depends on the provider's format: base64 is decoded to 32-bit floats. */
export type Vector = readonly number[] | Float32Array

export type Embeddings = { vectors: Vector[]; usage: TokenUsage | undefined }

export type RerankCall = {
  /** The provider's name of the model, without `<provider>/`. */
  model: string
  query: string
  documents: readonly string[]
  /** The number of top-ranked documents to return. */
  count: number
  noTraining?: boolean | undefined
  /** As for a chat. */
  isLarge?: boolean | undefined
  entitle?: Entitle | undefined
  onHead?: OnHead | undefined
  /** The timeout of the whole call. */
  attemptMs: number
}

/** Indexes into the documents of the call, with the model's scores, in any order. Each index occurs at most once. */
export type Reranked = { index: number; score: number }[]

/** Options that are left out if the API does not have them. A request with any other such option is rejected. */
export type DroppableOption = 'user' | 'thinking'

export type ModerationCall = Pick<
  EmbedCall,
  'model' | 'input' | 'noTraining' | 'isLarge' | 'entitle' | 'onHead' | 'attemptMs'
>

/** The result for one text: the categories that apply, and the score of each category between 0 and 1. */
export type Moderation = {
  flagged: boolean
  categories: Record<string, boolean>
  category_scores: Record<string, number>
}

export type Provider = {
  name: string
  /** Offered names without `<provider>/`. If undefined, any model name is passed on. */
  models: readonly string[] | undefined
  /** The kind of API, as in `NativeOptions`. Absent if the provider accepts no native options. */
  origin?: string
  /**
   * Returns whether this model supports a native option of another API, by its name. Absent: none.
   * @param origin the API of the option. Undefined: any
   */
  supports?(option: string, model: string, origin?: string): boolean
  /** Returns whether this model rejects an option of its own kind of API. The option is then not sent. Absent: none. */
  rejects?(option: string, model: string): boolean
  /** Returns the options of this call that do not affect the answer's text and that the model's API does not have. */
  drops?(options: GenerationOptions, model: string): readonly DroppableOption[]
  /** Set if the API rejects a chat without `maxTokens`. */
  needsMaxTokens?: true
  /**
   * Returns the minimum number of thinking tokens that a request with thinking must allow on this model. Absent if
   * unknown.
   */
  leastThinkingTokens?(model: string): number
  /**
   * Starts the call and yields the answer in batches. A batch contains all parts of one network read. The first batch
   * is the commit point: it is yielded when the first content arrives, or when the whole answer is complete. Before the
   * first batch, the caller may still try another model. The last part of the last batch is `end`.
   * @throws ProviderError if the answer does not complete; `chat` itself throws it if this provider does not support
   * the call
   */
  chat(call: ProviderCall, signal: AbortSignal): AsyncIterable<readonly ChatPart[]>
  /**
   * Counts the input tokens of a call without generating an answer. Absent if the API does not support counting.
   * @throws ProviderError
   */
  countTokens?(call: ProviderCall, signal: AbortSignal): Promise<number>
  /**
   * Embeds texts. Returns one vector per text, in the same order. Absent if the API does not support embeddings.
   * @throws ProviderError
   */
  embed?(call: EmbedCall, signal: AbortSignal): Promise<Embeddings>
  /**
   * Ranks documents by how well they answer a query. Absent if the API does not support reranking.
   * @throws ProviderError
   */
  rerank?(call: RerankCall, signal: AbortSignal): Promise<Reranked>
  /**
   * Classifies texts. Returns one result per text, in the same order. Absent if the API does not support moderation.
   * @throws ProviderError
   */
  moderate?(call: ModerationCall, signal: AbortSignal): Promise<Moderation[]>
  close(): Promise<void>
}

/** The option of an API that lists the tools which the model may call, for `Provider.supports`. */
export const ALLOWED_TOOLS = 'allowed_tools'

/** The ability to return several answers to one request, for `Provider.supports`. */
export const SEVERAL_CHOICES = 'n above 1'

/** Returns the names of the native options that this provider does not support, and that are therefore not sent. */
export function droppedBy(provider: Provider, model: string, native: NativeOptions | undefined): string[] {
  if (!native) return []
  const isOwn = native.origin === provider.origin
  if (isOwn && !provider.rejects) return []
  const names = [...new Set([...Object.keys(native.headers), ...Object.keys(native.fields), ...native.marks])]
  return names.filter((name) =>
    isOwn ? provider.rejects?.(name, model) : !provider.supports?.(name, model, native.origin),
  )
}

/**
 * Failures that only the operator can fix. The provider rejects our key or account, or does not have the model, or the
 * account's credit or long-term quota is used up. Neither waiting nor retrying resolves them.
 */
export const OPERATOR_REASONS = ['auth_failed', 'model_not_found', 'quota_exhausted'] as const
export type OperatorReason = (typeof OPERATOR_REASONS)[number]

/** The reason for a failed attempt: either a failover trigger, or a reason that never causes a failover. */
export type FailureReason = Exclude<
  AttemptReason,
  'circuit_open' | 'overloaded' | 'entitlement_refused' | 'internal_error'
>

const OPERATORS: ReadonlySet<string> = new Set(OPERATOR_REASONS)

export const isOperatorReason = (reason: FailureReason): reason is OperatorReason => OPERATORS.has(reason)

/** Whether the same call may succeed later: the failure is neither the operator's nor the caller's to fix. */
export const mayPass = (failure: Pick<ProviderError, 'reason'>): boolean =>
  !isOperatorReason(failure.reason) && !isCallersFault(failure)

/** Whether this model would reject every retry of the request. */
export const isCallersFault = ({ reason }: Pick<ProviderError, 'reason'>): boolean => CALLERS.has(reason)

const CALLERS: ReadonlySet<FailureReason> = new Set(['bad_request', 'context_length', 'content_filter'])

/** Whether a failure is one of these triggers. OPERATOR_REASONS count as `server_error`. */
export const isTrigger = (reason: FailureReason, triggers: ReadonlySet<string>): boolean =>
  triggers.has(isOperatorReason(reason) ? 'server_error' : reason)

/**
 * A provider call that ended without an answer. `message` may be shown to the caller; response bodies are never shown.
 */
export class ProviderError extends Error {
  override name = 'ProviderError'
  readonly reason: FailureReason
  /** `truncated` if the upstream ended without its terminal event, otherwise `error` or `aborted`. */
  readonly outcome: 'truncated' | 'error' | 'aborted'
  /** The upstream's HTTP status, if it responded. */
  readonly upstreamStatus: number | undefined
  /** The wait that the upstream's Retry-After requests, in seconds. */
  readonly retryAfterSeconds: number | undefined
  /**
   * True if the operator must act: the failure is logged as an error and never retried. This is the case for
   * OPERATOR_REASONS and for redirects.
   */
  readonly alarm: boolean
  /** True if the provider does not have a feature that the request needs. Another model of the chain may have it. */
  readonly lacksFeature: boolean
  /** The provider's request id, if a response had arrived. It is logged with the error. */
  upstreamRequestId: string | undefined
  // Private, so that no serialiser of the log or of a response can read it.
  readonly #said: string | undefined

  constructor(
    reason: FailureReason,
    message: string,
    options: ErrorOptions & {
      outcome?: 'truncated' | 'error' | 'aborted'
      upstreamStatus?: number
      retryAfterSeconds?: number | undefined
      alarm?: boolean
      lacksFeature?: boolean
      said?: string | undefined
    } = {},
  ) {
    super(message, options)
    this.#said = options.said
    this.reason = reason
    this.outcome = options.outcome ?? (reason === 'aborted' ? 'aborted' : 'error')
    this.upstreamStatus = options.upstreamStatus
    this.retryAfterSeconds = options.retryAfterSeconds
    this.alarm = options.alarm ?? isOperatorReason(reason)
    this.lacksFeature = options.lacksFeature ?? false
  }

  /**
   * The beginning of the provider's own message, as received. It may contain parts of the request, credentials and
   * personal data, so it must be cleaned before it is stored or shown.
   */
  get said(): string | undefined {
    return this.#said
  }
}

/**
 * The location where a call is processed. `here`: in this process. `region` is the provider's configured region in
 * lower case. The region is undefined if it is not configured or cannot be determined.
 */
export type CallLocation = 'here' | { host: string; region: string | undefined }
