import type { FailoverTrigger } from '../../shared/wire/chat.ts'
import type { GenerationOptions, Message } from './conversation.ts'

/**
 * A retrieved passage that the answer may cite; `number` is its number in the prompt, `headings` are those above it,
 * outermost first, joined by " > ".
 */
export type GroundingPassage = { number: number; source: string; headings?: string; text: string }

/**
 * Checks right before a call is sent that these bytes may go to this model. It is valid once and for a short time.
 * @throws the error that rejects the call; asynchronously if a lookup is needed
 */
export type Entitled = (model: string, body: string) => Promise<void> | undefined

/** Requests the right to send exactly this body to this model; called as soon as both are known. */
export type Entitle = (model: string, body: string) => Entitled

/** The head of a provider's response: the HTTP status, and the provider's request id if it sends one. */
export type ProviderHead = { status: number; requestId: string | undefined }
export type OnHead = (head: ProviderHead) => void

/** A validated and clamped request to a provider. */
export type ProviderCall = {
  /** The provider's name of the model, without `<provider>/`. */
  model: string
  /** The system prompt for the model, with the retrieved passages fenced inside; empty for none. */
  system: string
  messages: readonly Message[]
  /** Retrieved passages for `local/extract`; null when the request does no retrieval. */
  grounding: { index: string; passages: readonly GroundingPassage[] } | null
  /** Undefined: the model's default. */
  temperature: number | undefined
  /** The caller did not set this temperature, so it is dropped for a model that does not accept one. */
  temperatureIsDefault?: boolean | undefined
  /** Undefined: no limit is sent, and the model's own applies. */
  maxTokens: number | undefined
  stream: boolean
  /** Undefined for a plain chat. */
  options?: GenerationOptions | undefined
  /** Asks the provider not to train on this call. */
  noTraining?: boolean | undefined
  /** Required to send a governed call. Undefined for calls that the gateway makes for itself. */
  entitle?: Entitle | undefined
  /** Called with the head of the HTTP response, whatever its status. */
  onHead?: OnHead | undefined
  /** Limits on the whole attempt, the first part, and silence between parts; milliseconds. */
  timeouts: { attemptMs: number; firstTokenMs: number; stallMs: number }
}

/**
 * The outcome of a provider call. It alone decides about billing, receipts, events and finish_reason. `complete` |
 * `length` (token limit) | `filtered` (the provider withheld text) are answers. `truncated` (ended without its terminal
 * event) | `error` | `aborted` (the client disconnected) are not.
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
  reasoningTokens: number
  /** True when the provider gave no count and ours was used. */
  estimated: boolean
}

/** One step of an answer. A complete answer ends with exactly one `end`. */
export type ChatPart =
  /** `logprobs` as the provider gave them, if they were requested. */
  | { type: 'text'; text: string; logprobs?: unknown }
  /**
   * Signed or encrypted reasoning goes back to its origin in the next turn (conversation.ts). With `isSignatureOfPart`,
   * `data` signs a part of the answer instead of reasoning text.
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
   * A piece of a tool call. The first piece of an index has `id` and `name`; each piece has the next part of the
   * arguments.
   */
  | { type: 'tool_call'; index: number; id?: string; name?: string; arguments: string }
  /** The counts so far, sent in case the answer breaks off or has no later counts. */
  | { type: 'usage'; usage: TokenUsage }
  | {
      type: 'end'
      outcome: 'complete' | 'length' | 'filtered'
      nativeFinishReason: string
      /** The counts of the whole answer; undefined when there are none, or none after the last content. */
      usage: TokenUsage | undefined
    }

export type EmbedCall = {
  /** The provider's name of the model, without `<provider>/`. */
  model: string
  input: readonly string[]
  /** Undefined: the model's default. */
  dimensions?: number | undefined
  /** The end user's name, as the caller gave it. */
  user?: string | undefined
  noTraining?: boolean | undefined
  /** As for a chat. */
  entitle?: Entitle | undefined
  onHead?: OnHead | undefined
  /** The timeout of the whole call. */
  attemptMs: number
}

export type Embeddings = { vectors: number[][]; usage: TokenUsage | undefined }

export type RerankCall = {
  /** The provider's name of the model, without `<provider>/`. */
  model: string
  query: string
  documents: readonly string[]
  /** How many of the best documents to return. */
  count: number
  noTraining?: boolean | undefined
  /** The timeout of the whole call. */
  attemptMs: number
}

