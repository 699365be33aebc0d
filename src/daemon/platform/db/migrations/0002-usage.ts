import type { MigrationStep } from '../migration-step.ts'

/**
 * Usage records, and the responses stored for Idempotency-Key. Neither table has foreign keys to users or keys: bills
 * outlive their account, and the ledger's inserts need no look-up.
 */
export const usage: MigrationStep = ({ text, integer, tableEnd }) => [
  `create table usage_records (
    request_id ${text} primary key,
    tenant_id ${text} not null,
    api_key_id ${text} not null,
    user_id ${text} not null,
    created_at ${text} not null,
    route ${text} not null,
    streamed ${integer} not null,
    requested_model ${text} not null,
    served_model ${text} not null,
    index_used ${text} not null,
    outcome ${text} not null,
    native_finish_reason ${text},
    input_tokens ${integer} not null,
    output_tokens ${integer} not null,
    cache_read_tokens ${integer} not null,
    cache_write_tokens ${integer} not null,
    reasoning_tokens ${integer} not null,
    tokens_estimated ${integer} not null,
    attempts ${integer} not null,
    latency_ms ${integer} not null,
    first_token_ms ${integer}
  )${tableEnd}`,
  'create index usage_records_by_time on usage_records (tenant_id, created_at)',
  `create table idempotency_results (
    tenant_id ${text} not null,
    api_key_id ${text} not null,
    route ${text} not null,
    idempotency_key ${text} not null,
    fingerprint ${text} not null,
    request_id ${text} not null,
    status ${integer} not null,
    content_type ${text} not null,
    body ${text} not null,
    created_at ${text} not null,
    expires_at ${text} not null,
    primary key (tenant_id, api_key_id, route, idempotency_key)
  )${tableEnd}`,
  'create index idempotency_results_by_expiry on idempotency_results (expires_at)',
]
