import type { MigrationStep } from '../migration-step.ts'

/**
 * An incident is a finding of a guard. Incidents outlive their key, user and policy, so they have no foreign keys to
 * these rows.
 */
export const incidents: MigrationStep = ({ text, integer, tableEnd }) => [
  `create table incidents (
    id ${text} primary key,
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
    policy ${text} not null
  )${tableEnd}`,
  'create index incidents_by_age on incidents (tenant_id, created_at, id)',
  'create index incidents_by_kind on incidents (tenant_id, kind, created_at, id)',
  'create index incidents_by_key on incidents (tenant_id, api_key_id, created_at, id)',
  'create index incidents_by_request on incidents (tenant_id, request_id)',
]
