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

// Compatibility surfaces (named-endpoints §26): an operator sets these under `limits:`. The bounds are ours.
export const COMPAT_BODY_BYTES = { min: 65_536, max: 268_435_456, default: 33_554_432 } as const
/** What all large bodies of one daemon may take in memory. The default is lower where there is less memory. */
export const BODY_MEMORY_BYTES = { min: 33_554_432, max: 68_719_476_736, default: 1_073_741_824 } as const
export const COMPAT_JSON_DEPTH = { min: 8, max: 1_000, default: 128 } as const

// Attempts (named-endpoints §6, §26). `min` and `max` bound what a request may ask for. The defaults are ours: `default` while
// another model of the chain could still answer, `last` for the last one.
/** The default holds for a whole answer; a stream has no such limit unless it asks for one. */
export const ATTEMPT_TIMEOUT_MS = { min: 1_000, max: 300_000, default: 120_000, last: 600_000 } as const
export const FIRST_TOKEN_TIMEOUT_MS = { min: 500, max: 60_000, default: 30_000, last: 300_000 } as const
/** The longest silence between two parts of a running stream. */
export const STALL_TIMEOUT_MS = 300_000
/** What an operator may set these to. Ours. */
export const CONFIGURED_TIMEOUT_MS = { min: 1_000, max: 3_600_000 } as const

// Idempotency
export const IDEMPOTENCY_KEY_CHARS = 255
export const IDEMPOTENCY_HOURS = 24
/** The largest answer that is kept for its repeats. Ours. */
export const IDEMPOTENCY_RESULT_BYTES = 4_194_304
/** How far a client may be behind an answer that is kept: nobody who repeats the request waits for its connection. Ours. */
export const IDEMPOTENCY_BACKLOG_BYTES = 1_048_576
/** How often expired answers are deleted, and how many at a time. */
export const IDEMPOTENCY_PURGE_MS = 600_000
export const IDEMPOTENCY_PURGE_ROWS = 500
/**
 * With several daemons: how long the one that runs a request is believed to live without a word of it, how often it gives
 * one, and how often the others ask. Clocks may differ by the first less the second.
 */
export const IDEMPOTENCY_LEASE_MS = 10_000
export const IDEMPOTENCY_RENEW_MS = 3_000
export const IDEMPOTENCY_POLL_MS = 100

// HTTP edge
export const HEADER_BYTES = 16_384
export const HEADER_COUNT = 100
export const HEADERS_TIMEOUT_MS = 10_000
/** Time for a body. A larger one has as much time again for each part of BODY_PART_BYTES that came within it. */
export const REQUEST_TIMEOUT_MS = 30_000
export const BODY_PART_BYTES = 1_048_576
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
/** Values in one JSON body. Millions of empty ones take many times the memory of their bytes. Ours. */
export const JSON_VALUES = 1_000_000
/** What a parsed value takes in memory beside its text, roughly. Ours. */
export const JSON_VALUE_BYTES = 64
/**
 * What a byte of a body takes in memory until its request ends: as it came, as text, as parsed and as sent to the provider.
 * V8 gives each character of a text two bytes when one of them is beyond Latin-1. Measured with 31 MB of each. Ours.
 */
