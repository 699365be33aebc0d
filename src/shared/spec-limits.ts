/**
 * Every number of the API, named with its unit. "Ours" marks numbers that this project chose because the contract
 * leaves them open.
 */

/** Version of the interface. */
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

// Compatibility surfaces: an operator sets these under `limits:`. The bounds are ours.
export const COMPAT_BODY_BYTES = { min: 65_536, max: 268_435_456, default: 33_554_432 } as const
/** Maximum memory for all large bodies of one daemon. The default is lower on machines with less memory. */
export const BODY_MEMORY_BYTES = { min: 33_554_432, max: 68_719_476_736, default: 1_073_741_824 } as const
export const COMPAT_JSON_DEPTH = { min: 8, max: 1_000, default: 128 } as const

// Attempts. `min` and `max` bound what a request may ask for. The defaults are ours: `default` applies while another
// model of the chain remains, `last` to the last one.
/** The default applies to a whole answer; a stream has no such limit unless the request sets one. */
export const ATTEMPT_TIMEOUT_MS = { min: 1_000, max: 300_000, default: 120_000, last: 600_000 } as const
export const FIRST_TOKEN_TIMEOUT_MS = { min: 500, max: 60_000, default: 30_000, last: 300_000 } as const
/** Maximum pause between two parts of a running stream. */
export const STALL_TIMEOUT_MS = 300_000
/** Bounds of these timeouts in the configuration. Ours. */
export const CONFIGURED_TIMEOUT_MS = { min: 1_000, max: 3_600_000 } as const

// Idempotency
export const IDEMPOTENCY_KEY_CHARS = 255
export const IDEMPOTENCY_HOURS = 24
/** Maximum size of a response that is stored for replays. Ours. */
export const IDEMPOTENCY_RESULT_BYTES = 4_194_304
/** Maximum backlog of a client whose response is stored, so that a replay does not wait for a slow client. Ours. */
export const IDEMPOTENCY_BACKLOG_BYTES = 1_048_576
/** How many expired responses are deleted at a time. */
export const IDEMPOTENCY_PURGE_ROWS = 500
/**
 * With several daemons: the lease of the daemon that runs a request, how often it renews the lease, and how often the
 * others poll. Clocks may differ by the lease time minus the renewal interval.
 */
export const IDEMPOTENCY_LEASE_MS = 10_000
export const IDEMPOTENCY_RENEW_MS = 3_000
export const IDEMPOTENCY_POLL_MS = 100

// HTTP edge
export const HEADER_BYTES = 16_384
export const HEADER_COUNT = 100
export const HEADERS_TIMEOUT_MS = 10_000
/** Time to receive a body. A larger body gets the same time again for each BODY_PART_BYTES received within it. */
export const REQUEST_TIMEOUT_MS = 30_000
export const BODY_PART_BYTES = 1_048_576
/** Uploads may take long but must not stall: SOCKET_QUIET_MS applies to them too. */
export const UPLOAD_TIMEOUT_MS = 900_000
/** A connection on which the client neither reads nor sends for this time is closed. Longer than REQUEST_TIMEOUT_MS. */
export const SOCKET_QUIET_MS = 45_000
/** How long the connection of a rejected request stays open for the rest of its body after the response was sent. */
export const LINGER_MS = 2_000
/** Maximum number of concurrent requests; further ones get 503. */
export const RUNNING_REQUESTS = 10_000
export const KEEP_ALIVE_TIMEOUT_MS = 72_000
export const CONNECTIONS_CHECK_MS = 1_000
export const CHAT_BODY_BYTES = 1_048_576
export const DEFAULT_BODY_BYTES = 65_536
export const JSON_DEPTH = 32
/**
 * Maximum number of values in one JSON body. Millions of empty values take many times the memory of their bytes. Ours.
 */
