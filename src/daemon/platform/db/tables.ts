import type { SystemRole } from '../../../shared/permissions.ts'
import type { BillingMode } from '../../../shared/wire/billing.ts'
import type { GuardDirection, IncidentAction, IncidentKind, Severity } from '../../../shared/wire/incidents.ts'
import type { License } from '../../../shared/wire/users.ts'

/**
 * Every row type on one page. Times are ISO 8601 text, flags are 0 or 1, and every row of a customer has its tenant_id.
 * The same columns exist on SQLite and on PostgreSQL.
 */
export type Tables = {
  tenants: {
    id: string
    name: string
    /** While a tenant is disabled, none of its keys is accepted. */
    status: 'Active' | 'Disabled'
    created_at: string
    updated_at: string
    /** The name in lower case: what a search looks at. */
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
    /** Name, email and username in lower case, one a line: what a search looks at. */
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
    /** Name, display name and description in lower case, one a line: what a search looks at. */
    search_text: string
    /** User id; null for system roles. That user may be gone. */
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
    /** How many group_members it has: kept with every change of them, so that lists can be sorted by it. */
    user_count: number
    /** Name and description in lower case, one a line: what a search looks at. */
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
    /** JSON: StoredSettings, of which what is absent has its default. */
    settings: string
    /** The name in lower case: what a search looks at. */
    search_text: string
  }
  smltp_policies: {
    tenant_id: string
    /** Its name in lower case, with hyphens for spaces. Unique in its tenant, and none of a built-in policy. */
    id: string
    name: string
    description: string
    /** JSON: PolicyDocument, of which what is absent has its default. */
    document: string
    created_at: string
    updated_at: string
  }
  /** The policy that is active in a tenant, built-in or custom; no row for the default of the system. */
  smltp_active_policies: { tenant_id: string; policy_id: string; activated_at: string }
  rate_counters: RateCounterRow
  evidence_entries: EvidenceEntryRow
  evidence_commits: EvidenceCommitRow
  evidence_checkpoints: EvidenceCheckpointRow
  /** Roots of complete subtrees of a chain's Merkle tree, of 256 to the power of `level` entries: what saves proofs reading. */
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
    /** Unique in its tenant. What is deleted is called `~<id>`, as no index can be, and keeps its own name beside it. */
    name: string
    deleted_name: string | null
    description: string
    created_by: string
    created_at: string
    updated_at: string
    deleted_at: string | null
    /** Whose index it is: this user's or this group's, and with neither everybody's in the tenant. They may be gone. */
    assigned_user_id: string | null
    assigned_group_id: string | null
  }
  documents: {
    id: string
    tenant_id: string
    index_id: string
    /** File name or the given name; unique within its index among what is published. */
    source: string
    title: string
    /** SHA-256 of the file, hex; an unchanged document is skipped. */
    content_hash: string
    passage_count: number
    /**
     * Only what is `published` is searched. Before it is a `draft`, and once it is `discarded` it never comes back. It is
     * `buried` when its passages are deleted and a segment still holds their words.
     */
    state: 'draft' | 'published' | 'discarded' | 'buried'
    created_at: string
    /** Its passages have ids from here on, one after the other. Null until the daemon has indexed an old document anew. */
    first_passage_id: number | null
    /** 1 once words of it are in a segment that holds other documents as well. */
    in_shared_segment: number
    /** The embedding model that has embedded all of it; 0 for none, which is what it begins with. */
    embedded_by?: number | undefined
  }
  passages: {
    /** Whole number, given by us in rising order, because FTS5 refers to passages by rowid. */
    id: number
    tenant_id: string
    index_id: string
    document_id: string
    /** 0-based position in its document. */
    position: number
    /** Headings above the passage, outermost first, joined by " > ". */
    headings: string
    body: string
    /** The page that it begins on, in documents that have pages. */
    page: number | null
  }
  /** Which words some passages hold: a part of the inverted index. Never changed but for its state. */
  segments: {
    id: string
    tenant_id: string
    index_id: string
    /** While it holds passages of this document only. */
    document_id: string | null
    /** Only what is `published` is searched. */
    state: 'draft' | 'published'
    /** The segment that is about to take the place of this one. */
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
    /** How many numbers a vector was asked to have; 0: as many as the model gives. */
    asked_dimensions: number
    /** How many its vectors have; 0 until the first one came. */
    dimensions: number
  }
  /** One row: which model embeds now, and which daemon has it done. */
  embedding_work: { id: number; model_id: number; lease_owner: string | null; lease_until: string | null }
  /** Of an index that has vectors: those of which model are searched, and whether there may be others to delete. */
  index_vectors: { tenant_id: string; index_id: string; model_id: number; is_clean: number }
  passage_vectors: {
    passage_id: number
    model_id: number
    tenant_id: string
    index_id: string
    /** Bits that tell about how near two vectors are (knowledge/vectors/signature.ts). On PostgreSQL a text goes in. */
    signature: Uint8Array | string
    /** The numbers, of length 1. On PostgreSQL a text goes in. */
    vector: Uint8Array | string
  }
}

/** How often a key was used in the current window of one counter. */
export type RateCounterRow = {
  tenant_id: string
  api_key_id: string
  /** `minute`, `hour`, `day`, `month`, or one of these behind a route: `POST /api/external/groups minute`. */
  counter: string
  /** ISO 8601. A later window overwrites the earlier one. */
  window_start: string
  used: number
  last_used_at: string
}

