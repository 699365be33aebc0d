import type { MigrationStep } from '../migration-step.ts'

/**
 * Webhook endpoints, and every delivery. Deliveries have no foreign key to the endpoint, because the delivery log
 * outlives the endpoint. Events that were written before this migration count as dispatched.
 */
export const webhooks: MigrationStep = ({ text, integer, tableEnd }) => [
  `create table webhook_endpoints (
    id ${text} primary key,
    tenant_id ${text} not null references tenants (id),
    url ${text} not null,
    description ${text} not null,
    events ${text} not null,
    enabled ${integer} not null,
    disabled_reason ${text},
    failure_count ${integer} not null,
    held_dropped ${integer} not null default 0,
    secret ${text} not null,
    previous_secret ${text},
    previous_secret_until ${text},
    created_at ${text} not null,
    updated_at ${text} not null,
    last_delivery_at ${text},
    last_status ${integer}
  )${tableEnd}`,
  'create index webhook_endpoints_by_age on webhook_endpoints (tenant_id, created_at, id)',

  `create table webhook_deliveries (
    id ${text} primary key,
    tenant_id ${text} not null,
    endpoint_id ${text} not null,
    event_id ${text} not null,
    event_type ${text} not null,
    created_at ${text} not null,
    due_at ${text} not null,
    state ${text} not null,
    attempts ${integer} not null,
    lease_owner ${text},
    lease_until ${text},
    fence ${integer} not null,
    last_status ${integer},
    last_error ${text},
    last_duration_ms ${integer},
    last_response ${text},
    delivered_at ${text},
    resend_of ${text},
    is_test ${integer} not null
  )${tableEnd}`,
  // Finds the due deliveries of one endpoint without reading the deliveries of other endpoints.
  "create index webhook_deliveries_pending on webhook_deliveries (endpoint_id, due_at) where state = 'pending'",
  'create index webhook_deliveries_by_endpoint on webhook_deliveries (endpoint_id, created_at, id)',
  'create index webhook_deliveries_by_age on webhook_deliveries (tenant_id, created_at, id)',
  // Finds the held deliveries of an endpoint. These deliveries are counted whenever the endpoint is shown. If there are
  // more than the limit, the oldest are dropped. Most endpoints have none.
  `create index webhook_deliveries_held on webhook_deliveries (endpoint_id, created_at, id)
    where state = 'held' and is_test = 0`,
  // Finds the deliveries that refer to an event. An event is kept as long as deliveries refer to it.
  'create index webhook_deliveries_by_event on webhook_deliveries (event_id)',
  // Even if an event is dispatched twice (after a crash, or by two daemons), each endpoint gets one delivery.
  `create unique index webhook_deliveries_once on webhook_deliveries (endpoint_id, event_id) where resend_of is null`,

  `alter table outbox_events add column fanned_out_at ${text}`,
  'update outbox_events set fanned_out_at = created_at',
  'create index outbox_events_waiting on outbox_events (created_at, id) where fanned_out_at is null',

  // Contains one encrypted row. If a daemon has another master key, it cannot decrypt this text, and fails before it
  // encrypts anything.
  `create table master_key_check (
    id ${text} primary key,
    sealed ${text} not null,
    created_at ${text} not null
  )${tableEnd}`,
]
