// The row types of all tables, in one file so that the schema can be read as a whole.
import type { IndexAccess, SystemRole } from '../../../shared/permissions.ts'
import type { BudgetScope } from '../../../shared/wire/budgets.ts'
import type { LossCause } from '../../../shared/wire/evidence.ts'
import type { GuardDirection, IncidentAction, IncidentKind, Severity } from '../../../shared/wire/incidents.ts'
import type { License } from '../../../shared/wire/users.ts'

/**
 * All row types. Times are ISO 8601 text, and flags are 0 or 1. Every row with customer data has a tenant_id. SQLite
 * and PostgreSQL have the same columns.
 */
export type Tables = {
  tenants: {
    id: string
    name: string
    /** While a tenant is disabled, its keys are rejected. */
    status: 'Active' | 'Disabled'
    created_at: string
    updated_at: string
    /** The name in lower case, for searches. */
    search_text: string
    /** The name as it looks (platform/text/skeleton.ts). */
    name_skeleton: string | null
  }
  users: {
    id: string
    tenant_id: string
    name: string
    email: string
    username: string
    role: SystemRole
    /** 1 active, 0 inactive */
    status: number
    created_at: string
    updated_at: string
    license: License
    auth_type: 'basic' | 'enterprise'
    is_verified: number
    setup_completed: number
    /** Name, email and username in lower case, one per line, for searches. */
    search_text: string
    /** The name as it looks (platform/text/skeleton.ts). */
    name_skeleton: string | null
    /** 1: may be billed in dollars, up to `dollar_limit_nanos` per month. A null limit means unlimited. */
    usage_by_model: number
    dollar_limit_nanos: number | null
  }
  roles: {
    id: string
    tenant_id: string
    /** Unique in its tenant. */
    name: string
    display_name: string
    description: string
    is_system: number
    has_admin_panel_access: number
    /** JSON: `{section, level}[]` */
    permissions: string
    can_interact_with_ai: number
    can_use_chat: number
    /** Name, display name and description in lower case, one per line, for searches. */
    search_text: string
    /** The name as it looks (platform/text/skeleton.ts). */
    name_skeleton: string | null
    /** User id; null for system roles. The user may have been deleted. */
    created_by: string | null
    created_at: string
    updated_at: string
  }
  /** The custom role of a user. A user has at most one custom role. */
  user_roles: { tenant_id: string; user_id: string; role_id: string }
  groups: {
    id: string
    tenant_id: string
    /** Unique in its tenant. */
    name: string
    description: string
    status: 'Active' | 'Inactive'
    /** Number of rows in group_members, updated with every change of members, so that lists can be sorted by it. */
    user_count: number
    /** Name and description in lower case, one per line, for searches. */
    search_text: string
    /** The name as it looks (platform/text/skeleton.ts). */
    name_skeleton: string | null
    created_at: string
    updated_at: string
  }
  group_members: { tenant_id: string; group_id: string; user_id: string }
  api_keys: {
    id: string
    tenant_id: string
    user_id: string
    name: string
    /** SHA-256 of the whole key, hex. The key itself is never stored. */
    secret_hash: string
    is_operator: number
    created_at: string
    updated_at: string
    expires_at: string | null
    revoked_at: string | null
    /** JSON: StoredSettings; absent properties have their defaults. */
    settings: string
    /** The name in lower case, for searches. */
    search_text: string
    /** The name as it looks (platform/text/skeleton.ts). */
    name_skeleton: string | null
  }
  smltp_policies: {
    tenant_id: string
    /**
     * The name in lower case, with hyphens for spaces. Unique in its tenant, and never equal to the id of a built-in
     * policy.
     */
    id: string
    name: string
    description: string
    /** JSON: PolicyDocument; absent properties have their defaults. */
    document: string
    created_at: string
    updated_at: string
  }
  /** The active policy of a tenant, built-in or custom. A tenant without a row uses the system default. */
  smltp_active_policies: { tenant_id: string; policy_id: string; activated_at: string }
  rate_counters: RateCounterRow
  evidence_entries: EvidenceEntryRow
  evidence_commits: EvidenceCommitRow
  evidence_checkpoints: EvidenceCheckpointRow
  /**
   * Roots of complete subtrees of a chain's Merkle tree, each over 256^`level` entries. They make proofs fast.
   */
  evidence_nodes: { tenant_id: string; chain: string; level: number; node_index: number; hash: string }
  evidence_keys: EvidenceKeyRow
  evidence_losses: EvidenceLossRow
  /** One row if the store is older than signing keys. The first key signs its entries, and deletes the row. */
  evidence_unsigned: { upgraded_at: string }
  /** The checkpoint files that a daemon has written. */
  evidence_files: { daemon_id: string; path: string; created_at: string }
  evidence_cosignatures: EvidenceCosignatureRow
  log_positions: LogPositionRow
  log_blocks: LogBlockRow
  log_owners: LogOwnerRow
  usage_days: UsageDayRow
  provider_messages: ProviderMessageRow
  outbox_events: OutboxEventRow
  incidents: IncidentRow
  stored_responses: StoredResponseRow
  cache_entries: CacheEntryRow
  shield_policies: ShieldPolicyRow
  guard_rules: GuardRuleRow
  webhook_endpoints: WebhookEndpointRow
  webhook_deliveries: WebhookDeliveryRow
  /** The row `check`: a text encrypted under the master key of this installation. `derived`: keys of keyed hashes. */
  master_key_check: { id: string; sealed: string; created_at: string }
  master_key_rotation: MasterKeyRotationRow
  stored_providers: StoredProviderRow
  /** Each daemon writes one row to check whether the store accepts writes. */
  store_probes: { id: string; written_at: string; padding: string }
  spend_counters: SpendCounterRow
  budgets: BudgetRow
  provider_outages: ProviderOutageRow
  spend_reservations: SpendReservationRow
  idempotency_results: IdempotencyResultRow
  indexes: {
    id: string
    tenant_id: string
    /**
     * Unique in its tenant. When an index is deleted, its name is moved to `deleted_name` and replaced with `~<id>`.
     * `~<id>` is not a valid index name, so it cannot conflict with another index.
     */
    name: string
    deleted_name: string | null
    description: string
    created_by: string
    created_at: string
    updated_at: string
    deleted_at: string | null
    /**
     * The owner of the index: this user or this group. If neither is set, the index belongs to the whole tenant. The
     * owner may have been deleted.
     */
    assigned_user_id: string | null
    assigned_group_id: string | null
    /** What keys may do that are allowed to read the index. `read` overrides the `indexAccess` of a key. */
    index_access: IndexAccess
  }
  documents: {
    id: string
    tenant_id: string
    index_id: string
    /** File name or given name. Unique among the published documents of an index. */
    source: string
    title: string
    /** SHA-256 of the file, hex. If a file is uploaded again with the same hash, it is not indexed again. */
    content_hash: string
    passage_count: number
    /**
     * Only `published` documents are searched. A document begins as a `draft`. A `discarded` document is never
     * published again. `buried`: the passages are deleted, but a segment still contains their words.
     */
    state: 'draft' | 'published' | 'discarded' | 'buried'
    created_at: string
    /**
     * The id of the first passage. The passages have consecutive ids. In documents of older versions, null until the
     * daemon has re-indexed them.
     */
    first_passage_id: number | null
    /** 1 once a segment contains words of this document and of other documents. */
    in_shared_segment: number
    /** The embedding model that has embedded the whole document. The initial value 0 means none. */
    embedded_by?: number | undefined
    /**
     * The policy under which the document was trained, if that was the default policy of a key. Null: the default policy
     * of the tenant.
     */
    policy_id?: string | null | undefined
  }
  passages: {
    /** We assign the ids, in ascending order. They are integers, because FTS5 refers to passages by rowid. */
    id: number
    tenant_id: string
    index_id: string
    document_id: string
    /** 0-based position in the document. */
    position: number
    /** Headings above the passage, outermost first, joined by " > ". */
    headings: string
    body: string
    /** The page on which the passage begins, in documents that have pages. */
    page: number | null
  }
  /** A segment is a part of the inverted index: the words of some passages. Only its state changes. */
  segments: {
    id: string
    tenant_id: string
    index_id: string
    /** The document to which all passages of the segment belong. Null if they belong to several documents. */
    document_id: string | null
    /** Only `published` segments are searched. */
    state: 'draft' | 'published'
    /** The segment that will replace this segment. */
    merged_into: string | null
    passage_count: number
    page_count: number
    /** Runs of passage ids (knowledge/indexes/segment.ts). */
    passages: Uint8Array
    /** The lengths of the passages, two bytes each. */
    lengths: Uint8Array
    created_at: string
  }
  postings: {
    tenant_id: string
    segment_id: string
    /** `<segment id>.<page number>` */
    page: string
    /** Terms with their postings (knowledge/indexes/postings.ts). */
    terms: Uint8Array
  }
  /** Every embedding model that this installation has used. */
  embedding_models: {
    id: number
    /** `<provider>/<model>` */
    model: string
    /** The requested number of dimensions. 0 means the model's default. */
    asked_dimensions: number
    /** The number of dimensions of the model's vectors. 0 until the first vector has arrived. */
    dimensions: number
  }
  /** One row: the current embedding model, and the daemon that runs the embedding. */
  embedding_work: { id: number; model_id: number; lease_owner: string | null; lease_until: string | null }
  /**
   * For each index with vectors: the model whose vectors are searched. `is_clean` is 0 while vectors of other models
   * may remain to be deleted.
   */
  index_vectors: { tenant_id: string; index_id: string; model_id: number; is_clean: number }
  passage_vectors: {
    passage_id: number
    model_id: number
    tenant_id: string
    index_id: string
    /**
     * Bits from which the distance of two vectors is approximated (knowledge/search/vectors/signature.ts). Bound as
     * text on PostgreSQL.
     */
    signature: Uint8Array | string
    /** The vector, normalised to length 1. Bound as text on PostgreSQL. */
    vector: Uint8Array | string
  }
}

