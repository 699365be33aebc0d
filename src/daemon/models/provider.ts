import type { FailoverTrigger } from '../../shared/wire/chat.ts'
import type { GenerationOptions, Message } from './conversation.ts'

/**
 * A passage of a knowledge base that the answer may rest on; `number` is how the prompt refers to it, `headings` are
 * those above it, outermost first, joined by " > ".
 */
export type GroundingPassage = { number: number; source: string; headings?: string; text: string }

/**
 * Says, right before a call leaves, whether these bytes may go to this model: once, and not for long.
 * @throws what refuses the call; or rejects with it, where that has to be looked up.
 */
export type Entitled = (model: string, body: string) => Promise<void> | undefined

/** Asks for the right to send exactly this body to this model; called as soon as both are known. */
export type Entitle = (model: string, body: string) => Entitled

/** What a provider says before the body of its answer: the HTTP status, and its own id of the request if it tells one. */
export type ProviderHead = { status: number; requestId: string | undefined }
export type OnHead = (head: ProviderHead) => void

/** What a provider is asked to do. Everything is checked and clamped. */
export type ProviderCall = {
  /** The provider's own name of the model, without `<provider>/`. */
  model: string
  /** System prompt as the model shall see it, with the retrieved passages fenced inside; empty for none. */
  system: string
  messages: readonly Message[]
  /** Retrieved passages for `local/extract`, and null when the request does no retrieval. */
  grounding: { index: string; passages: readonly GroundingPassage[] } | null
  /** Undefined: whatever the model does by itself. */
  temperature: number | undefined
  /** Nobody asked for that temperature, so a model that refuses to be told any is not told. */
  temperatureIsDefault?: boolean | undefined
  /** Undefined: none is sent, and the model's own limit holds. */
  maxTokens: number | undefined
  stream: boolean
  /** Undefined for a plain chat. */
  options?: GenerationOptions | undefined
  /** The provider is told that nobody is to train on this call. */
  noTraining?: boolean | undefined
  /** Of a call that is governed: nothing leaves without it. Undefined for what the gateway asks on its own account. */
  entitle?: Entitle | undefined
  /** Called with the head of the HTTP response, whatever its status. */
  onHead?: OnHead | undefined
  /** Whole attempt, first part and silence between parts; milliseconds. */
  timeouts: { attemptMs: number; firstTokenMs: number; stallMs: number }
}

/**
 * How a provider call ended; nothing else decides about billing, receipts, events or finish_reason (architecture §3).
 * `complete` | `length` (token limit) | `filtered` (the provider held text back) are answers; `truncated` (ended without
 * its terminal event) | `error` | `aborted` (the client left) are not.
 */
export type Outcome = 'complete' | 'length' | 'filtered' | 'truncated' | 'error' | 'aborted'

/** Tokens as the provider counts them, before anything is believed (usage/counts.ts). Totals are OpenAI-inclusive: input holds the cached, output the reasoning ones. */
export type TokenUsage = {
  inputTokens: number
  outputTokens: number
  cacheReadTokens: number
  cacheWriteTokens: number
  reasoningTokens: number
  /** True when the provider gave no count and ours was used. */
  estimated: boolean
}

/** One step of an answer. A finished answer ends with exactly one `end`. */
export type ChatPart =
  /** `logprobs` as the provider gave them, when they were asked for. */
  | { type: 'text'; text: string; logprobs?: unknown }
  /** What is signed or encrypted goes back to its origin on the next turn (conversation.ts). */
  | { type: 'reasoning'; text: string; origin?: string; signature?: string; data?: string }
  /** A piece of a tool call: the first of an index has `id` and `name`, all of them the next piece of the arguments. */
  | { type: 'tool_call'; index: number; id?: string; name?: string; arguments: string }
  /** What the provider has counted until here, of an answer that goes on: it may break, or never be counted again. */
  | { type: 'usage'; usage: TokenUsage }
  | {
      type: 'end'
      outcome: 'complete' | 'length' | 'filtered'
      nativeFinishReason: string
      /** The counts of the whole answer; undefined when there are none, or none since its last words. */
      usage: TokenUsage | undefined
    }

