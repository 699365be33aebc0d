import type { MigrationStep } from '../migration-step.ts'

/**
 * `evidence_losses` contains one row for each part of the evidence that is lost. `chain` and `successor` are set if the
 * loss has closed a chain. `evidence_files` contains the checkpoint files that a daemon has written, so that a daemon
 * can tell a lost file from a file that was just configured.
 */
export const evidenceLosses: MigrationStep = ({ text, tableEnd }) => [
  `create table evidence_losses (
    id ${text} primary key,
    cause ${text} not null,
    tenant_id ${text},
    chain ${text},
    successor ${text},
    detail ${text} not null,
    found_at ${text} not null,
    acknowledged_at ${text}
  )${tableEnd}`,
  `create table evidence_files (
    daemon_id ${text} not null,
    path ${text} not null,
    created_at ${text} not null,
    primary key (daemon_id, path)
  )${tableEnd}`,
]
