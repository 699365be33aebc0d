import type { MigrationStep } from '../migration-step.ts'

/** Cosignatures of witnesses on checkpoints. The primary key also finds the last cosigned checkpoint of a chain. */
export const evidenceCosignatures: MigrationStep = ({ text, integer, tableEnd }) => [
  `create table evidence_cosignatures (
    tenant_id ${text} not null,
    chain ${text} not null,
    witness ${text} not null,
    tree_size ${integer} not null,
    log_line ${text} not null,
    line ${text} not null,
    cosigned_at ${text} not null,
    primary key (tenant_id, chain, witness, tree_size)
  )${tableEnd}`,
]
