import type { MigrationDialect, MigrationStep } from '../migration-step.ts'

/** Tags in the sums of usage, budgets of groups, tenants and tags, and the models that are down. */
export const reports: MigrationStep = (dialect) => [
  ...taggedUsage(dialect),
  `create table budgets (
    id ${dialect.text} primary key,
    tenant_id ${dialect.text} not null,
    scope ${dialect.text} not null,
    subject ${dialect.text} not null,
    limit_nanos ${dialect.integer} not null,
    created_at ${dialect.text} not null,
    updated_at ${dialect.text} not null,
    unique (tenant_id, scope, subject)
  )${dialect.tableEnd}`,
  `create table provider_outages (
    tenant_id ${dialect.text} not null,
    slot ${dialect.text} not null,
    reason ${dialect.text} not null,
    since ${dialect.text} not null,
    primary key (tenant_id, slot)
  )${dialect.tableEnd}`,
]

/** Adds the tag to the key of the sums of usage. */
export const taggedUsage: MigrationStep = (dialect) =>
  dialect.engine === 'sqlite' ? usageWithTags(dialect) : USAGE_WITH_TAGS_ON_POSTGRES

/** SQLite cannot change the primary key of a table, so the rows move into a new one. */
const usageWithTags = ({ text, integer, tableEnd }: MigrationDialect): string[] => [
  `create table usage_days_with_tags (
    tenant_id ${text} not null,
    day ${text} not null,
    user_id ${text} not null,
    api_key_id ${text} not null,
    model ${text} not null,
    tag ${text} not null default '',
    requests ${integer} not null,
    input_tokens ${integer} not null,
    output_tokens ${integer} not null,
    nanos ${integer} not null,
    billed_nanos ${integer} not null,
    points ${integer} not null,
    primary key (tenant_id, day, user_id, api_key_id, model, tag)
  )${tableEnd}, without rowid`,
  `insert into usage_days_with_tags
    (tenant_id, day, user_id, api_key_id, model, requests, input_tokens, output_tokens, nanos, billed_nanos, points)
    select tenant_id, day, user_id, api_key_id, model, requests, input_tokens, output_tokens, nanos, billed_nanos, points
    from usage_days`,
  'drop table usage_days',
  'alter table usage_days_with_tags rename to usage_days',
]

const USAGE_WITH_TAGS_ON_POSTGRES = [
  `alter table usage_days add column tag text collate "C" not null default ''`,
  'alter table usage_days drop constraint usage_days_pkey',
  'alter table usage_days add primary key (tenant_id, day, user_id, api_key_id, model, tag)',
]
