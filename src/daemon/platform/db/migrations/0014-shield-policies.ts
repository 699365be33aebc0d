import type { MigrationStep } from '../migration-step.ts'

export const shieldPolicies: MigrationStep = ({ text, tableEnd }) => [
  `create table shield_policies (
    tenant_id ${text} not null references tenants (id),
    id ${text} not null,
    name ${text} not null,
    description ${text} not null,
    document ${text} not null,
    created_at ${text} not null,
    updated_at ${text} not null,
    primary key (tenant_id, id)
  )${tableEnd}`,
]