/** One link of a hash chain: what a request or an administrative change was. Never edited; its payload may be expunged. */
export type EvidenceEntryRow = {
  tenant_id: string
  /** `changes`, or `requests-` and the id of the daemon that writes it. */
  chain: string
  /** From 0, without a gap. */
  seq: number
  /** Of a request its bundle id. */
  id: string
  created_at: string
  /** Canonical JSON; null when it was expunged. */
  payload: string | null
  /** Hashes are hex. */
  payload_hash: string
  entry_hash: string
  commit_id: string
  /** Where it is among the leaves of its commit. */
  leaf_index: number
}

/** What signs the entries of one commit, of all tenants. */
export type EvidenceCommitRow = {
  id: string
  created_at: string
  kid: string
  /** The name of the key. */
  signer: string
  tree_size: number
  /** Of the Merkle tree over the entries, hex. */
  root: string
  /** Their hashes in order, hex, joined. */
  leaves: string
  /** base64 */
  signature: string
}

/** What a chain was at some length, signed. */
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

/** A key that signs evidence, or has. */
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

/** One event, until and after it is delivered. */
export type OutboxEventRow = {
  /** `evt_` and 24 hex characters. */
  id: string
  tenant_id: string
  type: string
  created_at: string
  /** JSON object: the event's `data`. */
  data: string
  /** When its deliveries were made; null until then. Whoever writes an event leaves it out. */
  fanned_out_at?: string | null | undefined
}

/** A subscription (spec: Webhook endpoint). */
export type WebhookEndpointRow = {
  id: string
  tenant_id: string
  url: string
  description: string
  /** JSON: event types, or `["*"]`. */
  events: string
  enabled: number
  /** Why it is disabled: `failures` when it happened by itself. Null while it is enabled. */
  disabled_reason: 'failures' | 'manual' | null
  /** Deliveries in a row that used up their attempts. */
  failure_count: number
  /** Deliveries that were given up because too many were held, in all. */
  held_dropped: number
  /** Sealed (secrets/seal.ts): the `whsec_…` text. */
  secret: string
  /** Sealed as `secret` is; signs too until `previous_secret_until`, when a rotation asked for an overlap. */
  previous_secret: string | null
  previous_secret_until: string | null
  created_at: string
  updated_at: string
  /** When the last attempt ended, and its HTTP status; null when there was none, or no answer. */
  last_delivery_at: string | null
  last_status: number | null
}

/**
 * One event on its way to one endpoint. `pending` waits for `due_at`; `held` waits for its disabled endpoint; `failed` has
 * used up its attempts; `cancelled` was given up, because its endpoint is gone, too many were held, or its event is not
 * kept any more.
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
  /** Attempts that have ended. */
  attempts: number
  /** The daemon that is sending it, until when it may, and a number that rises with each claim. */
  lease_owner: string | null
  lease_until: string | null
  fence: number
  last_status: number | null
  last_error: string | null
  last_duration_ms: number | null
  /** The first 4 KiB of the last answer. */
  last_response: string | null
  delivered_at: string | null
  /** The delivery that an administrator sent once more with this one. */
  resend_of: string | null
  is_test: number
}

/** One finished request: what is billed, to whom. Primary key is the request id, so a request cannot be billed twice. */
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
  /** What was drawn on: points or dollars. */
  billing_mode: BillingMode
  /** The month in which the request began: `2026-11`. */
  billing_period: string
  /** What its tokens cost, whatever was drawn on. */
  cost_nanos: number
  /** 0 when dollars were drawn on. */
  points: number
  /** 1: nobody told the price of the model, and one was assumed. */
  price_missing: number
}

/** What an account, or a key, has drawn on in one month: the sum over its usage_records. */
export type SpendCounterRow = {
  tenant_id: string
  /** `user`: all that was billed to this account. `key`: the dollars that were spent through this key. */
  holder: 'user' | 'key'
  holder_id: string
  period: string
  /** Cost of the requests that drew on dollars. */
  nanos: number
  points: number
}

/** The most that a running request may add to a spend counter. After `expires_at` (ISO 8601) it does not count. */
export type SpendReservationRow = SpendCounterRow & { request_id: string; expires_at: string }

/**
 * The stored answer to a request that carried an Idempotency-Key; unique by tenant, key, route and idempotency_key. While
 * `lease_until` is set there is no answer yet: the row is the claim of the daemon that runs the request `request_id`.
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
  /** ISO 8601. Once it is over, another daemon may take the claim. Null for an answer; SQLite has nothing else. */
  lease_until: string | null
}

/** What a guard found in one request: what kind of thing, how often, and what was done; never the thing itself. */
export type IncidentRow = {
  id: string
  tenant_id: string
  created_at: string
  request_id: string
  /** `trx-…`, as the refusal names it. */
  trace_id: string
  api_key_id: string
  user_id: string
  /** The route's path. */
  endpoint: string
  /** Null when no model had been asked. */
  model: string | null
  kind: IncidentKind
  rule_id: string
  rule_name: string
  category: string
  /** JSON: how often each type was found. */
  types: string
  match_count: number
  severity: Severity
  direction: GuardDirection
  action: IncidentAction
  /** 0 where policy or rule only watch, so that nothing was done. */
  enforced: number
  /** 0 to 100, of the prompt shield. */
  risk_score: number | null
  /** Canonical name. */
  policy: string
}

/** A prompt shield policy that a tenant has made; `id` is its name in lower case, with hyphens for spaces. */
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

/** A rule of a tenant about what texts may hold; `id` is its name in lower case, with hyphens for spaces. */
export type GuardRuleRow = {
  tenant_id: string
  id: string
  name: string
  /** JSON: GuardRuleDocument */
  document: string
  created_at: string
  updated_at: string
}
