import type { MigrationStep } from '../migration-step.ts'

/**
 * A row of idempotency_results may also be the claim of a daemon that runs the request; `lease_until` is then set. The
 * index contains only claims, so finished responses cost it nothing.
 */
export const idempotencyClaims: MigrationStep = ({ text }) => [
  `alter table idempotency_results add column lease_until ${text}`,
  `create index idempotency_results_claimed on idempotency_results (request_id) where lease_until is not null`,
]