export const JSON_VALUES = 1_000_000
/** Approximate memory of a parsed value in addition to its text. Ours. */
export const JSON_VALUE_BYTES = 64
/**
 * Memory for each byte of a body until its request ends: raw, as text, parsed, and as sent to the provider. V8 stores
 * two bytes for each character of a text that contains one beyond Latin-1. Measured with 31 MB of each. Ours.
 */
export const BODY_COPIES = { ascii: 4, other: 7 } as const
/** Larger bodies are parsed one at a time, in steps that yield to other requests. Ours. */
export const LARGE_BODY_BYTES = 1_048_576
/** This much of each body does not count towards the memory of all bodies. Ours. */
export const FREE_BODY_BYTES = 65_536
/** `Retry-After` when there is no memory for a body. Ours. */
export const MEMORY_RETRY_AFTER_SECONDS = 5
export const STREAM_BUFFER_BYTES = 262_144
export const DRAIN_TIMEOUT_MS = 25_000
/** How long aborted requests may take to end after the drain timeout. */
export const DRAIN_ABORT_MS = 1_000

// Provider streams
/** Maximum size of one SSE event of a provider; a larger one is an error of the provider. */
export const PROVIDER_EVENT_BYTES = 16_777_216
export const PROVIDER_BODY_BYTES = 33_554_432
/** Maximum size of all events of one stream: more than twice a body, because each event repeats its envelope. */
export const PROVIDER_STREAM_BYTES = 67_108_864
/** Maximum size of all headers of one response. */
export const PROVIDER_HEAD_BYTES = 32_768
export const PROVIDER_CONNECT_TIMEOUT_MS = 10_000
/** How long an idle connection is kept, or less if the server says so. Many servers close one after 5 seconds. */
export const PROVIDER_IDLE_CONNECTION_MS = 4_000

// Model servers on this machine
/** How long one may take to respond. */
export const LOCAL_PROBE_MS = 300
export const LOCAL_MODELS_BYTES = 1_048_576

// Knowledge
export const INDEX_NAME = /^[a-z0-9-]{3,50}$/
export const TRAIN_FILES = 20
export const TRAIN_FILE_BYTES = 52_428_800
export const TRAIN_TEXT_INPUTS = 100
/** Maximum size of all `text_inputs`; send longer texts as files. Ours. */
export const TRAIN_TEXT_BYTES = 10_485_760
/**
 * Maximum depth and number of values of `text_inputs`; above its valid maximum, so that an error still names the fault.
 * Ours.
 */
export const TEXT_INPUTS_DEPTH = 4
export const TEXT_INPUTS_VALUES = 10_000
/** Maximum size of a part of the body that is neither a file nor `text_inputs`; it is ignored. Ours. */
export const TRAIN_OTHER_PART_BYTES = 65_536
/** Maximum number of passages of one document: 1.5 times the need of 50 MB of prose. Ours. */
export const DOCUMENT_PASSAGES = 100_000
/** Maximum length of a document's name. Ours. */
export const DOCUMENT_NAME_CHARS = 500
/** Maximum size of a training's body, including skipped files that are too large. Ours. */
export const TRAIN_BODY_BYTES = 4_294_967_296
/** Maximum number of concurrent trainings of one tenant in one daemon: each may use a gigabyte of disk. Ours. */
export const TRAININGS = 8
/** `Retry-After` when no training slot is free. Ours. */
export const TRAINING_RETRY_AFTER_SECONDS = 5
/** The location that an index reports under a licence that fixes it. */
export const INDEX_PLACES: Readonly<Record<string, { cloud: string; region: string } | undefined>> = {
  Essential: { cloud: 'aws', region: 'us-east-1' },
}
/** Maximum number of indexes assigned to one user, by licence; only the first is from the contract. */
export const PERSONAL_INDEXES = { Essential: 2, Growth: 10, Ultra: 50, 'Early Access': 50 } as const
/** Maximum length of a search query; the rest is ignored. Ours. */
export const QUERY_CHARS = 4_000
/** Cache of index terms for searches on PostgreSQL. Ours. */
export const SEARCH_CACHE_BYTES = 67_108_864
/** A merge or rebuild is abandoned when its daemon has not renewed the lease for this time. Ours. */
export const MERGE_LEASE_MS = 150_000
/** How often a rebuild renews its lease, and the wait before it starts again. Ours. */
export const REBUILD_RENEW_MS = 30_000
export const REBUILD_PAUSE_MS = 250

