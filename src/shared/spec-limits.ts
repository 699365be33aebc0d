/**
 * The limits that the API contract fixes, and constants that several files share. Names include units. "Ours" marks
 * values that the contract leaves open and this project chose. If only one file uses a constant, that file defines it.
 */

/** The version of the interface and of the package. A test compares package.json with it. */
export const INTERFACE_VERSION = '1.1.0'

// Chat
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

// Compatibility surfaces. Operators set these limits under `limits:`. The bounds are ours.
export const COMPAT_BODY_BYTES = { min: 65_536, max: 268_435_456, default: 33_554_432 } as const
/** Maximum memory for all large bodies of one daemon. The default is lower on machines with less memory. */
export const BODY_MEMORY_BYTES = { min: 33_554_432, max: 68_719_476_736, default: 1_073_741_824 } as const
/** Maximum length of the address of an image or document. Ours. */
export const URL_CHARS = 8_192
/** Maximum length of the text of one file in a request. A file with more text counts as unread. Ours. */
export const REQUEST_FILE_TEXT_CHARS = 4_194_304
export const COMPAT_JSON_DEPTH = { min: 8, max: 1_000, default: 128 } as const
/** Smallest limit of the text in a request. Ours. */
export const CONTENT_BYTES_MIN = 1_024
/** Largest limit on the number of messages or tools in a request. Ours. */
export const COUNT_LIMIT_MAX = 1_000_000

// Attempts. `min` and `max` bound the values in a request. The defaults are ours: `last` applies to the last model of
// the chain, `default` to all earlier models.
/** The default applies only to non-streaming answers. A stream has a total timeout only if the request sets one. */
export const ATTEMPT_TIMEOUT_MS = { min: 1_000, max: 300_000, default: 120_000, last: 600_000 } as const
export const FIRST_TOKEN_TIMEOUT_MS = { min: 500, max: 60_000, default: 12_000, last: 300_000 } as const
/** The maximum time without data to a client with a stream. Ours. */
export const CLIENT_KEEP_ALIVE_MS = { min: 1_000, max: 300_000, default: 15_000 } as const
/** The maximum pause between two chunks of a running stream. */
export const STALL_TIMEOUT_MS = 300_000

// Idempotency
export const IDEMPOTENCY_KEY_CHARS = 255
export const IDEMPOTENCY_HOURS = 24

// HTTP edge
export const HEADER_BYTES = 16_384
/** Time to receive a body. For a large body, this is the time for each block of BODY_PART_BYTES. */
export const REQUEST_TIMEOUT_MS = 30_000
/**
 * Time to receive an upload. SOCKET_QUIET_MS also applies to uploads, so an upload may take long but must not stall.
 */
export const UPLOAD_TIMEOUT_MS = 900_000
/**
 * Idle timeout: if the client neither reads nor sends for this time, the connection is closed. This timeout is longer
 * than REQUEST_TIMEOUT_MS.
 */
export const SOCKET_QUIET_MS = 45_000
export const CHAT_BODY_BYTES = 1_048_576
export const JSON_DEPTH = 32
/**
 * Bytes of memory that each byte of a body uses until the request ends. This memory contains the raw body, its text,
 * the parsed value, and the provider request. V8 stores two bytes per character if a text contains a character beyond
 * Latin-1. Measured with bodies of 31 MB. Ours.
 */
export const BODY_COPIES = { ascii: 4, other: 7 } as const
export const STREAM_BUFFER_BYTES = 262_144

// Provider streams
/** Maximum size of one SSE event of a provider. A larger event is a provider error. */
export const PROVIDER_EVENT_BYTES = 16_777_216

// Knowledge
export const INDEX_NAME = /^[a-z0-9-]{3,50}$/
export const TRAIN_FILES = 20
export const TRAIN_FILE_BYTES = 52_428_800
export const TRAIN_TEXT_INPUTS = 100
/** The location that an index reports if the licence fixes the location of indexes. */
export const PLANNED_INDEXES_MAX: Readonly<Record<string, { cloud: string; region: string } | undefined>> = {
  Essential: { cloud: 'aws', region: 'us-east-1' },
}
/**
 * Maximum number of indexes assigned to one user, by licence. Only the value for the licence Essential is from the
 * contract.
 */
export const PERSONAL_INDEXES = { Essential: 2, Growth: 10, Ultra: 50, 'Early Access': 50 } as const

// Limits for extracting text from files of any format. All ours.
/** Maximum memory growth of the process that reads a file. */
export const EXTRACT_GROWTH_BYTES = 1_073_741_824

