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
/** All events of one stream: more than twice a body, because each event repeats what it belongs to. */
export const PROVIDER_STREAM_BYTES = 67_108_864

// Model servers of this machine
/** How often they are looked for, and how long one may take to answer. */
export const LOCAL_LOOK_MS = 60_000
export const LOCAL_PROBE_MS = 300
export const LOCAL_MODELS_BYTES = 1_048_576

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

/** Longest `search` of a list. Ours. */
export const SEARCH_CHARS = 200

// Access management. The lengths are ours.
export const NAME_CHARS = 100
export const DESCRIPTION_CHARS = 2000
export const EMAIL_CHARS = 254
export const GROUP_USERS = 10_000
/** Members that come along with each group of a list; the group itself shows all. */
export const GROUP_LIST_USERS = 100
/** A group of GROUP_USERS ids and a long description fit. */
export const GROUP_BODY_BYTES = 524_288
export const ROLE_NAME = /^[a-z][a-z0-9_-]{1,63}$/
export const USERNAME = /^[a-z0-9.-]{3,30}$/
export const USERNAME_CHARS = { min: 3, max: 30 } as const

// Request rates (spec: Limits; named-endpoints §1.2). Windows are those of the calendar, in UTC.
/** Writes of administrators, for each key and route. */
export const WRITE_RATE = { minute: 50, day: 5_000, month: 150_000 } as const
/** Reads of administrators, for each key and route. */
export const READ_RATE = { minute: 100, day: 10_000, month: 300_000 } as const
/** What a key may do in all when nobody said otherwise. */
export const KEY_RATE = { minute: 60, hour: 1_000, day: 100, month: 10_000 } as const
export const KEY_RATE_MAX = { minute: 1_000, hour: 10_000 } as const

/** How long what was counted is kept after its window, how often the rest is deleted, and how many at a time. Ours. */
export const COUNTERS_KEPT_DAYS = 62
export const COUNTERS_PURGE_MS = 86_400_000
export const COUNTERS_PURGE_ROWS = 500

// Keys
export const KEY_LIST_ENTRIES = 100
/** How long a daemon may go on using what it knows of a key, so also how soon a revocation holds everywhere. */
export const KEY_CACHE_MS = 2_000

// Endings of provider streams
/** How long an answer that has its finish reason waits for usage and the end marker, and a read-out connection for its end. */
export const STREAM_END_GRACE_MS = 300
/** Of a provider's error body this much is read, for its error code. */
export const PROVIDER_ERROR_BODY_BYTES = 65_536

// Embeddings
/** Texts in one request; as OpenAI has it. */
export const EMBEDDING_INPUTS = 2_048

// Failover. All ours.
/** With `redundancy.commit: "complete"` so much of a streamed answer is held back; a longer one is begun before it is known. */
export const HELD_ANSWER_BYTES = 1_048_576
/** How often one model may be asked again, at most, before the next one is. */
export const SAME_MODEL_RETRIES = { max: 3, default: 0 } as const
/** How long a model is left alone before it is asked again, when it named no time itself. */
export const RETRY_PAUSE_MS = 250
/** The longest time that a provider's Retry-After is believed to mean. */
export const RETRY_AFTER_SECONDS = 86_400

// Circuit breaker. All ours.
/** So many failures in a row, within this time, and the model is taken to be down. */
export const CIRCUIT_FAILURES = 5
export const CIRCUIT_WINDOW_MS = 60_000
/** When a model that is down is asked again: first after `min`, then each time after twice as long, up to `max`. */
export const CIRCUIT_PROBE_MS = { min: 5_000, max: 30_000 } as const
/** Of more failing models than this, those whose last failure is the oldest are forgotten. */
export const CIRCUITS_KEPT = 10_000

// Load. All ours.
/** Chats of one key that may run at once, and those that may wait for their turn. */
export const KEY_CHATS = { running: 100, waiting: 200 } as const
/** The longest wait for a turn. */
export const TURN_WAIT_MS = 10_000
/** What a request that gets no turn is told to wait. */
export const TURN_RETRY_AFTER_SECONDS = 2