// Reading files of every format. All ours.
/** Maximum rate of all uploads of one daemon. */
export const UPLOAD_BYTES_PER_SECOND = 67_108_864
/** From a file's first byte to its last passage. */
export const EXTRACT_TIMEOUT_MS = 120_000
/** Maximum JavaScript heap of the process that reads a file, and the maximum growth of that process. */
export const EXTRACT_HEAP_MB = 768
export const EXTRACT_GROWTH_BYTES = 1_073_741_824
export const EXTRACT_WATCH_MS = 200
/** How long an idle process is kept for the next file. */
export const EXTRACT_IDLE_MS = 60_000
/** Maximum text of one document. */
export const EXTRACT_TEXT_CHARS = 67_108_864
export const CONTAINER_ENTRIES = 10_000
/** Maximum unpacked size of the text parts of a ZIP-based file. */
export const CONTAINER_UNPACKED_BYTES = 104_857_600
export const PDF_PAGES = 5_000
/** Maximum unpacked size of one PDF stream on the fast path. */
export const PDF_STREAM_BYTES = 67_108_864
/** Maximum nesting of HTML elements; JSON has a separate limit. */
export const HTML_DEPTH = 5_000
export const JSON_DOCUMENT_DEPTH = 100

export const SEARCH_TOP_K = { min: 1, max: 50, default: 10 } as const
export const SEARCH_CONTENT_CHARS = 500

// Lists
export const PAGE_LIMIT = { max: 100, default: 20, large: 50 } as const

/** Maximum length of a list's `search`. Ours. */
export const SEARCH_CHARS = 200

// Access management. The lengths are ours.
export const NAME_CHARS = 100
export const DESCRIPTION_CHARS = 2000
export const EMAIL_CHARS = 254
export const GROUP_USERS = 10_000
/** Members included with each group of a list; the group itself shows all. */
export const GROUP_LIST_USERS = 100
/** Fits a group of GROUP_USERS ids and a long description. */
export const GROUP_BODY_BYTES = 524_288
export const ROLE_NAME = /^[a-z][a-z0-9_-]{1,63}$/
export const USERNAME = /^[a-z0-9.-]{3,30}$/
export const USERNAME_CHARS = { min: 3, max: 30 } as const

// Request rates. Windows follow the calendar, in UTC.
/** Administrators' writes, for each key and route. */
export const WRITE_RATE = { minute: 50, day: 5_000, month: 150_000 } as const
/** Administrators' reads, for each key and route. */
export const READ_RATE = { minute: 100, day: 10_000, month: 300_000 } as const
/** Default limits of a key over all routes. */
export const KEY_RATE = { minute: 60, hour: 1_000, day: 100, month: 10_000 } as const
export const KEY_RATE_MAX = { minute: 1_000, hour: 10_000 } as const

/** How long counters are kept after their window, and how many older ones are deleted at a time. Ours. */
export const COUNTERS_KEPT_DAYS = 62
export const COUNTERS_PURGE_ROWS = 500

// Keys
export const KEY_LIST_ENTRIES = 100
/** Maximum age of cached keys in a daemon, and so the maximum delay of a revocation. */
export const KEY_CACHE_MS = 2_000

/** Maximum time between fixing the bytes of a call and sending them. */
export const ENTITLEMENT_SECONDS = 60

// End of provider streams
/**
 * How long to wait for usage and the end marker after the finish reason, and for the end of a connection that is read
 * out.
 */
