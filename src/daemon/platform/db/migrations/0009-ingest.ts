import type { MigrationStep } from '../migration-step.ts'

/**
 * Adds owners (a user or a group) to indexes, and keeps the rows of deleted indexes. There is no foreign key to the
 * user or group: if an owner is deleted, the index must not become visible to everyone.
 */
export const ingest: MigrationStep = ({ text, integer }) => [
  `alter table indexes add column deleted_name ${text}`,
  `alter table indexes add column deleted_at ${text}`,
  `alter table indexes add column assigned_user_id ${text}`,
  `alter table indexes add column assigned_group_id ${text}`,
  'create index indexes_by_user on indexes (tenant_id, assigned_user_id) where assigned_user_id is not null',
  'create index indexes_deleted on indexes (id) where deleted_at is not null',
  'create index documents_by_name on documents (tenant_id, index_id, created_at, id)',
  `alter table passages add column page ${integer}`,
]