export const BODY_COPIES = { ascii: 4, other: 7 } as const
/** Larger bodies are parsed one at a time, and others have their turn between the steps. Ours. */
export const LARGE_BODY_BYTES = 1_048_576
/** So much of each body does not count towards the memory of all bodies. Ours. */
export const FREE_BODY_BYTES = 65_536
/** What a request is told to wait whose body found no room. Ours. */
export const MEMORY_RETRY_AFTER_SECONDS = 5
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
/** All headers of one response. */
export const PROVIDER_HEAD_BYTES = 32_768
export const PROVIDER_CONNECT_TIMEOUT_MS = 10_000
/** How long an idle connection is kept, or less where the server says so. Many servers close one after 5 seconds. */
export const PROVIDER_IDLE_CONNECTION_MS = 4_000

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
/** Levels and values of `text_inputs`; beyond what it may hold, so that what is wrong is still named. Ours. */
export const TEXT_INPUTS_DEPTH = 4
export const TEXT_INPUTS_VALUES = 10_000
/** A part of the body that is neither a file nor `text_inputs`, and is ignored. Ours. */
export const TRAIN_OTHER_PART_BYTES = 65_536
/** Most passages that one document may be cut into: half again what 50 MB of prose need. Ours. */
export const DOCUMENT_PASSAGES = 100_000
/** Longest name of a document. Ours. */
export const DOCUMENT_NAME_CHARS = 500
/** All of one training's body, what is skipped of files that are too large included. Ours. */
export const TRAIN_BODY_BYTES = 4_294_967_296
/** Trainings of one tenant that one daemon has in hand at once: each may have a gigabyte on the disk. Ours. */
export const TRAININGS = 8
/** What a training that gets no turn is told to wait. Ours. */
export const TRAINING_RETRY_AFTER_SECONDS = 5
/** Where indexes may be said to be under a licence that does not leave it open (named-endpoints §19). */
export const INDEX_PLACES: Readonly<Record<string, { cloud: string; region: string } | undefined>> = {
  Essential: { cloud: 'aws', region: 'us-east-1' },
}
/** Indexes that may be assigned to one user, by licence; only the first is the contract's. */
export const PERSONAL_INDEXES = { Essential: 2, Growth: 10, Ultra: 50, 'Early Access': 50 } as const
/** How often the documents of deleted indexes are removed. Ours. */
export const INDEX_PURGE_MS = 60_000
/** What is looked for has at most so many characters; what comes behind them is left out. Ours. */
export const QUERY_CHARS = 4_000
/** What searches on PostgreSQL keep in memory of the words of indexes. Ours. */
export const SEARCH_CACHE_BYTES = 67_108_864
/** A merge or rebuild whose daemon has not been heard of for so long is given up. Ours. */
export const MERGE_LEASE_MS = 150_000
/** How often a rebuild says that it is still there, and the wait before it begins again. Ours. */
export const REBUILD_RENEW_MS = 30_000
export const REBUILD_PAUSE_MS = 250

// Reading files of every kind. All ours.
/** What uploads of one daemon bring together, at most. */
export const UPLOAD_BYTES_PER_SECOND = 67_108_864
/** From a file's first byte to its last passage. */
export const EXTRACT_TIMEOUT_MS = 120_000
/** What the reader of a file may keep in JavaScript's heap, and by how much its process may grow meanwhile. */
export const EXTRACT_HEAP_MB = 768
export const EXTRACT_GROWTH_BYTES = 1_073_741_824
export const EXTRACT_WATCH_MS = 200
/** A process without a file to read is kept so long for the next one. */
export const EXTRACT_IDLE_MS = 60_000
/** The text of one document. */
export const EXTRACT_TEXT_CHARS = 67_108_864
export const CONTAINER_ENTRIES = 10_000
/** What those parts of a ZIP-based file unpack to that hold text. */
export const CONTAINER_UNPACKED_BYTES = 104_857_600
export const PDF_PAGES = 5_000
/** What one stream of a PDF unpacks to on the fast way. */
export const PDF_STREAM_BYTES = 67_108_864
/** Elements of HTML in each other; JSON has a limit of its own. */
export const HTML_DEPTH = 5_000
export const JSON_DOCUMENT_DEPTH = 100

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

/** How long a call may take from the moment its bytes are known to the moment they are sent (named-endpoints §11). */
export const ENTITLEMENT_SECONDS = 60

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

// Billing. All ours.
/** The largest budget of a month, in dollars: what a number can count in nano-dollars. */
export const DOLLAR_LIMIT_MAX = 9_000_000
/** The highest price of a million tokens that a configuration may give, in dollars. */
export const PRICE_MAX = 1_000
/** The most points that one answer of a model may cost. */
export const POINTS_PER_ANSWER_MAX = 1_000
/** Before a call each of these is taken to cost so many input tokens beyond the bytes of its text. */
export const RESERVED_TOKENS = { message: 32, tools: 1_024, image: 5_000 } as const
/** The same where nobody has counted, and the likely number is wanted. */
export const ESTIMATED_TOKENS = { message: 4, tools: 100, image: 1_000 } as const
/** The highest `max_tokens` of a request. Far above what models can say, and far below where prices lose their precision. */
export const ANSWER_TOKENS_MAX = 10_000_000
/** Output tokens that are reserved for a model whose limit is not known, when the request sets none. */
export const UNKNOWN_OUTPUT_TOKENS = 4_096
/**
 * A budget that covers fewer tokens of an answer refuses the request: `alone` when all of the budget that is not spent is its
 * own, `shared` while other requests hold reservations, most of which they soon give back.
 */
