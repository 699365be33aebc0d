// Configuration of requests to models: limits and concurrency.
import {
  CACHE_TENANT_BYTES,
  CACHE_TTL_MS,
  CLIENT_KEEP_ALIVE_MS,
  COMPAT_BODY_BYTES,
  COMPAT_JSON_DEPTH,
  STALL_TIMEOUT_MS,
} from '../../shared/spec-limits.ts'

/** Maximum number of running chats and of waiting chats, per key. */
const KEY_CHATS = { running: 100, waiting: 200 } as const
/** Maximum number of running chats per tenant. Ten keys at their own limit reach the tenant's limit. */
const TENANT_CHATS = 1_000

/** Limits of concurrent chats per tenant and per key, and of concurrent calls per provider. 0 means unlimited. */
export type ConcurrencyLimits = { perTenant: number; perKey: number; waitingPerKey: number; perProvider: number }

export const DEFAULT_CONCURRENCY: ConcurrencyLimits = {
  perTenant: TENANT_CHATS,
  perKey: KEY_CHATS.running,
  waitingPerKey: KEY_CHATS.waiting,
  perProvider: 0,
}

/**
 * Maximum number of requests that the daemon accepts from a tenant at once: as many requests may wait as may run. This
 * limit includes requests whose body is still arriving, and retries that wait for the first response. Infinity means
 * unlimited.
 */
export const acceptedPerTenant = ({ perTenant }: ConcurrencyLimits): number =>
  perTenant === 0 ? Infinity : 2 * perTenant

/** Limits of the compatibility surfaces, `/v1/*` and `/api/external/v1/*`, and the timeouts of every chat. */
export type RequestLimits = {
  bodyBytes: number
  /**
   * Memory limit for all large request bodies of all routes together, in bytes. Undefined: derived from the machine's
   * memory.
   */
  bodyMemoryBytes: number | undefined
  jsonDepth: number
  /** Maximum number of messages in a request. Undefined: unlimited. */
  messages: number | undefined
  /** Maximum size of all texts of the conversation. Undefined: only the size of the body limits them. */
  contentBytes: number | undefined
  /** Maximum number of tools in a request. Undefined: unlimited. */
  tools: number | undefined
  /** Maximum number of tokens in an answer. Undefined: only the request's own limit applies. */
  maxTokens: number | undefined
  /** The limit of an answer whose request sets none. Undefined: none is added. */
  defaultMaxTokens: number | undefined
  /** Maximum output tokens of a model, by `<provider>/<model>`. Overrides the built-in values. */
  outputTokens: Readonly<Record<string, number>>
  /**
   * Default timeouts of an attempt. Undefined: built-in defaults. The defaults are longer for the last model of a
   * chain.
   */
  firstTokenMs: number | undefined
  attemptMs: number | undefined
  /** Maximum silence within a stream. */
  silenceMs: number
  /** Maximum time without data to a client with a stream. 0: unlimited. */
  keepAliveMs: number
  /** The values of `anthropic-beta` that clients may send. Undefined: all. */
  anthropicBetas: readonly string[] | undefined
  /** Whether requests may contain addresses, which the provider fetches. */
  addresses: boolean
}

/** The Responses API. `store`: whether answers may be stored for later requests. */
export type ResponsesConfig = { store: boolean }

/** The answer cache. `maxBytes`: the size of all stored answers of one tenant. */
export type CacheConfig = { enabled: boolean; ttlMs: number; maxBytes: number }

export const DEFAULT_CACHE: CacheConfig = {
  enabled: false,
  ttlMs: CACHE_TTL_MS.default,
  maxBytes: CACHE_TENANT_BYTES.default,
}

export const DEFAULT_LIMITS: RequestLimits = {
  bodyBytes: COMPAT_BODY_BYTES.default,
  bodyMemoryBytes: undefined,
  jsonDepth: COMPAT_JSON_DEPTH.default,
  messages: undefined,
  contentBytes: undefined,
  tools: undefined,
  maxTokens: undefined,
  defaultMaxTokens: undefined,
  outputTokens: {},
  firstTokenMs: undefined,
  attemptMs: undefined,
  silenceMs: STALL_TIMEOUT_MS,
  keepAliveMs: CLIENT_KEEP_ALIVE_MS.default,
  anthropicBetas: undefined,
  addresses: true,
}
