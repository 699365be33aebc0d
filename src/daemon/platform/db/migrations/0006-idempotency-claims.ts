import type { MigrationStep } from '../migration-step.ts'

/**
 * A row of idempotency_results with a `lease_until` is a claim: its daemon is still running the request. The index
 * contains only claims, so stored responses do not enlarge it.
 */
export const idempotencyClaims: MigrationStep = ({ text }) => [
  `alter table idempotency_results add column lease_until ${text}`,
  `create index idempotency_results_claimed on idempotency_results (request_id) where lease_until is not null`,
]