export const STREAM_END_GRACE_MS = 300
/** Maximum bytes to read of a provider's error body, for its error code. */
export const PROVIDER_ERROR_BODY_BYTES = 65_536

// Embeddings
/** Maximum number of texts in one request, as in OpenAI's API. */
export const EMBEDDING_INPUTS = 2_048

// Failover. All ours.
/**
 * With `redundancy.commit: "complete"`, a streamed answer is buffered up to this size. A longer one starts before it is
 * complete.
 */
export const HELD_ANSWER_BYTES = 1_048_576
/** Retries of one model before the next one is called. */
export const SAME_MODEL_RETRIES = { max: 3, default: 0 } as const
/** The pause before a retry of a model that sent no Retry-After. */
export const RETRY_PAUSE_MS = 250
/** A longer Retry-After of a provider is reduced to this. */
export const RETRY_AFTER_SECONDS = 86_400

// Circuit breaker. All ours.
/** This many consecutive failures within this time open the circuit of a model. */
export const CIRCUIT_FAILURES = 5
export const CIRCUIT_WINDOW_MS = 60_000
/** The pause before an open circuit is probed: `min` at first, then doubled each time up to `max`. */
export const CIRCUIT_PROBE_MS = { min: 5_000, max: 30_000 } as const
/** Maximum number of circuits; those with the oldest failure are evicted. */
export const CIRCUITS_KEPT = 10_000

// Load. All ours.
/** Maximum number of concurrent chats of one key, and of waiting ones. */
export const KEY_CHATS = { running: 100, waiting: 200 } as const
/** Maximum wait for a slot. */
export const TURN_WAIT_MS = 10_000
/** `Retry-After` when no slot is free. */
export const TURN_RETRY_AFTER_SECONDS = 2

// Billing. All ours.
/** Maximum monthly budget in dollars: the largest that a number can represent in nano-dollars. */
export const DOLLAR_LIMIT_MAX = 9_000_000
/** Maximum price of a million tokens in the configuration, in dollars. */
export const PRICE_MAX = 1_000
/** Maximum points for one answer of a model. */
export const POINTS_PER_ANSWER_MAX = 1_000
/** Input tokens reserved before a call for each of these, in addition to the bytes of its text. */
export const RESERVED_TOKENS = { message: 32, tools: 1_024, image: 5_000 } as const
/** The likely number of tokens of each, for estimates when the provider reports no count. */
export const ESTIMATED_TOKENS = { message: 4, tools: 100, image: 1_000 } as const
/** Maximum `max_tokens` of a request: far above what models can output, and far below where prices lose precision. */
export const ANSWER_TOKENS_MAX = 10_000_000
/** Output tokens to reserve when neither the model's limit is known nor the request sets one. */
export const UNKNOWN_OUTPUT_TOKENS = 4_096
/**
 * A request is rejected when its budget covers fewer output tokens. `alone` applies when it could use all of the
 * unspent budget. `shared` applies while other requests have reservations, most of which are released soon.
 */
export const LEAST_OUTPUT_TOKENS = { alone: 256, shared: 1_024 } as const
/**
 * A provider's token counts are trusted up to `times` our own estimate plus `beyond`. `output` is the maximum for an
 * answer without a limit.
 */
export const PLAUSIBLE_TOKENS = { times: 10, beyond: 100_000, output: 128_000 } as const
/** On PostgreSQL: the lease of a reservation, and how often its daemon renews it. */
export const RESERVATION_LEASE_MS = 60_000
export const RESERVATION_RENEW_MS = 15_000
/** How long a request waits for locked counters before it is decided separately. */
export const SPEND_LOCK_WAIT_MS = 1_000
/** `Retry-After` when the remaining budget is reserved, but not spent. */
export const RESERVED_RETRY_AFTER_SECONDS = 2
/** How often a model without a price is reported. */
export const PRICE_ALARM_MS = 3_600_000