export const SEARCH_TOP_K = { min: 1, max: 50, default: 10 } as const
export const SEARCH_CONTENT_CHARS = 500

// Lists
export const PAGE_LIMIT = { max: 100, default: 20, large: 50 } as const

/** Maximum length of the `search` parameter of lists. Ours. */
export const SEARCH_CHARS = 200

// Access management. The lengths are ours.
export const NAME_CHARS = 100
export const DESCRIPTION_CHARS = 2000
export const EMAIL_CHARS = 254
export const GROUP_USERS = 10_000
/** Maximum members per group in a list response. The response for a single group contains all members. */
export const GROUP_LIST_USERS = 100
export const ROLE_NAME = /^[a-z][a-z0-9_-]{1,63}$/
export const USERNAME = /^[a-z0-9.-]{3,30}$/
export const USERNAME_CHARS = { min: 3, max: 30 } as const

// Request rates. Each window is a calendar minute, hour, day or month in UTC.
/** Limits of administrators' write requests, for each key and route. */
export const WRITE_RATE = { minute: 50, day: 5_000, month: 150_000 } as const
/** Limits of administrators' read requests, for each key and route. */
export const READ_RATE = { minute: 100, day: 10_000, month: 300_000 } as const
/** Default limits of a key over all routes. */
export const KEY_RATE = { minute: 60, hour: 1_000, day: 100, month: 10_000 } as const
export const KEY_RATE_MAX = { minute: 1_000, hour: 10_000 } as const

// Keys
export const KEY_LIST_ENTRIES = 100

// Rejected requests. The numbers count per client address and minute. All ours. A /48 of IPv6 has 4 times these limits,
// and a /32 has 16 times. `total` is the limit of all clients together. `addresses` is the number of addresses that a
// daemon counts separately: at least `total`, so that nobody can evict a count of the current minute. `reportedAt` is the
// number of rejected requests that creates an event.
/** Maximum number of lookups of unknown keys and of malformed keys. */
export const REJECTED_KEYS = { perMinute: 600, total: 20_000, reportedAt: 100, addresses: 20_000 } as const
/** Maximum number of requests for public proofs, and of concurrent lookups. */
export const PUBLIC_PROOF_RATE = { perMinute: 120, total: 6_000, reportedAt: 60, atOnce: 8, addresses: 10_000 } as const
/** The cache of unknown bundle ids: how many it has, and for how long. */
export const UNKNOWN_BUNDLE_IDS = { max: 1_000, ms: 2_000 } as const
/** Maximum number of events about addresses that a daemon stores in a minute. */
export const REJECTION_REPORTS_PER_MINUTE = 100

/** Lifetime of an entitlement: the maximum time between fixing the bytes of a provider call and sending these bytes. */
export const ENTITLEMENT_SECONDS = 60

// End of provider streams
/**
 * The maximum wait for usage and the end marker after the finish reason. It is also the maximum wait for the end of a
 * drained connection.
 */
export const STREAM_END_GRACE_MS = 300

/** Maximum number of answers to one request, as in OpenAI's API. */
export const ANSWER_CHOICES_MAX = 128

// Embeddings
/** Maximum number of texts in one request, as in OpenAI's API. */
export const EMBEDDING_INPUTS = 2_048
/** Documents of one request to rank them. */
export const RERANK_DOCUMENTS = 1_000
/** Texts of one moderation request. */
export const MODERATION_INPUTS = 100

// Failover. All ours.
/** The number of retries of one model before the next model is called. */
export const SAME_MODEL_RETRIES = { max: 3, default: 1 } as const

// Billing. All ours.
/** Maximum monthly budget in dollars. Converted to nano-dollars, it is still a safe integer. */
export const DOLLAR_LIMIT_MAX = 9_000_000
/**
 * Maximum `max_tokens` of a request. The value is far above what models can output, and small enough to compute prices
 * exactly.
 */
export const ANSWER_TOKENS_MAX = 10_000_000
/** The number of output tokens to reserve if the model's limit is unknown and the request sets no limit. */
export const UNKNOWN_OUTPUT_TOKENS = 4_096

// Limits for listening to events (`aigw webhooks listen`). All ours.
/** Interval of pings on an idle stream. It is shorter than SOCKET_QUIET_MS and the usual timeouts of proxies. */
export const LISTEN_PING_MS = 15_000