/** How many requests a key has made in the current window of one counter. */
export type RateCounterRow = {
  tenant_id: string
  api_key_id: string
  /**
   * `minute`, `hour`, `day` or `month`. A counter of one route begins with the route: `POST /api/external/groups
   * minute`.
   */
  counter: string
  /** ISO 8601. A later window overwrites the earlier window. */
  window_start: string
  used: number
  last_used_at: string
}

/**
 * One entry of a hash chain: a request or an administrative change. It is never edited, but its payload may be
 * expunged.
 */
export type EvidenceEntryRow = {
  tenant_id: string
  /** `changes`, or `requests-` followed by the id of the daemon that writes the chain. */
  chain: string
  /** Counts from 0, without gaps. */
  seq: number
  /** For a request, the bundle id. */
  id: string
  created_at: string
  /** JSON: canonical, or the stored form of a request's payload (stored-payload.ts). Null if it was expunged. */
  payload: string | null
  /** Hashes are in hex. */
  payload_hash: string
  entry_hash: string
  commit_id: string
  /** The index of the entry among the leaves of its commit. */
  leaf_index: number
}

/** A signed commit: one signature covers all its entries. The entries may belong to several tenants. */
export type EvidenceCommitRow = {
  id: string
  created_at: string
  kid: string
  /** The name of the signing key. */
  signer: string
  tree_size: number
  /** Root of the Merkle tree over the entries, hex. */
  root: string
  /** The entries' hashes in order, concatenated as hex. */
  leaves: string
  /** base64 */
  signature: string
}

