// The type of every row, on one page so that the whole schema can be read at once.
import type { SystemRole } from '../../../shared/permissions.ts'
import type { BillingMode } from '../../../shared/wire/billing.ts'
import type { GuardDirection, IncidentAction, IncidentKind, Severity } from '../../../shared/wire/incidents.ts'
import type { License } from '../../../shared/wire/users.ts'

/**
 * All row types. Times are ISO 8601 text, flags are 0 or 1, and every row of a customer has its tenant_id. SQLite and
 * PostgreSQL have the same columns.
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
    /** Name, email and username in lower case, one a line, for searches. */
    search_text: string
    /** 1: may be billed in dollars, up to `dollar_limit_nanos` a month; null is no limit. */
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
    /** Name, display name and description in lower case, one a line, for searches. */
    search_text: string
    /** User id; null for system roles. The user may have been deleted. */
    created_by: string | null
    created_at: string
    updated_at: string
  }
  /** The custom role of a user: at most one. */
  user_roles: { tenant_id: string; user_id: string; role_id: string }
  groups: {
    id: string
    tenant_id: string
    /** Unique in its tenant. */
    name: string
    description: string
    status: 'Active' | 'Inactive'
    /** Number of group_members, updated with every change of them, so that lists can be sorted by it. */
    user_count: number
    /** Name and description in lower case, one a line, for searches. */
    search_text: string
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
    /** JSON: StoredSettings; absent members have their defaults. */
    settings: string
    /** The name in lower case, for searches. */
    search_text: string
  }
  smltp_policies: {
    tenant_id: string
    /** The name in lower case, with hyphens for spaces. Unique in its tenant, and never the id of a built-in policy. */
    id: string
    name: string
    description: string
    /** JSON: PolicyDocument; absent members have their defaults. */
    document: string
    created_at: string
    updated_at: string
  }
  /** The active policy of a tenant, built-in or custom; no row for the system default. */
  smltp_active_policies: { tenant_id: string; policy_id: string; activated_at: string }
  rate_counters: RateCounterRow
  evidence_entries: EvidenceEntryRow
  evidence_commits: EvidenceCommitRow
  evidence_checkpoints: EvidenceCheckpointRow
  /**
   * Roots of complete subtrees of a chain's Merkle tree, of 256 to the power of `level` entries. They shorten proofs.
   */
  evidence_nodes: { tenant_id: string; chain: string; level: number; node_index: number; hash: string }
  evidence_keys: EvidenceKeyRow
  outbox_events: OutboxEventRow
  incidents: IncidentRow
  shield_policies: ShieldPolicyRow
  guard_rules: GuardRuleRow
  webhook_endpoints: WebhookEndpointRow
  webhook_deliveries: WebhookDeliveryRow
  /** One row: a text sealed under the master key of this installation. */
  master_key_check: { id: string; sealed: string; created_at: string }
  usage_records: UsageRecordRow
  spend_counters: SpendCounterRow
  spend_reservations: SpendReservationRow
  idempotency_results: IdempotencyResultRow
  indexes: {
    id: string
    tenant_id: string
    /**
     * Unique in its tenant. A deleted index is named `~<id>`, which no index name allows; its name moves to another
     * column.
     */
    name: string
    deleted_name: string | null
    description: string
    created_by: string
    created_at: string
    updated_at: string
    deleted_at: string | null
    /**
     * The owner of the index: this user or this group; with neither, all of the tenant. The owner may have been
     * deleted.
     */
    assigned_user_id: string | null
    assigned_group_id: string | null
  }
  documents: {
    id: string
    tenant_id: string
    index_id: string
    /** File name or given name; unique among the published documents of its index. */
    source: string
    title: string
    /** SHA-256 of the file, hex; an unchanged document is skipped. */
    content_hash: string
    passage_count: number
    /**
     * Only `published` documents are searched. A document begins as a `draft`, and a `discarded` one never returns.
     * `buried`: its passages are deleted, but a segment still contains their words.
     */
    state: 'draft' | 'published' | 'discarded' | 'buried'
    created_at: string
    /** Its passages have consecutive ids from this one. Null until the daemon has re-indexed an old document. */
    first_passage_id: number | null
    /** 1 once a segment contains words of it and of other documents. */
    in_shared_segment: number
    /** The embedding model that has embedded all of it; 0, the initial value, for none. */
    embedded_by?: number | undefined
  }
  passages: {
    /** Whole number that we assign in ascending order, because FTS5 refers to passages by rowid. */
    id: number
    tenant_id: string
    index_id: string
    document_id: string
    /** 0-based position in its document. */
    position: number
    /** Headings above the passage, outermost first, joined by " > ". */
    headings: string
    body: string
    /** The page where it begins, in documents that have pages. */
    page: number | null
  }
  /** The words of some passages: a part of the inverted index. Only its state changes. */
  segments: {
    id: string
    tenant_id: string
    index_id: string
    /** Set while it contains passages of this document only. */
    document_id: string | null
    /** Only `published` segments are searched. */
    state: 'draft' | 'published'
    /** The segment that will replace this one. */
    merged_into: string | null
    passage_count: number
    page_count: number
    /** Runs of ids (knowledge/segment.ts). */
    passages: Uint8Array
    /** Two bytes for each passage. */
    lengths: Uint8Array
    created_at: string
  }
  postings: {
    tenant_id: string
    segment_id: string
    /** `<segment id>.<number of the page>` */
    page: string
    /** Terms with their postings (knowledge/postings.ts). */
    terms: Uint8Array
  }
  /** Every embedding model that this installation has used. */
  embedding_models: {
    id: number
    /** `<provider>/<model>` */
    model: string
    /** The number of dimensions requested; 0: the model's default. */
    asked_dimensions: number
    /** The number of dimensions of its vectors; 0 until the first one arrived. */
    dimensions: number
  }
  /** One row: the current embedding model, and the daemon that runs the embedding. */
  embedding_work: { id: number; model_id: number; lease_owner: string | null; lease_until: string | null }
  /**
   * For indexes with vectors: the model whose vectors are searched, and whether vectors of others may remain to be
   * deleted.
   */
  index_vectors: { tenant_id: string; index_id: string; model_id: number; is_clean: number }
  passage_vectors: {
    passage_id: number
    model_id: number
    tenant_id: string
    index_id: string
    /** Bits that approximate the distance of two vectors (knowledge/vectors/signature.ts). PostgreSQL takes a text. */
    signature: Uint8Array | string
    /** The vector, normalised to length 1. PostgreSQL takes a text. */
    vector: Uint8Array | string
  }
}