/** Indexes into the documents of the call, each at most once, with the model's scores, in any order. */
export type Reranked = { index: number; score: number }[]

export type Provider = {
  name: string
  /** Offered names without `<provider>/`; undefined when any name is passed on. */
  models: readonly string[] | undefined
  /** Its API rejects a chat without `maxTokens`. */
  needsMaxTokens?: true
  /** The minimum number of output tokens that thinking takes with this model, if requested; absent if unknown. */
  leastThinkingTokens?(model: string): number
  /**
   * Starts the call and yields the answer in batches: all parts of one network read together. The first batch is
   * yielded at the commit point: it has content, or the whole answer. So a caller that has received no batch may still
   * try another model. The last part of the last batch is `end`.
   * @throws ProviderError for every other ending; `chat` itself throws it for a call that this provider does not
   * support.
   */
  chat(call: ProviderCall, signal: AbortSignal): AsyncIterable<readonly ChatPart[]>
  /**
   * Counts the input tokens of a call without generating an answer; absent if the API cannot do so. @throws
   * ProviderError
   */
  countTokens?(call: ProviderCall, signal: AbortSignal): Promise<number>
  /**
   * Embeds texts: one vector for each, in their order; absent if the API cannot do so.
   * @throws ProviderError
   */
  embed?(call: EmbedCall, signal: AbortSignal): Promise<Embeddings>
  /**
   * Ranks documents by how well they answer a query; absent if the API cannot do so.
   * @throws ProviderError
   */
  rerank?(call: RerankCall, signal: AbortSignal): Promise<Reranked>
  close(): Promise<void>
}

/**
 * Failures that only the operator can fix: the provider rejects our key or account, does not have the model, or the
 * account's credit or long-term quota is used up. Waiting and retrying do not help.
 */
export const OPERATOR_REASONS = ['auth_failed', 'model_not_found', 'quota_exhausted'] as const
export type OperatorReason = (typeof OPERATOR_REASONS)[number]

/** The reason of a failed attempt, for the failover chain: failover triggers, and reasons that never cause a failover. */
export type FailureReason =
  | FailoverTrigger
  | OperatorReason
  | 'bad_request'
  | 'context_length'
  | 'content_filter'
  | 'aborted'

const OPERATORS: ReadonlySet<string> = new Set(OPERATOR_REASONS)

export const isOperatorReason = (reason: FailureReason): reason is OperatorReason => OPERATORS.has(reason)

/** Whether a failure is one of these triggers; those of OPERATOR_REASONS count as `server_error`. */
export const isTrigger = (reason: FailureReason, triggers: ReadonlySet<string>): boolean =>
  triggers.has(isOperatorReason(reason) ? 'server_error' : reason)

/** A provider call that ended without an answer. `message` may be shown to the caller; bodies never are. */
export class ProviderError extends Error {
  override name = 'ProviderError'
  readonly reason: FailureReason
  /** `truncated` when the upstream ended without its terminal event, else `error` or `aborted`. */
  readonly outcome: 'truncated' | 'error' | 'aborted'
  /** HTTP status of the upstream, when there was one. */
  readonly upstreamStatus: number | undefined
  /** The wait that the upstream's Retry-After requests, in seconds. */
  readonly retryAfterSeconds: number | undefined
  /** The operator must act: it is logged as an error and never retried. Set for OPERATOR_REASONS and for redirects. */
  readonly alarm: boolean

  constructor(
    reason: FailureReason,
    message: string,
    options: ErrorOptions & {
      outcome?: 'truncated' | 'error' | 'aborted'
      upstreamStatus?: number
      retryAfterSeconds?: number | undefined
      alarm?: boolean
    } = {},
  ) {
    super(message, options)
    this.reason = reason
    this.outcome = options.outcome ?? (reason === 'aborted' ? 'aborted' : 'error')
    this.upstreamStatus = options.upstreamStatus
    this.retryAfterSeconds = options.retryAfterSeconds
    this.alarm = options.alarm ?? isOperatorReason(reason)
  }
}

/**
 * Where a call is processed. `here`: in this process. `region` is the provider's configured region, in lower case;
 * undefined when it is not configured or cannot be known.
 */
export type CallLocation = 'here' | { host: string; region: string | undefined }