/** A signed checkpoint: the root over the first `tree_size` entries of a chain. */
export type EvidenceCheckpointRow = {
  tenant_id: string
  chain: string
  tree_size: number
  /** hex */
  root: string
  kid: string
  /** The signed note, exactly as published. */
  note: string
  created_at: string
}

/** The cosignature of a witness on a checkpoint. */
export type EvidenceCosignatureRow = {
  tenant_id: string
  chain: string
  /** The name and the hash of the witness's key: `<name>+<hash>`. */
  witness: string
  tree_size: number
  /** The signature line of the log in the note that the witness received, with a newline. */
  log_line: string
  /** The signature line of the witness, with a newline. */
  line: string
  /** The time in the cosignature. */
  cosigned_at: string
}

/** A key that signs evidence, current or retired. */
export type EvidenceKeyRow = {
  /** RFC 7638 thumbprint. */
  kid: string
  name: string
  /** 32 bytes, base64. */
  public_key: string
  /** Null once the key is retired. */
  sealed_private_key: string | null
  created_at: string
  retired_at: string | null
}

/** A part of the evidence that is lost (losses.ts). */
export type EvidenceLossRow = {
  /** The log id of the chain, `key:<kid>`, `keys:<time>`, `file:…`, `unreadable:…` or `store`. */
  id: string
  cause: LossCause
  /** Null unless the loss concerns a chain of the store. */
  tenant_id: string | null
  /** The chain that contradicts its notes. It is closed if `successor` is set. */
  chain: string | null
  /** The chain that continues the closed chain. */
  successor: string | null
  /** One sentence. */
  detail: string
  found_at: string
  /** Null until an operator has acknowledged the loss. */
  acknowledged_at: string | null
}

/** The number of entries of a chain that are included in `log_blocks` and `usage_days`. */
export type LogPositionRow = { tenant_id: string; chain: string; size: number }