// Listening to events (`aigw webhooks listen`). All ours.
/** How often to poll for a listener's events. */
export const LISTEN_LOOK_MS = 500
/** Interval of pings on an idle stream: shorter than the timeouts of proxies and SOCKET_QUIET_MS. */
export const LISTEN_PING_MS = 15_000
/** Maximum delay between an event's time and its commit; includes differences between daemons' clocks. */
export const LISTEN_LATE_MS = 5_000
/** Maximum number of events of one poll, or one page. */
export const LISTEN_EVENTS = 100
/** Maximum number of concurrent listeners, of one tenant and of one daemon. */
export const LISTENERS = { perTenant: 10, perDaemon: 100 } as const

// Webhook delivery
/** Total time of one attempt: from the DNS look-up to the last byte read of the response. */
export const WEBHOOK_ATTEMPT_MS = 5_000
/** Waits before attempts 1, 2 and 3; the later two begin when the previous attempt has ended. */
export const WEBHOOK_WAITS_MS = [0, 10_000, 60_000] as const
/** This many consecutive deliveries that used up their attempts disable the endpoint. */
export const WEBHOOK_FAILURES_BEFORE_DISABLE = 20
/** The operator is warned at these counts. Ours, like everything below. */
export const WEBHOOK_FAILURES_WARNED: readonly number[] = [10, 15]
export const WEBHOOK_URL_CHARS = 2_048
/** Maximum bytes stored of a response; then the connection is closed. */
export const WEBHOOK_RESPONSE_BYTES = 4_096
/**
 * Maximum bytes read from a connection in one attempt, including headers, informational responses and chunk framing.
 */
export const WEBHOOK_READ_BYTES = 65_536
/** How long an idle connection may be reused. Servers keep theirs longer. */
export const WEBHOOK_REUSE_MS = 1_000
/** How long creating an endpoint waits for DNS. */
export const WEBHOOK_LOOKUP_MS = 2_000
/** Maximum time that DNS results are cached, whatever their TTL. */
export const WEBHOOK_DNS_CACHE_MS = 5_000
/** How long the addresses of one family wait for the other. */
export const WEBHOOK_OTHER_FAMILY_MS = 300
/** Maximum number of concurrent attempts to one endpoint. */
export const WEBHOOK_ENDPOINT_CONCURRENCY = 2
/** Deliveries of one endpoint that a daemon claims ahead, so that one commit serves many. */
export const WEBHOOK_CLAIM_AHEAD = 64
/**
 * Maximum number of concurrent attempts of one daemon; `all` is the total. `brisk` attempts are younger than
 * WEBHOOK_SLOW_MS. `stuck` are those to endpoints whose last attempt timed out. The rest may become slow. Known slow
 * endpoints start at most `slow` attempts, so that others can still become slow.
 */
export const WEBHOOK_SLOTS = { brisk: 256, stuck: 64, slow: 600, all: 1_500 } as const
export const WEBHOOK_SLOW_MS = 300
/** How long an endpoint stays classified as slow or stuck. Longer than the longest wait between two attempts. */
export const WEBHOOK_PACE_MS = 120_000
/** The lease of a daemon's deliveries; other daemons take over expired ones. */
export const WEBHOOK_LEASE_MS = 30_000
/** Maximum difference of the clocks of daemons that share a store. */
export const WEBHOOK_CLOCK_SLACK_MS = 300_000
/** How long a daemon may use an endpoint's settings before it reads them again. */
export const WEBHOOK_SETTINGS_MS = 2_000
/** How often to poll for deliveries and events of other daemons. */
export const WEBHOOK_SWEEP_MS = 5_000
/** How long a stopping daemon waits for attempts in flight; an interrupted attempt is repeated. */
export const WEBHOOK_DRAIN_MS = 1_000
/** Maximum number of events, and deliveries, in one transaction. */
export const WEBHOOK_BATCH = { events: 500, deliveries: 1_000, endpoints: 64 } as const
/** How long sent and dropped deliveries can be viewed and resent, and how many older ones are deleted at a time. */
export const WEBHOOK_KEPT_DAYS = 30
export const WEBHOOK_PURGE_ROWS = 500
/** Maximum number of held deliveries of one disabled endpoint; the oldest above it are dropped. */
export const WEBHOOK_HELD = 10_000
/** Maximum count of held deliveries shown for an endpoint. */
export const WEBHOOK_HELD_COUNTED = 1_000

