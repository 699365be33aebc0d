import type { SystemRole } from '../../shared/permissions.ts'
import type { License } from '../../shared/wire/users.ts'

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
  rate_counters: RateCounterRow
  audit_entries: AuditEntryRow
  outbox_events: OutboxEventRow
  usage_records: UsageRecordRow
  idempotency_results: IdempotencyResultRow
  indexes: {
    id: string
    tenant_id: string
    name: string
    description: string
    created_by: string
    created_at: string
    updated_at: string
  }
  documents: {
    id: string
    tenant_id: string
    index_id: string
    /** File name or the given name; unique within its index among what is published. */
    source: string
    title: string
    /** SHA-256 of the text, hex; an unchanged document is skipped. */
    content_hash: string
    passage_count: number
    /** Only what is `published` is searched. Before it is a `draft`, and once it is `discarded` it never comes back. */
    state: 'draft' | 'published' | 'discarded'
    created_at: string
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

/** One administrative change. Never edited. */
export type AuditEntryRow = {
  id: string
  tenant_id: string
  created_at: string
  /** Such as `group_management` (named-endpoints §14). */
  type: string
  severity: 'info' | 'warning' | 'error' | 'critical'
  description: string
  user_id: string
  user_name: string
  user_email: string
  api_key_id: string
  request_id: string
  /** Method and path pattern. */
  endpoint: string
  operation: string
  resource_type: string
  resource_id: string
  outcome: 'success' | 'failure'
  compliance_category: string
  /** JSON object. */
  metadata: string
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
}

/** The stored answer to a request that carried an Idempotency-Key; unique by tenant, key, route and idempotency_key. */
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
}
