import type { MigrationStep } from '../migration-step.ts'

/**
 * The answer cache. `sealed` contains an answer, encrypted. The newest row of a key is used, so two daemons can store
 * an answer to the same request. The rows have no foreign keys, because they expire by themselves.
 */
export const cacheEntries: MigrationStep = ({ text, integer, tableEnd }) => [
  `create table cache_entries (
    tenant_id ${text} not null,
    id ${text} not null,
    key_hash ${text} not null,
    created_at ${text} not null,
    expires_at ${text} not null,
    bytes ${integer} not null,
    sealed ${text} not null,
    primary key (tenant_id, id)
  )${tableEnd}`,
  'create index cache_entries_by_key on cache_entries (tenant_id, key_hash, created_at)',
  // Contains every column that the sum and the eviction read, so that they do not read the answers.
  'create index cache_entries_by_age on cache_entries (tenant_id, created_at, expires_at, bytes, id)',
  'create index cache_entries_by_expiry on cache_entries (expires_at)',
]
