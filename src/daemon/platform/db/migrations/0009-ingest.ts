import type { MigrationStep } from '../migration-step.ts'

/**
 * Indexes that belong to a user or a group, and deleted indexes, whose rows stay. No foreign key refers to the user or
 * group: an index whose owner was deleted must not become visible to everyone.
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