export type EmbedCall = {
  /** The provider's own name of the model, without `<provider>/`. */
  model: string
  input: readonly string[]
  /** Undefined: as many as the model gives. */
  dimensions?: number | undefined
  /** The end user, as the caller names them. */
  user?: string | undefined
  noTraining?: boolean | undefined
  /** Both as those of a chat. */
  entitle?: Entitle | undefined
  onHead?: OnHead | undefined
  /** How long it may take in all. */
  attemptMs: number
}

export type Embeddings = { vectors: number[][]; usage: TokenUsage | undefined }

export type RerankCall = {
  /** The provider's own name of the model, without `<provider>/`. */
  model: string
  query: string
  documents: readonly string[]
  /** How many of the best documents are wanted. */
  count: number
  noTraining?: boolean | undefined
  /** How long it may take in all. */
  attemptMs: number
}

/** Places among the documents of the call, each at most once, with what the model says of them, in any order. */
export type Reranked = { index: number; score: number }[]

export type Provider = {
  name: string
  /** Names it offers without `<provider>/`; undefined when it takes any (the upstream decides). */
  models: readonly string[] | undefined
  /** Its interface refuses a chat without `maxTokens`. */
  needsMaxTokens?: true
  /** How many tokens of an answer thinking takes at least with this model, when it is asked for; absent where none is known. */
  leastThinkingTokens?(model: string): number
  /**
   * Starts the call and yields what the upstream said, in batches: all parts of one network read together. The first
   * batch is yielded only at the commit point: it holds content (or the whole answer), so a caller that has not
   * received a batch may still try another model. The last part of the last batch is `end`.
   * @throws ProviderError for every other way to end; `chat` itself does for what cannot be asked of this provider.
   */
  chat(call: ProviderCall, signal: AbortSignal): AsyncIterable<readonly ChatPart[]>
  /**
   * Counts the tokens that a call would give its model to read, without having it answered; absent where there is no such
   * interface. @throws ProviderError
   */
  countTokens?(call: ProviderCall, signal: AbortSignal): Promise<number>
  /**
   * Turns texts into vectors, one for each and in their order; absent where there is no such interface.
   * @throws ProviderError
   */
  embed?(call: EmbedCall, signal: AbortSignal): Promise<Embeddings>
  /**
   * Says which documents answer a query best; absent where there is no such interface.
   * @throws ProviderError
   */
  rerank?(call: RerankCall, signal: AbortSignal): Promise<Reranked>
  close(): Promise<void>
}

/**
 * Failures that only the operator can end: the provider rejects our key or account, has no such model, or the account's credit
 * or long-term quota is used up. No wait and no repeat helps (named-endpoints §26).
 */
export const OPERATOR_REASONS = ['auth_failed', 'model_not_found', 'quota_exhausted'] as const
export type OperatorReason = (typeof OPERATOR_REASONS)[number]

/** Why an attempt failed, for the failover chain: what may be failed over, or reasons that are never retried elsewhere. */
export type FailureReason =
  | FailoverTrigger
  | OperatorReason
  | 'bad_request'
  | 'context_length'
  | 'content_filter'
  | 'aborted'

const OPERATORS: ReadonlySet<string> = new Set(OPERATOR_REASONS)

export const isOperatorReason = (reason: FailureReason): reason is OperatorReason => OPERATORS.has(reason)

/** Whether a failure is one of these triggers; those of OPERATOR_REASONS count as `server_error` (named-endpoints §26). */
export const isTrigger = (reason: FailureReason, triggers: ReadonlySet<string>): boolean =>
  triggers.has(isOperatorReason(reason) ? 'server_error' : reason)

/** A provider call that did not end with an answer. `message` may be shown to the caller; bodies never are. */
export class ProviderError extends Error {
  override name = 'ProviderError'
  readonly reason: FailureReason
  /** `truncated` when the upstream ended without its terminal event, else `error` or `aborted`. */
  readonly outcome: 'truncated' | 'error' | 'aborted'
  /** HTTP status of the upstream, when there was one. */
  readonly upstreamStatus: number | undefined
  /** What the upstream's Retry-After asked for, in seconds. */
  readonly retryAfterSeconds: number | undefined
  /** The operator has to act: logged as an error, and never repeated. Set for OPERATOR_REASONS and for redirects. */
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