// Webhooks, management. All ours.
/** Maximum number of endpoints of one tenant: the list shows all of them. */
export const WEBHOOK_ENDPOINTS = 2_000
/** Maximum time during which two secrets both sign. */
export const WEBHOOK_OVERLAP_SECONDS = 604_800
/** Maximum number of deliveries that one call of recover requeues. */
export const WEBHOOK_RECOVERED = 1_000
/** Default tolerance between a receiver's clock and the timestamp of a signature. */
export const SIGNATURE_TOLERANCE_SECONDS = 300

/** Retention of incidents. */
export const INCIDENTS_KEPT_DAYS = 365
export const INCIDENTS_PURGE_ROWS = 500

// Policies. All ours.
/** Maximum number of custom policies of one tenant: the list shows all of them. */
export const CUSTOM_POLICIES = 200
/** Maximum number of entries of each list in a policy. */
export const POLICY_LIST_ENTRIES = 200
export const POLICY_RETENTION_DAYS = { min: 1, max: 3_650 } as const
/** Maximum age of a tenant's cached policies in a daemon, and so the maximum delay of a change. */
export const POLICY_CACHE_MS = 2_000

// Prompt shield. All ours.
/** Maximum number of system prompt snippets that one scan of an output may search for. */
export const SHIELD_SNIPPETS = 20
/** Maximum number of custom shield policies of one tenant: the list shows all of them. */
export const SHIELD_POLICIES = 200
/** Maximum age of a tenant's cached shield policies in a daemon. */
export const SHIELD_POLICY_CACHE_MS = 2_000
/** Timeout of a judge's answer. */
export const SHIELD_JUDGE_MS = 5_000
export const SHIELD_JUDGE_TOKENS = 200
/**
 * After a failure, a tenant does not call the judge for this time. And the tenant's maximum number of concurrent calls.
 */
export const SHIELD_JUDGE_PAUSE_MS = 10_000
export const SHIELD_JUDGES_AT_ONCE = 8
/** This many consecutive failed scans within `withinMs` pause scanning for `pauseMs`. */
export const SHIELD_BREAKER = { failures: 5, withinMs: 30_000, pauseMs: 30_000 } as const

// Vectors of passages. All ours.
/** Passages in one call to an embedding model. */
export const EMBEDDING_BATCH = { max: 2_048, default: 64 } as const
/** Maximum number of dimensions of a stored vector. */
export const EMBEDDING_DIMENSIONS = 8_192
/** Maximum number of concurrent calls, and the timeout of one. */
export const EMBEDDING_CALLS = 4
export const EMBEDDING_ATTEMPT_MS = 60_000
/** How often to poll for passages without a vector. */
export const EMBEDDING_LOOK_MS = 2_000
/** The lease of the daemon that embeds; another one takes over when it expires. Longer than two attempts. */
export const EMBEDDING_LEASE_MS = 150_000
/** The wait after a failure: `min` at first, then doubled each time up to `max`. */
export const EMBEDDING_RETRY_MS = { min: 1_000, max: 300_000 } as const
/** Documents that are embedded before the next index has its turn. */
export const EMBEDDING_DOCUMENTS = 64
/**
 * How long a search waits for its query's vector, unless configured, or for a rerank. After a failure or timeout, the
 * service is skipped for a while.
 */
