import type { MigrationStep } from '../migration-step.ts'

/** The messages with which providers rejected calls, cleaned. Only failed attempts have one. */
export const providerMessages: MigrationStep = ({ text, integer, tableEnd }) => [
  `create table provider_messages (
    tenant_id ${text} not null,
    entry_id ${text} not null,
    attempt ${integer} not null,
    created_at ${text} not null,
    message ${text} not null,
    primary key (tenant_id, entry_id, attempt)
  )${tableEnd}`,
  'create index provider_messages_by_age on provider_messages (tenant_id, created_at)',
]
