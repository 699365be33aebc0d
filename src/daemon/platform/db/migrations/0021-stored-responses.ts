import type { MigrationStep } from '../migration-step.ts'

/**
 * Answers of the Responses API that are kept for later requests. `sealed` contains the answer and its conversation,
 * encrypted. The rows have no foreign keys, because they expire by themselves.
 */
export const storedResponses: MigrationStep = ({ text, tableEnd }) => [
  `create table stored_responses (
    tenant_id ${text} not null,
    id ${text} not null,
    user_id ${text} not null,
    created_at ${text} not null,
    expires_at ${text} not null,
    sealed ${text} not null,
    primary key (tenant_id, id)
  )${tableEnd}`,
  'create index stored_responses_by_expiry on stored_responses (expires_at)',
]