/** A summary of consecutive entries of a chain. Lists use it to find and count entries (log-blocks.ts). */
export type LogBlockRow = {
  tenant_id: string
  chain: string
  /** 1: 256 entries. Each block of a higher level contains 16 blocks of the next lower level. */
  level: number
  /** Position among the blocks of the level, from 0. */
  block: number
  /** The earliest and the latest `created_at` of its entries. */
  first_at: string
  last_at: string
  /** JSON: the entries by their filtered properties. */
  groups: string
  /** JSON: the entries by user and key. Empty above level 1. */
  owners: string
}

/** The entries of one user and key in one block of level 2. `first_at` and `last_at` are the times of the block. */
export type LogOwnerRow = {
  tenant_id: string
  /** Empty if the entries have no user, or no key. */
  user_id: string
  api_key_id: string
  chain: string
  block: number
  first_at: string
  last_at: string
  /** JSON: these entries by type and severity. */
  groups: string
}

/** The billed requests of one user, key, model and tag on one day: the sums over their receipts. */
export type UsageDayRow = {
  tenant_id: string
  /** The UTC day on which the requests started: `2026-11-22`. */
  day: string
  /** The account that is billed. */
  user_id: string
  api_key_id: string
  model: string
  /** Empty if the requests have no tag. */
  tag: string
  requests: number
  input_tokens: number
  output_tokens: number
  /** The price of the tokens in nano-dollars, whether they were paid in dollars or in points. */
  nanos: number
  /** The part of `nanos` that was paid in dollars. */
  billed_nanos: number
  points: number
}

/** One event, stored before and after its delivery. */
export type OutboxEventRow = {
  /** `evt_` and 24 hex characters. */
  id: string
  tenant_id: string
  type: string
  created_at: string
  /** JSON object: the event's `data`. */
  data: string
  /** When the event's deliveries were created; null until then. Set from the start if the tenant has no endpoint. */
  fanned_out_at?: string | null | undefined
}

/** A webhook endpoint. */
export type WebhookEndpointRow = {
  id: string
  tenant_id: string
  url: string
  description: string
  /** JSON: event types, or `["*"]`. */
  events: string
  enabled: number
  /** Why the endpoint is disabled: `failures` for automatic disabling. Null while it is enabled. */
  disabled_reason: 'failures' | 'manual' | null
  /** Number of consecutive deliveries that failed after all attempts. */
  failure_count: number
  /** The total number of held deliveries that were dropped because they exceeded the limit. */
  held_dropped: number
  /** The `whsec_…` text, encrypted (platform/secrets/seal.ts). */
  secret: string
  /**
   * Encrypted like `secret`. If a rotation requested an overlap, this secret signs in addition to the new secret until
   * `previous_secret_until`.
   */
  previous_secret: string | null
  previous_secret_until: string | null
  created_at: string
  updated_at: string
  /** The time and HTTP status of the last attempt. Null if there was no attempt or no response. */
  last_delivery_at: string | null
  last_status: number | null
}

/**
 * One delivery of an event to one endpoint. `pending`: is due at `due_at`. `held`: waits until its disabled endpoint is
 * enabled. `failed`: all attempts have failed. `cancelled`: dropped because its endpoint was deleted, too many
 * deliveries were held, or its event expired.
 */
export type WebhookDeliveryRow = {
  /** UUID for X-Service-Delivery, the same for all attempts. */
  id: string
  tenant_id: string
  endpoint_id: string
  event_id: string
  event_type: string
  created_at: string
  due_at: string
  state: 'pending' | 'delivered' | 'failed' | 'held' | 'cancelled'
  /** Number of finished attempts. */
  attempts: number
  /** The lease: the daemon that sends the delivery, the expiry time, and a number that increases with each claim. */
  lease_owner: string | null
  lease_until: string | null
  fence: number
  last_status: number | null
  last_error: string | null
  last_duration_ms: number | null
  /** The first 4 KiB of the last response. */
  last_response: string | null
  delivered_at: string | null
  /** If an administrator resent a delivery, the id of the original delivery. */
  resend_of: string | null
  is_test: number
}

/** The monthly dollar budget of a group, of a tenant, or of all requests of a tenant with a tag. */
export type BudgetRow = {
  id: string
  tenant_id: string
  scope: BudgetScope
  /** The id of the group or the tenant, or the tag. Unique in its tenant and scope. */
  subject: string
  limit_nanos: number
  created_at: string
  updated_at: string
}

/** A model whose circuit is open for a tenant. The row is deleted when the model has answered again. */
export type ProviderOutageRow = {
  tenant_id: string
  /** The model, with its provider and location. */
  slot: string
  reason: string
  since: string
}