/** Requests of a key in the current window of one counter. */
export type RateCounterRow = {
  tenant_id: string
  api_key_id: string
  /** `minute`, `hour`, `day` or `month`, optionally after a route: `POST /api/external/groups minute`. */
  counter: string
  /** ISO 8601. A later window overwrites the earlier one. */
  window_start: string
  used: number
  last_used_at: string
}

/** One link of a hash chain: a request or an administrative change. Never edited; its payload may be expunged. */
export type EvidenceEntryRow = {
  tenant_id: string
  /** `changes`, or `requests-` and the id of the daemon that writes it. */
  chain: string
  /** From 0, without a gap. */
  seq: number
  /** The bundle id, for a request. */
  id: string
  created_at: string
  /** Canonical JSON; null when it was expunged. */
  payload: string | null
  /** Hashes are hex. */
  payload_hash: string
  entry_hash: string
  commit_id: string
  /** Its position among the leaves of its commit. */
  leaf_index: number
}

/** The signature over the entries of one commit, of all tenants. */
export type EvidenceCommitRow = {
  id: string
  created_at: string
  kid: string
  /** The name of the key. */
  signer: string
  tree_size: number
  /** Root of the Merkle tree over the entries, hex. */
  root: string
  /** The entries' hashes in order, hex, joined. */
  leaves: string
  /** base64 */
  signature: string
}

/** The signed state of a chain at some length. */
export type EvidenceCheckpointRow = {
  tenant_id: string
  chain: string
  tree_size: number
  /** hex */
  root: string
  kid: string
  /** The signed note as it was published. */
  note: string
  created_at: string
}

/** A key that signs evidence, or a retired one. */
export type EvidenceKeyRow = {
  /** RFC 7638 thumbprint. */
  kid: string
  name: string
  /** 32 bytes, base64. */
  public_key: string
  /** Null once it is retired. */
  sealed_private_key: string | null
  created_at: string
  retired_at: string | null
}

