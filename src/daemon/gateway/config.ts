// Configuration of requests to models: limits and concurrency.
import { COMPAT_BODY_BYTES, COMPAT_JSON_DEPTH, KEY_CHATS, STALL_TIMEOUT_MS } from '../../shared/spec-limits.ts'

/** How many chats of one key, and calls of one provider, may run at once; 0 is no limit. */
export type ConcurrencyLimits = { perKey: number; waitingPerKey: number; perProvider: number }

export const DEFAULT_CONCURRENCY: ConcurrencyLimits = {
  perKey: KEY_CHATS.running,
  waitingPerKey: KEY_CHATS.waiting,
  perProvider: 0,
}

/** Limits of the compatibility surfaces, `/v1/*` and `/api/external/v1/*`, and times of every chat (named-endpoints §26). */
export type RequestLimits = {
  bodyBytes: number
  /** What all large bodies of the daemon may take in memory, on every route; undefined: what the machine has room for. */
  bodyMemoryBytes: number | undefined
  jsonDepth: number
  /** Undefined: any number. */
  messages: number | undefined
  /** Of an answer; undefined: as many as the request asks for. */
  maxTokens: number | undefined
  /** The most tokens that an answer of these models can have, by `<provider>/<model>`; they win over what is known. */
  outputTokens: Readonly<Record<string, number>>
  /** Defaults of an attempt; undefined: ours, which depend on its place in the chain. */
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
