import type { MigrationStep } from '../migration-step.ts'

/** The rows that daemons write to check whether the store accepts writes. */
export const storeProbes: MigrationStep = ({ text, tableEnd }) => [
  `create table store_probes (
    id ${text} not null primary key,
    written_at ${text} not null,
    padding ${text} not null
  )${tableEnd}`,
]
