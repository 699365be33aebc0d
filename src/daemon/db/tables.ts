/**
 * Every row type on one page. Times are ISO 8601 text, flags are 0 or 1, and every row of a customer has its tenant_id.
 * The same columns exist on SQLite and on PostgreSQL.
 */
export type Tables = {
  tenants: { id: string; name: string; created_at: string }
  users: {
    id: string
    tenant_id: string
    name: string
    email: string
    username: string
    /** `admin` | `user` | `globalReader` */
    role: string
    /** 1 active, 0 inactive */
    status: number
    created_at: string
    updated_at: string
  }
  api_keys: {
    id: string
    tenant_id: string
    user_id: string
    name: string
    /** SHA-256 of the whole key, hex. The key itself is never stored. */
    secret_hash: string
    is_operator: number
    created_at: string
    expires_at: string | null
    revoked_at: string | null
  }
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
