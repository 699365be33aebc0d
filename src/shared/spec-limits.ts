/** Every number of the API, named with its unit. Sources: spec *Limits*, and the design decisions where it is silent. */

/** Version of the interface (spec: Versioning). */
export const INTERFACE_VERSION = '1.1.0'

// Chat (spec: POST /chat/completions)
export const MESSAGES_PER_REQUEST = 100
export const MESSAGE_CONTENT_BYTES = 262_144
export const MODELS_PER_CHAIN = 3
export const FALLBACK_MODELS = 2
export const MAX_TOKENS_DEFAULT = 1000
export const MAX_TOKENS_LIMIT = 4000
export const TEMPERATURE_DEFAULT = 0.7
export const TEMPERATURE_LIMIT = 2
export const SOURCES_RETURNED = 3
export const CONVERSATION_ID_CHARS = 256
export const MODEL_ID_CHARS = 256

// Attempts (named-endpoints §6). The defaults are ours.
export const ATTEMPT_TIMEOUT_MS = { min: 1_000, max: 300_000, default: 120_000 } as const
export const FIRST_TOKEN_TIMEOUT_MS = { min: 500, max: 60_000, default: 30_000 } as const
/** The longest silence between two parts of a running stream. */
export const STALL_TIMEOUT_MS = 30_000

// Idempotency
export const IDEMPOTENCY_KEY_CHARS = 255
export const IDEMPOTENCY_HOURS = 24
/** How often expired answers are deleted, and how many at a time. */
export const IDEMPOTENCY_PURGE_MS = 600_000
export const IDEMPOTENCY_PURGE_ROWS = 500

// HTTP edge
export const HEADER_BYTES = 16_384
export const HEADER_COUNT = 100
export const HEADERS_TIMEOUT_MS = 10_000
export const REQUEST_TIMEOUT_MS = 30_000
/** Uploads may take long, but not stand still: SOCKET_QUIET_MS holds for them too. */
export const UPLOAD_TIMEOUT_MS = 900_000
/** A connection on which the client neither reads nor sends for so long is cut. Longer than REQUEST_TIMEOUT_MS. */
export const SOCKET_QUIET_MS = 45_000
/** How long the connection of a refused request stays for the rest of its body, once the answer has left. */
export const LINGER_MS = 2_000
/** Requests that may run at once; a further one gets 503. */
export const RUNNING_REQUESTS = 10_000
export const KEEP_ALIVE_TIMEOUT_MS = 72_000
export const CONNECTIONS_CHECK_MS = 1_000
export const CHAT_BODY_BYTES = 1_048_576
export const DEFAULT_BODY_BYTES = 65_536
export const JSON_DEPTH = 32
export const STREAM_BUFFER_BYTES = 262_144
export const DRAIN_TIMEOUT_MS = 25_000
/** How long requests that were aborted when the drain time was over may take to end. */
export const DRAIN_ABORT_MS = 1_000

// Provider streams
/** One SSE event of a provider may be this long; more is a fault of the provider. */
export const PROVIDER_EVENT_BYTES = 16_777_216
export const PROVIDER_BODY_BYTES = 33_554_432

// Knowledge (named-endpoints §19)
export const INDEX_NAME = /^[a-z0-9-]{3,50}$/
export const TRAIN_FILES = 20
export const TRAIN_FILE_BYTES = 52_428_800
export const TRAIN_TEXT_INPUTS = 100
/** All of `text_inputs` together; longer texts are sent as files. Ours. */
export const TRAIN_TEXT_BYTES = 10_485_760
/** Most passages that one document may be cut into: half again what 50 MB of prose need. Ours. */
export const DOCUMENT_PASSAGES = 100_000
/** Longest name of a document. Ours. */
export const DOCUMENT_NAME_CHARS = 500
export const SEARCH_TOP_K = { min: 1, max: 50, default: 10 } as const
export const SEARCH_CONTENT_CHARS = 500

// Lists (named-endpoints §1.3)
export const PAGE_LIMIT = { max: 100, default: 20, large: 50 } as const

// Keys
/** How long a daemon may go on using what it knows of a key, so also how soon a revocation holds everywhere. */
export const KEY_CACHE_MS = 2_000

// Endings of provider streams
/** How long an answer that has its finish reason waits for usage and the end marker, and a read-out connection for its end. */
export const STREAM_END_GRACE_MS = 300
/** Of a provider's error body this much is read, for its error code. */
export const PROVIDER_ERROR_BODY_BYTES = 65_536
