// Configuration of requests to models: limits and concurrency.
import { COMPAT_BODY_BYTES, COMPAT_JSON_DEPTH, STALL_TIMEOUT_MS } from '../../shared/spec-limits.ts'

/** Maximum number of concurrent chats of one key, and of waiting ones. */
const KEY_CHATS = { running: 100, waiting: 200 } as const

/** How many chats of one key, and calls of one provider, may run at once; 0 is no limit. */
export type ConcurrencyLimits = { perKey: number; waitingPerKey: number; perProvider: number }

export const DEFAULT_CONCURRENCY: ConcurrencyLimits = {
  perKey: KEY_CHATS.running,
  waitingPerKey: KEY_CHATS.waiting,
  perProvider: 0,
}

/** Limits of the compatibility surfaces, `/v1/*` and `/api/external/v1/*`, and the timeouts of every chat. */
export type RequestLimits = {
  bodyBytes: number
  /** Memory for all large request bodies, over all routes, in bytes; undefined: derived from the machine's memory. */
  bodyMemoryBytes: number | undefined
  jsonDepth: number
  /** The most messages in a request; undefined: no limit. */
  messages: number | undefined
  /** The most tokens of an answer; undefined: no limit beyond the request's own. */
  maxTokens: number | undefined
  /** The most output tokens of a model, by `<provider>/<model>`; overrides the built-in values. */
  outputTokens: Readonly<Record<string, number>>
  /** Default timeouts of an attempt; undefined: built-in defaults, longer for the last model of a chain. */
  firstTokenMs: number | undefined
  attemptMs: number | undefined
  /** The longest silence within a stream. */
  silenceMs: number
}

export const DEFAULT_LIMITS: RequestLimits = {
  bodyBytes: COMPAT_BODY_BYTES.default,
  bodyMemoryBytes: undefined,
  jsonDepth: COMPAT_JSON_DEPTH.default,
  messages: undefined,
  maxTokens: undefined,
  outputTokens: {},
  firstTokenMs: undefined,
  attemptMs: undefined,
  silenceMs: STALL_TIMEOUT_MS,
}