// Webhook delivery
/** Total time of one attempt: from the DNS look-up to the last byte read of the response. */
export const WEBHOOK_ATTEMPT_MS = 5_000
/** Waits before attempts 1, 2 and 3. The waits before attempts 2 and 3 start when the previous attempt ends. */
export const WEBHOOK_WAITS_MS = [0, 10_000, 60_000] as const
/**
 * After this number of consecutive failed deliveries, the endpoint is disabled. A delivery fails if all its attempts
 * fail.
 */
export const WEBHOOK_FAILURES_BEFORE_DISABLE = 20
/** Ours, like everything below. */
export const WEBHOOK_URL_CHARS = 2_048
/** Maximum number of stored bytes of a receiver's response. When this limit is reached, the connection is closed. */
export const WEBHOOK_RESPONSE_BYTES = 4_096
/** How many deliveries of one endpoint a daemon claims in advance. One commit then covers many deliveries. */
export const WEBHOOK_CLAIM_AHEAD = 64
/** The maximum time for which a daemon uses an endpoint's settings before it reads them again. */
export const WEBHOOK_SETTINGS_MS = 2_000
/** Maximum number of events in one transaction, and maximum number of deliveries in one transaction. */
export const WEBHOOK_BATCH = { events: 500, deliveries: 1_000, endpoints: 64 } as const
/** The period in which sent and dropped deliveries can be viewed and resent. */
export const WEBHOOK_KEPT_DAYS = 30

/** Days that a stored answer of the Responses API is kept, unless its policy sets fewer days. */
export const RESPONSES_KEPT_DAYS = 30
/** Maximum number of stored answers to whose items the input of one request may refer. */
export const REFERRED_RESPONSES = 20
/** Items per page of the list of a stored answer's input. */
export const INPUT_ITEMS_PER_PAGE = { default: 20, max: 100 } as const
/** Maximum number of held deliveries of one disabled endpoint. If there are more, the oldest are dropped. */
export const WEBHOOK_HELD = 10_000
/** The displayed count of an endpoint's held deliveries stops at this number. */
export const WEBHOOK_HELD_COUNTED = 1_000

// Webhooks, management. All ours.
/** The maximum time after a rotation during which deliveries are signed with both secrets. */
export const WEBHOOK_OVERLAP_SECONDS = 604_800
/** Maximum number of deliveries that one call of recover requeues. */
export const WEBHOOK_RECOVERED = 1_000
/** Default tolerance for the difference between a receiver's clock and the timestamp of a signature. */
export const SIGNATURE_TOLERANCE_SECONDS = 300

// Policies. All ours.
/** Maximum number of entries of each list in a policy. */
export const POLICY_LIST_ENTRIES = 200
export const POLICY_RETENTION_DAYS = { min: 1, max: 3_650 } as const
export const POLICY_BLOCK_THRESHOLD = { min: 1, max: 10_000 } as const

// Prompt shield. All ours.
/** Maximum number of system prompt snippets that one scan of an output may search for. */
export const SHIELD_SNIPPETS = 20
/** Maximum number of pieces in the explanation of a scan. */
export const SHIELD_EXPLAINED_PIECES = 200
/**
 * Maximum number of custom shield policies of one tenant. The number is limited because the list shows all policies.
 */
export const SHIELD_POLICIES = 200

// Vectors of passages. All ours.
/** Number of passages in one call to an embedding model. */
export const EMBEDDING_BATCH = { max: 2_048, default: 64 } as const
/** Maximum number of dimensions of a stored vector. */
export const EMBEDDING_DIMENSIONS = 8_192
/** Maximum time that a search waits for the vector of its query. */
export const QUERY_VECTOR_MS = { default: 500, max: 10_000 } as const
/** Maximum length of the query text that is embedded or reranked. */
export const QUERY_VECTOR_CHARS = 4_000
/**
 * How many passages are compared by their full vectors. These passages are chosen by first comparing the vector
 * signatures of all passages.
 */
export const VECTOR_CANDIDATES = 2_000
/** Number of top passages that are reranked. */
export const RERANKED_PASSAGES = 50

// Limits of the rules for data loss prevention and personal data. All ours.
/** Maximum number of rules of one tenant. The number is limited because the list shows all rules. */
export const GUARD_RULES = 100

/** Maximum number of providers that the operator can add through the API, and the length of each of their texts. */
export const STORED_PROVIDERS = 200
export const PROVIDER_TEXT_CHARS = 8_192
/** How often a daemon on a shared store looks for changed providers. */
export const STORED_PROVIDERS_LOOK_MS = 1_000
/**
 * Maximum lengths of a pattern and of its compiled program. Both limits bound how long a match with the pattern can
 * take.
 */