export const LEAST_OUTPUT_TOKENS = { alone: 256, shared: 1_024 } as const
/**
 * A provider is believed up to so many times the most that we know of, and so many tokens that we cannot know of. `output` is
 * the most for an answer without a limit.
 */
export const PLAUSIBLE_TOKENS = { times: 10, beyond: 100_000, output: 128_000 } as const
/** On PostgreSQL a reservation holds so long after its daemon was last heard of, which is so often. */
export const RESERVATION_LEASE_MS = 60_000
export const RESERVATION_RENEW_MS = 15_000
/** How long a request that waits for the counters of others does so before it is decided apart from them. */
export const SPEND_LOCK_WAIT_MS = 1_000
export const RESERVATIONS_PURGE_MS = 600_000
/** What a request is told to wait whose money is only reserved, not spent. */
export const RESERVED_RETRY_AFTER_SECONDS = 2
/** How often a model without a price is reported. */
export const PRICE_ALARM_MS = 3_600_000

// Listening to events (`aigw webhooks listen`). All ours.
/** How often a listener's events are looked for. */
export const LISTEN_LOOK_MS = 500
/** A stream without events says so often that it is there: more often than proxies and SOCKET_QUIET_MS cut it. */
export const LISTEN_PING_MS = 15_000
/** An event may be stored so much later than its time says: it waits for its commit, and clocks of daemons differ. */
export const LISTEN_LATE_MS = 5_000
/** Events that one look, or one page, holds. */
export const LISTEN_EVENTS = 100
/** Listeners at once, of one tenant and of one daemon. */
export const LISTENERS = { perTenant: 10, perDaemon: 100 } as const

// Webhook delivery (spec: Delivery behavior, Limits)
/** One attempt in all: from the name's lookup to the last byte of the answer that is read. */
export const WEBHOOK_ATTEMPT_MS = 5_000
/** Waits before attempt 1, 2 and 3; the later two begin when the attempt before has ended. */
export const WEBHOOK_WAITS_MS = [0, 10_000, 60_000] as const
/** So many deliveries in a row that used up their attempts disable the endpoint. */
export const WEBHOOK_FAILURES_BEFORE_DISABLE = 20
/** At so many an operator is warned. Ours, as everything below. */
export const WEBHOOK_FAILURES_WARNED: readonly number[] = [10, 15]
export const WEBHOOK_URL_CHARS = 2_048
/** Of an answer so much is kept; then the connection is closed. */
export const WEBHOOK_RESPONSE_BYTES = 4_096
/** Of a connection so much is read in one attempt, whatever it is: heads, hints, what surrounds the chunks of a body. */
export const WEBHOOK_READ_BYTES = 65_536
/** How long a connection that is kept open may lie idle and still be used. Servers keep theirs longer. */
export const WEBHOOK_REUSE_MS = 1_000
/** How long creating an endpoint waits for the addresses of its name. */
export const WEBHOOK_LOOKUP_MS = 2_000
/** The longest time that the addresses of a name are used again, whatever their time to live. */
export const WEBHOOK_DNS_CACHE_MS = 5_000
/** How long the addresses of one family wait for the other. */
export const WEBHOOK_OTHER_FAMILY_MS = 300
/** Attempts to one endpoint at once. */
export const WEBHOOK_LANE = 2
/** Deliveries of one endpoint that a daemon claims ahead, so that one commit serves many. */
export const WEBHOOK_CLAIM_AHEAD = 64
/**
 * Attempts at once of one daemon, `all` of them together. `brisk` are younger than WEBHOOK_SLOW_MS, `stuck` are those of
 * endpoints whose last attempt was cut off, and the rest may become slow; endpoints that are known to be slow begin no more
 * than `slow`, so that others still can become it.
 */
