import type { MigrationStep } from '../migration-step.ts'

/**
 * The cost of each request, the monthly spend of each account and key, and the reservations of running requests. Money
 * is in nano-dollars. Spend counters have no foreign key to the account, because they outlive the account.
 */
export const billing: MigrationStep = ({ text, integer, tableEnd }) => [
  `alter table users add column usage_by_model ${integer} not null default 0`,
  `alter table users add column dollar_limit_nanos ${integer}`,

  `alter table usage_records add column billing_mode ${text} not null default 'user-completions'`,
  `alter table usage_records add column billing_period ${text} not null default ''`,
  'update usage_records set billing_period = substr(created_at, 1, 7)',
  `alter table usage_records add column cost_nanos ${integer} not null default 0`,
  `alter table usage_records add column points ${integer} not null default 0`,
  `alter table usage_records add column price_missing ${integer} not null default 0`,

  `create table spend_counters (
    tenant_id ${text} not null,
    holder ${text} not null,
    holder_id ${text} not null,
    period ${text} not null,
    nanos ${integer} not null,
    points ${integer} not null,
    primary key (tenant_id, holder, holder_id, period)
  )${tableEnd}`,
  // This table is used only if several daemons share a store. On SQLite, the only daemon keeps reservations in memory.
  `create table spend_reservations (
    tenant_id ${text} not null,
    holder ${text} not null,
    holder_id ${text} not null,
    period ${text} not null,
    request_id ${text} not null,
    nanos ${integer} not null,
    points ${integer} not null,
    expires_at ${text} not null,
    primary key (tenant_id, holder, holder_id, request_id)
  )${tableEnd}`,
  'create index spend_reservations_by_request on spend_reservations (tenant_id, request_id)',
  'create index spend_reservations_by_expiry on spend_reservations (expires_at)',
]
