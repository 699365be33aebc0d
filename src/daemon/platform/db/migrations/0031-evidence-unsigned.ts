import type { MigrationStep } from '../migration-step.ts'

/**
 * `evidence_unsigned` contains a row if the store is older than signing keys. A store with tenants, but without keys and
 * without this row has lost its evidence.
 */
export const evidenceUnsigned: MigrationStep = ({ text, tableEnd }) => [
  `create table evidence_unsigned (upgraded_at ${text} not null)${tableEnd}`,
  `insert into evidence_unsigned select '${new Date().toISOString()}'
    where exists (select 1 from tenants)
      and not exists (select 1 from evidence_keys)
      and not exists (select 1 from evidence_checkpoints)
      and not exists (select 1 from log_positions)`,
]