/** The spend of an account, a key or a budget in one month: the sum over its receipts. */
export type SpendCounterRow = {
  tenant_id: string
  /**
   * `user`: everything that was billed to this account. `key`: only the dollars that were spent through this key.
   * `budget`: the dollars that count toward a row of `budgets`.
   */
  holder: 'user' | 'key' | 'budget'
  holder_id: string
  period: string
  /** Cost of the requests that were billed in dollars. */
  nanos: number
  points: number
}

/** The maximum that a running request may add to a spend counter. It is ignored after `expires_at` (ISO 8601). */
export type SpendReservationRow = SpendCounterRow & { request_id: string; expires_at: string }

/** A running rotation of the master key. At most one row exists. */
export type MasterKeyRotationRow = {
  id: 'rotation'
  /** `accept`: every daemon learns the new key. `reseal`: every daemon encrypts with it, and old texts are replaced. */
  phase: 'accept' | 'reseal'
  old_id: string
  new_id: string
  /** The keys, each encrypted under the other. */
  new_under_old: string
  old_under_new: string
  started_at: string
  /** When the phase began, by the clock of the store. */
  phase_at: string
}

/** A provider that the operator added through the API. It belongs to the installation, so it has no tenant. */
export type StoredProviderRow = {
  name: string
  /** The settings as JSON, encrypted (platform/secrets/seal.ts). */
  sealed: string
  created_at: string
  updated_at: string
}

/**
 * The stored response to a request with an Idempotency-Key. A row is unique by tenant, key, route and idempotency_key.
 * While `lease_until` is set, there is no response yet: the row is the claim of the daemon that runs the request
 * `request_id`.
 */
export type IdempotencyResultRow = {
  tenant_id: string
  api_key_id: string
  route: string
  idempotency_key: string
  /** SHA-256 of the raw request body, hex. */
  fingerprint: string
  request_id: string
  status: number
  content_type: string
  /** The response body exactly as sent, or encrypted (platform/secrets/seal.ts) if `is_sealed` is 1. */
  body: string
  /** The initial value is 0. */
  is_sealed?: number | undefined
  created_at: string
  expires_at: string
  /**
   * ISO 8601. After this time, another daemon may take over the claim. Null for a stored response, and always null on
   * SQLite.
   */
  lease_until: string | null
}

/**
 * A provider's own message about a failed attempt, cleaned. It is no evidence: it is neither hashed nor exported, and
 * only administrators of the tenant read it.
 */
export type ProviderMessageRow = {
  tenant_id: string
  /** The bundle id of the request. */
  entry_id: string
  /** The index of the attempt. */
  attempt: number
  created_at: string
  message: string
}

/** An answer of the Responses API, kept until it expires. */
export type StoredResponseRow = {
  tenant_id: string
  /** `resp_…` */
  id: string
  user_id: string
  created_at: string
  expires_at: string
  /** The answer and its conversation as JSON, encrypted. */
  sealed: string
}

/** A complete answer of a model, kept until it expires. */
export type CacheEntryRow = {
  tenant_id: string
  /** The bundle id of the request whose model call created the answer. */
  id: string
  /** A keyed hash of everything that determines the answer. */
  key_hash: string
  created_at: string
  expires_at: string
  /** The size of `sealed`. */
  bytes: number
  /** The answer as JSON, encrypted. */
  sealed: string
}

/** A finding of a guard in one request: the type, the count and the action, but not the text itself. */
export type IncidentRow = {
  id: string
  tenant_id: string
  created_at: string
  request_id: string
  /** `trx-…`, the trace id in the error response. */
  trace_id: string
  api_key_id: string
  user_id: string
  /** The route's path. */
  endpoint: string
  /** Null if no model had been called. */
  model: string | null
  kind: IncidentKind
  rule_id: string
  rule_name: string
  category: string
  /** JSON: the number of findings by type. */
  types: string
  match_count: number
  severity: Severity
  direction: GuardDirection
  action: IncidentAction
  /** 0 if the policy or rule only monitors. No action was then taken. */
  enforced: number
  /** A number from 0 to 100 that the prompt shield reports. */
  risk_score: number | null
  /** The canonical name of the policy. */
  policy: string
}

/** A prompt shield policy of a tenant; `id` is its name in lower case, with hyphens for spaces. */
export type ShieldPolicyRow = {
  tenant_id: string
  id: string
  name: string
  description: string
  /** JSON: ShieldPolicyDocument */
  document: string
  created_at: string
  updated_at: string
}

/** A guard rule of a tenant; `id` is its name in lower case, with hyphens for spaces. */
export type GuardRuleRow = {
  tenant_id: string
  id: string
  name: string
  /** JSON: GuardRuleDocument */
  document: string
  created_at: string
  updated_at: string
}
