import type { MigrationStep } from '../migration-step.ts'

export const guardRules: MigrationStep = ({ text, tableEnd }) => [
  `create table guard_rules (
    tenant_id ${text} not null references tenants (id),
    id ${text} not null,
    name ${text} not null,
    document ${text} not null,
    created_at ${text} not null,
    updated_at ${text} not null,
    primary key (tenant_id, id)
  )${tableEnd}`,
]
