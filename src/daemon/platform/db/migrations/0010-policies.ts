import type { MigrationStep } from '../migration-step.ts'

/** Policies of tenants. Built-in policies have no rows; they are defined in the code. */
export const policies: MigrationStep = ({ text, tableEnd }) => [
  `create table smltp_policies (
    tenant_id ${text} not null references tenants (id),
    id ${text} not null,
    name ${text} not null,
    description ${text} not null,
    document ${text} not null,
    created_at ${text} not null,
    updated_at ${text} not null,
    primary key (tenant_id, id)
  )${tableEnd}`,
  // `policy_id` has no foreign key, because built-in policies have no rows.
  `create table smltp_active_policies (
    tenant_id ${text} primary key references tenants (id),
    policy_id ${text} not null,
    activated_at ${text} not null
  )${tableEnd}`,
]