/** One event, kept before and after its delivery. */
export type OutboxEventRow = {
  /** `evt_` and 24 hex characters. */
  id: string
  tenant_id: string
  type: string
  created_at: string
  /** JSON object: the event's `data`. */
  data: string
  /** When its deliveries were created; null until then. Inserts omit it. */
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
  /** Why it is disabled: `failures` for automatic disabling. Null while it is enabled. */
  disabled_reason: 'failures' | 'manual' | null
  /** Consecutive deliveries that used up their attempts. */
  failure_count: number
  /** Total number of held deliveries that were dropped because too many were held. */
  held_dropped: number
  /** Sealed (secrets/seal.ts): the `whsec_…` text. */
  secret: string
  /** Sealed like `secret`. It also signs until `previous_secret_until`, when a rotation requested an overlap. */
  previous_secret: string | null
  previous_secret_until: string | null
  created_at: string
  updated_at: string
  /** When the last attempt ended, and its HTTP status; null for no attempt or no response. */
  last_delivery_at: string | null
  last_status: number | null
}

/**
 * One delivery of an event to one endpoint. `pending` waits for `due_at`. `held` waits for its disabled endpoint.
 * `failed` has used up its attempts. `cancelled` was dropped: its endpoint was deleted, too many were held, or its
 * event has expired.
 */
export type WebhookDeliveryRow = {
  /** UUID: X-Service-Delivery, the same over all attempts. */
  id: string
  tenant_id: string
  endpoint_id: string
  event_id: string
  event_type: string
  created_at: string
  due_at: string
  state: 'pending' | 'delivered' | 'failed' | 'held' | 'cancelled'
  /** Finished attempts. */
  attempts: number
  /** The daemon that sends it, when its lease expires, and a number that rises with each claim. */
  lease_owner: string | null
  lease_until: string | null
  fence: number
  last_status: number | null
  last_error: string | null
  last_duration_ms: number | null
  /** The first 4 KiB of the last response. */
  last_response: string | null
  delivered_at: string | null
  /** The delivery that an administrator resent with this one. */
  resend_of: string | null
  is_test: number
}

/**
 * One finished request, billed to an account. The primary key is the request id, so a request cannot be billed twice.
 */
export type UsageRecordRow = {
  request_id: string
  tenant_id: string
  api_key_id: string
  /** The account that pays. */
  user_id: string
  created_at: string
  route: string
  streamed: number
  requested_model: string
  served_model: string
  index_used: string
  outcome: string
  native_finish_reason: string | null
  input_tokens: number
  output_tokens: number
  cache_read_tokens: number
  cache_write_tokens: number
  reasoning_tokens: number
  tokens_estimated: number
  attempts: number
  latency_ms: number
  first_token_ms: number | null
  /** The billing unit: points or dollars. */
  billing_mode: BillingMode
  /** The month in which the request began: `2026-11`. */
  billing_period: string
  /** The cost of its tokens, whatever the billing mode. */
  cost_nanos: number
  /** 0 when billed in dollars. */
  points: number
  /** 1: the price of the model is unknown, and a default was applied. */
  price_missing: number
}

/** The spend of an account, or a key, in one month: the sum over its usage_records. */
export type SpendCounterRow = {
  tenant_id: string
  /** `user`: everything billed to this account. `key`: the dollars spent through this key. */
  holder: 'user' | 'key'
  holder_id: string
  period: string
  /** Cost of the requests that were billed in dollars. */
  nanos: number
  points: number
}

/** The maximum that a running request may add to a spend counter. It is ignored after `expires_at` (ISO 8601). */
export type SpendReservationRow = SpendCounterRow & { request_id: string; expires_at: string }

/**
 * The stored response to a request with an Idempotency-Key; unique by tenant, key, route and idempotency_key. While
 * `lease_until` is set there is no response yet: the row is the claim of the daemon that runs the request `request_id`.
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
  /** The body as it was sent, byte for byte. */
  body: string
  created_at: string
  expires_at: string
  /** ISO 8601. After it, another daemon may take over the claim. Null for a response, and always on SQLite. */
  lease_until: string | null
}

/** A finding of a guard in one request: the type, the count and the action, never the text itself. */
export type IncidentRow = {
  id: string
  tenant_id: string
  created_at: string
  request_id: string
  /** `trx-…`, as the error response shows it. */
  trace_id: string
  api_key_id: string
  user_id: string
  /** The route's path. */
  endpoint: string
  /** Null when no model had been called. */
  model: string | null
  kind: IncidentKind
  rule_id: string
  rule_name: string
  category: string
  /** JSON: the count of each type. */
  types: string
  match_count: number
  severity: Severity
  direction: GuardDirection
  action: IncidentAction
  /** 0 when the policy or rule only monitors, so no action was taken. */
  enforced: number
  /** 0 to 100, from the prompt shield. */
  risk_score: number | null
  /** Canonical name. */
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
