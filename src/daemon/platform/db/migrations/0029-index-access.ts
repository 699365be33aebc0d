import type { MigrationStep } from '../migration-step.ts'

/**
 * `index_access` is what an index allows the keys that may read it. Existing indexes keep their rule: a key with
 * `indexAccess: write` may change their documents.
 */
export const indexAccess: MigrationStep = ({ text }) => [
  `alter table indexes add column index_access ${text} not null default 'write'`,
]
