import type { MigrationStep } from '../migration-step.ts'

/**
 * At most one row, while the master key is rotated. Each of the two keys is encrypted under the other, so that daemons
 * with either key learn the other.
 */
export const masterKeyRotation: MigrationStep = ({ text, tableEnd }) => [
  `create table master_key_rotation (
    id ${text} primary key,
    phase ${text} not null,
    old_id ${text} not null,
    new_id ${text} not null,
    new_under_old ${text} not null,
    old_under_new ${text} not null,
    started_at ${text} not null,
    phase_at ${text} not null
  )${tableEnd}`,
]