export const GUARD_PATTERN = { chars: 500, program: 250 } as const
/** Maximum length of a pattern's match. This is also the maximum delay of a stream in characters. */
export const GUARD_MATCH_CHARS = { min: 1, max: 1_024, default: 256 } as const
export const GUARD_WORDS = { max: 2_000, chars: 200, totalChars: 20_000 } as const
/** Limits of the samples of one simulation. */
export const GUARD_SAMPLES = { max: 20, chars: 10_000 } as const

// Logs, receipts and transparency
export const BUNDLE_ID_CHARS = 128
/** Default time range of a log list. */
export const LOG_WINDOW_DAYS = 7
/** Maximum rows per response to a log verifier, and maximum chains per export. Ours, like everything below. */
export const EVIDENCE_PAGE = 1_000

/** Maximum delay until a daemon uses a new evidence key that another daemon created. */
export const EVIDENCE_KEY_CACHE_MS = 2_000
/**
 * A chain gets a checkpoint after `entries` new entries. If fewer entries arrive, it gets a checkpoint `ms` after the
 * previous checkpoint.
 */
export const EVIDENCE_CHECKPOINT = { entries: 1_000, ms: 3_600_000 } as const
/**
 * With a witness policy, the last entries of a chain may lack cosignatures only for this time: an hour until the
 * checkpoint, and ten minutes until the witnesses have responded.
 */
export const EVIDENCE_UNCOSIGNED_MS = EVIDENCE_CHECKPOINT.ms + 600_000
/** Maximum length of the reason for which an operator acknowledges lost history. */
export const LOSS_REASON_CHARS = 500
/** Maximum number of witnesses in the configuration. Each one is sent every checkpoint. */
export const WITNESSES_MAX = 16
/** The number of days for which the content of request entries is kept. */
export const EVIDENCE_RETENTION_DAYS = { default: 365, max: 36_500 } as const
/** Maximum length of a provider's own message about a failed attempt, after it was cleaned. */
export const PROVIDER_MESSAGE_CHARS = 300
/** The number of characters of such a message that are read. Cleaning makes a message shorter. */
export const PROVIDER_MESSAGE_RECEIVED_CHARS = 2_000
/** The number of days for which these messages are kept, unless the content of entries is expunged earlier. */
export const PROVIDER_MESSAGE_DAYS = 30

// Attribution and budgets. All ours.
/** Maximum length of a tag. */
export const TAG_CHARS = 64
/**
 * The number of tags that the reports of a tenant list for one day, in addition to tags with a budget. The requests with
 * further tags are summed under OTHER_TAGS.
 */
export const TAGS_PER_DAY = 1_000
/** The shares of a budget, in percent, at which an event is sent. */
export const BUDGET_THRESHOLDS = [50, 80, 100] as const
/** From this share on, in percent, a budget is used up if it refuses a request. */
export const BUDGET_USED_UP_PERCENT = 80
/** How long a daemon may not know what other daemons have spent of a budget, when it looks for thresholds. */
export const BUDGET_REREAD_MS = 10_000
/** The number of budgets of groups and tags that a tenant may have. */
export const BUDGETS_PER_TENANT = 1_000
/** How long other daemons may use a former list of budgets. */
export const BUDGETS_CACHE_MS = 2_000
/** How long before its expiry a key is reported. */
export const KEY_EXPIRING_DAYS = 7

// Answer cache. All ours.
/** The largest answer that is stored, in bytes of text. A longer answer is sent but not stored. */
export const CACHE_ENTRY_BYTES = 1_048_576
/** How long answers are stored. The operator sets it in the file. */
export const CACHE_TTL_MS = { min: 1_000, max: 2_592_000_000, default: 3_600_000 } as const
/** The size of all stored answers of a tenant, in bytes. The operator sets it in the file. */
export const CACHE_TENANT_BYTES = { min: 1_048_576, max: 1_099_511_627_776, default: 67_108_864 } as const
/** Maximum time that a request waits for the answer of an identical request. Then it calls the model itself. */
export const CACHE_WAIT_MS = 60_000

/** The number of tokens that the prompt shield's own model reads at once. */
export const SHIELD_MODEL_TOKENS = { min: 16, max: 8_192 } as const
/** How long a scan waits for the prompt shield's own model. */
export const SHIELD_MODEL_MS = { min: 10, max: 10_000 } as const
export const SHIELD_MODEL_THREADS_MAX = 64
