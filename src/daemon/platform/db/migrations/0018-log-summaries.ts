import type { MigrationDialect, MigrationStep } from '../migration-step.ts'

/**
 * Summaries of the hash chains: how far each chain is summarised, its blocks and their owners
 * (log-blocks.ts), and usage by day.
 */
export const logSummaries: MigrationStep = (dialect) => [
  `create table log_positions (
    tenant_id ${dialect.text} not null,
    chain ${dialect.text} not null,
    size ${dialect.integer} not null,
    primary key (tenant_id, chain)
  )${clustered(dialect)}`,
  `create table log_blocks (
    tenant_id ${dialect.text} not null,
    chain ${dialect.text} not null,
    level ${dialect.integer} not null,
    block ${dialect.integer} not null,
    first_at ${dialect.text} not null,
    last_at ${dialect.text} not null,
    groups ${dialect.text} not null,
    owners ${dialect.text} not null,
    primary key (tenant_id, chain, level, block)
  )${dialect.tableEnd}`,
  `create table log_owners (
    tenant_id ${dialect.text} not null,
    user_id ${dialect.text} not null,
    api_key_id ${dialect.text} not null,
    chain ${dialect.text} not null,
    block ${dialect.integer} not null,
    first_at ${dialect.text} not null,
    last_at ${dialect.text} not null,
    groups ${dialect.text} not null,
    primary key (tenant_id, user_id, api_key_id, chain, block)
  )${clustered(dialect)}`,
  // Migration 0016 creates this table too. A former version of that migration did not.
  usageDays(dialect),
]

/** The table of usage by tenant, day, user, key and model. */
export const usageDays = (dialect: MigrationDialect): string => `create table if not exists usage_days (
    tenant_id ${dialect.text} not null,
    day ${dialect.text} not null,
    user_id ${dialect.text} not null,
    api_key_id ${dialect.text} not null,
    model ${dialect.text} not null,
    requests ${dialect.integer} not null,
    input_tokens ${dialect.integer} not null,
    output_tokens ${dialect.integer} not null,
    nanos ${dialect.integer} not null,
    billed_nanos ${dialect.integer} not null,
    points ${dialect.integer} not null,
    primary key (tenant_id, day, user_id, api_key_id, model)
  )${clustered(dialect)}`

/** Rows of these tables are short and always found by their key, so SQLite stores them in the primary-key index. */
const clustered = ({ engine, tableEnd }: MigrationDialect): string =>
  engine === 'sqlite' ? `${tableEnd}, without rowid` : tableEnd
