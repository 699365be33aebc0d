import type { MigrationStep } from '../migration-step.ts'

/**
 * Summaries of the hash chains: how far each chain is summarised, its blocks and their owners
 * (log-blocks.ts), and usage by day.
 */
export const logSummaries: MigrationStep = ({ engine, text, integer, tableEnd }) => [
  `create table log_positions (
    tenant_id ${text} not null,
    chain ${text} not null,
    size ${integer} not null,
    primary key (tenant_id, chain)
  )${clustered(engine, tableEnd)}`,
  `create table log_blocks (
    tenant_id ${text} not null,
    chain ${text} not null,
    level ${integer} not null,
    block ${integer} not null,
    first_at ${text} not null,
    last_at ${text} not null,
    groups ${text} not null,
    owners ${text} not null,
    primary key (tenant_id, chain, level, block)
  )${tableEnd}`,
  `create table log_owners (
    tenant_id ${text} not null,
    user_id ${text} not null,
    api_key_id ${text} not null,
    chain ${text} not null,
    block ${integer} not null,
    first_at ${text} not null,
    last_at ${text} not null,
    groups ${text} not null,
    primary key (tenant_id, user_id, api_key_id, chain, block)
  )${clustered(engine, tableEnd)}`,
  `create table usage_days (
    tenant_id ${text} not null,
    day ${text} not null,
    user_id ${text} not null,
    api_key_id ${text} not null,
    model ${text} not null,
    requests ${integer} not null,
    input_tokens ${integer} not null,
    output_tokens ${integer} not null,
    nanos ${integer} not null,
    billed_nanos ${integer} not null,
    points ${integer} not null,
    primary key (tenant_id, day, user_id, api_key_id, model)
  )${clustered(engine, tableEnd)}`,
]

/** Rows of these tables are short and always found by their key, so SQLite stores them in the primary-key index. */
const clustered = (engine: string, tableEnd: string): string =>
  engine === 'sqlite' ? `${tableEnd}, without rowid` : tableEnd
