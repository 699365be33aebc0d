import type { MigrationStep } from '../migration-step.ts'

/**
 * `is_sealed` is 1 if a stored answer is encrypted, because the policy of its request requires this. `policy_id` is the
 * policy under which a document was trained, if that was the default policy of a key. It decides which embedding model
 * may read the document.
 */
export const policiesEnforced: MigrationStep = ({ text, integer }) => [
  `alter table idempotency_results add column is_sealed ${integer} not null default 0`,
  `alter table documents add column policy_id ${text}`,
]