export const QUERY_VECTOR_MS = { default: 500, max: 10_000 } as const
export const RERANK_MS = 2_000
export const SEMANTIC_PAUSE_MS = 10_000
/** How long a failed vector extension is not used. */
export const EXTENSION_PAUSE_MS = 60_000
/** Maximum length of the query text that is embedded or reranked, and the number of query vectors in the cache. */
export const QUERY_VECTOR_CHARS = 4_000
export const QUERY_VECTORS_KEPT = 1_000
/** Number of passages whose full vectors are compared; before that, all passages are compared by signature. */
export const VECTOR_CANDIDATES = 2_000
/** Number of top passages of each ranking that are fused, and the constant of the fusion. */
export const FUSED_PASSAGES = 100
export const FUSION_K = 60
/** Number of top passages that are reranked. */
export const RERANKED_PASSAGES = 50

// Rules of data loss prevention and personal data. All ours.
/** Maximum number of rules of one tenant: the list shows all of them. */
export const GUARD_RULES = 100
/** Maximum length of a pattern, and of its compiled program: both bound its run time. */
export const GUARD_PATTERN = { chars: 500, program: 250 } as const
/** Maximum length of a pattern's match; a stream is held back by this much. */
export const GUARD_MATCH_CHARS = { min: 1, max: 1_024, default: 256 } as const
export const GUARD_WORDS = { max: 2_000, chars: 200, totalChars: 20_000 } as const
/**
 * Budget of a tenant's patterns for one request, and for one answer. A character costs as many steps as the program
 * has, about 20 ns each. Unread text counts as a match. A stream is charged for its new text; re-read text costs at
 * least a sixteenth.
 */
export const GUARD_SCAN_STEPS = 200_000_000
/** Limits of the samples of one simulation. */
export const GUARD_SAMPLES = { max: 20, chars: 10_000 } as const
/** Maximum age of a tenant's cached rules in a daemon, and so the maximum delay of a change. */
export const GUARD_RULE_CACHE_MS = 2_000

// Logs, receipts and transparency
export const BUNDLE_ID_CHARS = 128
/** Time range of a list of logs whose query names no day. */
export const LOG_WINDOW_DAYS = 7
/** Rows of one response to a verifier of the log, and chains of one export. Ours, like everything below. */
export const EVIDENCE_PAGE = 1_000
/** Fits an export of EVIDENCE_PAGE chains. */
export const SIGN_EXPORT_BODY_BYTES = 524_288
/** Maximum number of rows of a compliance report in CSV. */
export const COMPLIANCE_REPORT_ROWS = 10_000
/** Public proofs: requests of one address in a minute, concurrent look-ups, and addresses to remember. */
export const PUBLIC_PROOF_RATE = { perMinute: 120, atOnce: 8, addresses: 10_000 } as const
/** How long clients may cache the published keys. */
export const KEY_SET_MAX_AGE_SECONDS = 300

/** Maximum delay until a daemon sees another daemon's new evidence key. */
export const EVIDENCE_KEY_CACHE_MS = 2_000
/** Number of chains whose last entry a daemon caches; the others are looked up. */
export const EVIDENCE_HEADS = 10_000
/** Number of chains whose tree a daemon caches, up to its last checkpoint; the others are rebuilt. */
export const EVIDENCE_TREES = 1_000
/** A chain gets a checkpoint after this many new entries, or this long after the last one if it has grown. */
export const EVIDENCE_CHECKPOINT = { entries: 1_000, ms: 3_600_000 } as const
/** Maximum duration of an export of the log: it must contain all earlier entries. */
export const EVIDENCE_EXPORT_MS = 3_600_000
/** Retention of the content of requests' entries. */
export const EVIDENCE_RETENTION_DAYS = { default: 365, max: 36_500 } as const
/** Timeout of a request to a collector of checkpoints. */
export const EVIDENCE_POST_MS = 5_000
/** How many old payloads are expunged at a time. */
export const EVIDENCE_EXPUNGE_ROWS = 500