export const WEBHOOK_SLOTS = { brisk: 256, stuck: 64, slow: 600, all: 1_500 } as const
export const WEBHOOK_SLOW_MS = 300
/** How long an endpoint counts as slow or stuck after it was. Longer than the longest wait between two attempts. */
export const WEBHOOK_PACE_MS = 120_000
/** A daemon that stops renewing loses its deliveries to others after so long. */
export const WEBHOOK_LEASE_MS = 30_000
/** By how much the clocks of daemons may differ that share a store. */
export const WEBHOOK_CLOCK_SLACK_MS = 300_000
/** How long a daemon may send with an endpoint's settings before it reads them again. */
export const WEBHOOK_SETTINGS_MS = 2_000
/** How often deliveries and events are looked for that nobody told this daemon of. */
export const WEBHOOK_SWEEP_MS = 5_000
/** How long an end of the daemon waits for attempts under way; one that is cut off is made again. */
export const WEBHOOK_DRAIN_MS = 1_000
/** Events, and deliveries, of one transaction. */
export const WEBHOOK_BATCH = { events: 500, deliveries: 1_000, endpoints: 64 } as const
/** How long what was sent, or given up, can be looked at and sent again; how often the rest is deleted, how many at once. */
export const WEBHOOK_KEPT_DAYS = 30
export const WEBHOOK_PURGE_MS = 3_600_000
export const WEBHOOK_PURGE_ROWS = 500
/** Deliveries that are kept for one disabled endpoint: above that the oldest are given up; how often that is looked after. */
export const WEBHOOK_HELD = 10_000
export const WEBHOOK_HELD_TRIM_MS = 60_000
/** So far the held deliveries of an endpoint are counted when it is shown. */
export const WEBHOOK_HELD_COUNTED = 1_000

// Webhooks, management. All ours.
/** Endpoints of one tenant: the list shows them all. */
export const WEBHOOK_ENDPOINTS = 2_000
/** The longest time that two secrets sign side by side. */
export const WEBHOOK_OVERLAP_SECONDS = 604_800
/** Deliveries that one call of recover puts on their way again. */
export const WEBHOOK_RECOVERED = 1_000
/** How far a receiver's clock may be from the timestamp of a signature, by default (spec: Webhook signing). */
export const SIGNATURE_TOLERANCE_SECONDS = 300

/** Incidents are kept so long. */
export const INCIDENTS_KEPT_DAYS = 365
export const INCIDENTS_PURGE_MS = 3_600_000
export const INCIDENTS_PURGE_ROWS = 500

// Policies (named-endpoints §13). All ours.
/** Policies of its own that one tenant may have: the list shows them all. */
export const CUSTOM_POLICIES = 200
/** Entries of each list in a policy. */
export const POLICY_LIST_ENTRIES = 200
export const POLICY_RETENTION_DAYS = { min: 1, max: 3_650 } as const
/** How long a daemon may go on using what it knows of a tenant's policies, so also how soon a change holds everywhere. */
export const POLICY_CACHE_MS = 2_000

// Prompt shield (named-endpoints §20). All ours.
/** Pieces of a system prompt that one scan of an output may look for. */
export const SHIELD_SNIPPETS = 20
/** Shield policies of its own that one tenant may have: the list shows them all. */
export const SHIELD_POLICIES = 200
/** How long a daemon may go on using what it knows of a tenant's shield policies. */
export const SHIELD_POLICY_CACHE_MS = 2_000
/** What a judge has for its answer. */
export const SHIELD_JUDGE_MS = 5_000
export const SHIELD_JUDGE_TOKENS = 200
/** So long one that fails is not asked again by a tenant, and so many of its requests ask one at the same time. */
export const SHIELD_JUDGE_PAUSE_MS = 10_000
export const SHIELD_JUDGES_AT_ONCE = 8
/** So many scans that fail in a row, within this time, and no more are tried for as long again. */
export const SHIELD_BREAKER = { failures: 5, withinMs: 30_000, pauseMs: 30_000 } as const

// Vectors of passages. All ours.
/** Passages of one call to an embedding model. */
export const EMBEDDING_BATCH = { max: 2_048, default: 64 } as const
/** The longest vector that is stored. */
export const EMBEDDING_DIMENSIONS = 8_192
/** Calls at once, and how long one may take. */
export const EMBEDDING_CALLS = 4
export const EMBEDDING_ATTEMPT_MS = 60_000
/** How often passages without a vector are looked for. */
export const EMBEDDING_LOOK_MS = 2_000
/** A daemon that stops renewing leaves the work to others after so long. Longer than two attempts. */
export const EMBEDDING_LEASE_MS = 150_000
/** The wait after a failure: first `min`, then each time twice as long, up to `max`. */
export const EMBEDDING_RETRY_MS = { min: 1_000, max: 300_000 } as const
/** Documents that are embedded before another index has its turn. */
export const EMBEDDING_DOCUMENTS = 64
/**
 * How long a search waits for the vector of its query, if the configuration does not say, or for a rerank; what has failed or
 * was slower is left alone for a while.
 */
