import type { MigrationStep } from '../migration-step.ts'

/**
 * If a row of idempotency_results has a `lease_until`, it is a claim: its daemon is still running the request. The
 * index contains only claims, so stored responses do not enlarge it.
 */
export const idempotencyClaims: MigrationStep = ({ text }) => [
  `alter table idempotency_results add column lease_until ${text}`,
  `create index idempotency_results_claimed on idempotency_results (request_id) where lease_until is not null`,
]
