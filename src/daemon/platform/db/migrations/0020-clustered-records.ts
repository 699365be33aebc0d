import type { MigrationDialect, MigrationStep } from '../migration-step.ts'

/**
 * Each B-tree of a table costs CPU in the commit of a request. On SQLite, the rows of incidents and counters are now
 * stored in their key; the key of incidents has the order of their lists. On PostgreSQL, incidents keep their id and the
 * index in the order of their lists. Building another index there may take longer than a statement may.
 */
export const clusteredRecords: MigrationStep = (dialect) =>
  dialect.engine === 'postgres'
    ? ['incidents_by_kind', 'incidents_by_key', 'incidents_by_request'].map((name) => `drop index ${name}`)
    : Object.entries(tables(dialect)).flatMap(([name, columns]) => [
        `create table clustered (${columns})${dialect.tableEnd}, without rowid`,
        `insert into clustered select ${names(columns)} from ${name}`,
        `drop table ${name}`,
        `alter table clustered rename to ${name}`,
      ])

/** The names of the columns: the first word of each line, without the line of the key. */
const names = (columns: string): string =>
  columns
    .trim()
    .split('\n')
    .map((line) => line.trim().split(' ')[0])
    .filter((name) => name !== 'primary')
    .join(', ')

const tables = ({ text, integer }: MigrationDialect) => ({
  incidents: `
    id ${text} not null,
    tenant_id ${text} not null,
    created_at ${text} not null,
    request_id ${text} not null,
    trace_id ${text} not null,
    api_key_id ${text} not null,
    user_id ${text} not null,
    endpoint ${text} not null,
    model ${text},
    kind ${text} not null,
    rule_id ${text} not null,
    rule_name ${text} not null,
    category ${text} not null,
    types ${text} not null,
    match_count ${integer} not null,
    severity ${text} not null,
    direction ${text} not null,
    action ${text} not null,
    enforced ${integer} not null,
    risk_score ${integer},
    policy ${text} not null,
    primary key (tenant_id, created_at, id)`,
  rate_counters: `
    tenant_id ${text} not null,
    api_key_id ${text} not null,
    counter ${text} not null,
    window_start ${text} not null,
    used ${integer} not null,
    last_used_at ${text} not null,
    primary key (tenant_id, api_key_id, counter)`,
  spend_counters: `
    tenant_id ${text} not null,
    holder ${text} not null,
    holder_id ${text} not null,
    period ${text} not null,
    nanos ${integer} not null,
    points ${integer} not null,
    primary key (tenant_id, holder, holder_id, period)`,
})