export const QUERY_VECTOR_MS = { default: 500, max: 10_000 } as const
export const RERANK_MS = 2_000
export const SEMANTIC_PAUSE_MS = 10_000
/** An extension for vectors that has failed is done without for so long. */
export const EXTENSION_PAUSE_MS = 60_000
/** Of a query so much is embedded or handed to a reranker, and so many vectors of queries are kept. */
export const QUERY_VECTOR_CHARS = 4_000
export const QUERY_VECTORS_KEPT = 1_000
/** So many passages are compared by the numbers of their vectors; before that all are, by their signatures. */
export const VECTOR_CANDIDATES = 2_000
/** So many of the best of each ranking are fused, and this is the constant of the fusion. */
export const FUSED_PASSAGES = 100
export const FUSION_K = 60
/** So many of the best passages are handed to a reranker. */
export const RERANKED_PASSAGES = 50

// Rules of data loss prevention and personal data (named-endpoints §21). All ours.
/** Rules that one tenant may have: the list shows them all. */
export const GUARD_RULES = 100
/** The longest pattern, and how large a program it may become: both bound the time that it takes. */
export const GUARD_PATTERN = { chars: 500, program: 250 } as const
/** How long a match of a pattern may be; so much of a stream is held back for it. */
export const GUARD_MATCH_CHARS = { min: 1, max: 1_024, default: 256 } as const
export const GUARD_WORDS = { max: 2_000, chars: 200, totalChars: 20_000 } as const
/**
 * What the patterns of a tenant may take for one request, and for one answer: a character costs as many steps as the program
 * has, each some 20 ns. What was not read then counts as a match. A stream is charged for its new text; what is read again is charged
 * at a sixteenth at least.
 */
export const GUARD_SCAN_STEPS = 200_000_000
/** The samples of one simulation. */
export const GUARD_SAMPLES = { max: 20, chars: 10_000 } as const
/** How long a daemon may go on using what it knows of a tenant's rules, so also how soon a change holds everywhere. */
export const GUARD_RULE_CACHE_MS = 2_000

// Logs, receipts and transparency (named-endpoints §11, §12, §14)
export const BUNDLE_ID_CHARS = 128
/** How far back a list of logs goes that names no day. */
export const LOG_WINDOW_DAYS = 7
/** Rows of one answer to whoever verifies the log, and chains of one export. Ours, as everything below. */
export const EVIDENCE_PAGE = 1_000
/** An export of EVIDENCE_PAGE chains fits. */
export const SIGN_EXPORT_BODY_BYTES = 524_288
/** Rows of a compliance report in CSV. */
export const COMPLIANCE_REPORT_ROWS = 10_000
/** Public proofs: requests of one address in a minute, lookups at once, and addresses that are remembered. */
export const PUBLIC_PROOF_RATE = { perMinute: 120, atOnce: 8, addresses: 10_000 } as const
/** How long the published keys may be kept by whoever read them. */
export const KEY_SET_MAX_AGE_SECONDS = 300

/** How late a daemon may learn that another one has made a new key for evidence. */
export const EVIDENCE_KEY_CACHE_MS = 2_000
/** Chains whose last entry a daemon remembers; those of other tenants are looked up. */
export const EVIDENCE_HEADS = 10_000
/** Chains whose tree a daemon remembers, up to the last checkpoint it made; those of others are put together again. */
export const EVIDENCE_TREES = 1_000
/** A chain that has grown gets a checkpoint after so many entries, or this long after the last one. */
export const EVIDENCE_CHECKPOINT = { entries: 1_000, ms: 3_600_000 } as const
/** How long an export of the log may take: entries that were there before must be in it. */
export const EVIDENCE_EXPORT_MS = 3_600_000
/** How long the content of requests' entries is kept. */
export const EVIDENCE_RETENTION_DAYS = { default: 365, max: 36_500 } as const
/** How long whoever collects checkpoints may take to answer. */
export const EVIDENCE_POST_MS = 5_000
/** How often chains are looked at that have grown slowly, and how often old payloads are expunged, so many at a time. */
export const EVIDENCE_CHECKPOINT_LOOK_MS = 60_000
export const EVIDENCE_EXPUNGE_MS = 3_600_000
export const EVIDENCE_EXPUNGE_ROWS = 500
