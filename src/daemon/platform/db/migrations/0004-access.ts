import type { MigrationStep } from '../migration-step.ts'

/**
 * Groups, roles, permissions and usage of keys, the log of administrative changes, and the outbox. Audit entries,
 * counters and events have no foreign key to an account: these rows outlive the account, and inserts need no look-up.
 */
export const access: MigrationStep = ({ engine, text, integer, tableEnd }) => [
  `alter table tenants add column status ${text} not null default 'Active'`,
  `alter table tenants add column updated_at ${text} not null default ''`,
  'update tenants set updated_at = created_at',
  `alter table tenants add column search_text ${text} not null default ''`,
  'update tenants set search_text = lower(name)',
  'create unique index tenants_by_name on tenants (name)',
  'create index tenants_by_age on tenants (created_at, id)',

  `alter table users add column license ${text} not null default 'Essential'`,
  `alter table users add column auth_type ${text} not null default 'basic'`,
  `alter table users add column is_verified ${integer} not null default 0`,
  `alter table users add column setup_completed ${integer} not null default 0`,
  `alter table users add column search_text ${text} not null default ''`,
  `update users set search_text = lower(name) || '\n' || email || '\n' || username`,
  'create unique index users_by_name on users (tenant_id, name)',
  // This is a covering index: lists scan it in their sort order, and searches read nothing else.
  'create index users_by_age on users (tenant_id, created_at, id, search_text)',
  'create index users_by_change on users (tenant_id, updated_at, id)',
  'create index users_by_role on users (tenant_id, role, created_at, id)',
  // This index is as narrow as possible, because counting the users of a tenant or of a role scans it.
  'create index users_by_count on users (tenant_id, role)',
  'create index users_by_license on users (tenant_id, license, created_at, id)',
  'create index users_by_status on users (tenant_id, status, created_at, id)',

  `create table roles (
    id ${text} primary key,
    tenant_id ${text} not null references tenants (id),
    name ${text} not null,
    display_name ${text} not null,
    description ${text} not null,
    is_system ${integer} not null,
    has_admin_panel_access ${integer} not null,
    permissions ${text} not null,
    can_interact_with_ai ${integer} not null,
    can_use_chat ${integer} not null,
    search_text ${text} not null,
    created_by ${text},
    created_at ${text} not null,
    updated_at ${text} not null,
    unique (tenant_id, id),
    unique (tenant_id, name)
  )${tableEnd}`,
  'create index roles_by_age on roles (tenant_id, created_at, id)',
  // Roles of users have a separate table, because neither engine can add a composite foreign key to `users` later.
  `create table user_roles (
    tenant_id ${text} not null,
    user_id ${text} not null,
    role_id ${text} not null,
    primary key (tenant_id, user_id),
    foreign key (tenant_id, user_id) references users (tenant_id, id) on delete cascade,
    foreign key (tenant_id, role_id) references roles (tenant_id, id)
  )${tableEnd}`,
  'create index user_roles_by_role on user_roles (tenant_id, role_id)',

  `create table "groups" (
    id ${text} primary key,
    tenant_id ${text} not null references tenants (id),
    name ${text} not null,
    description ${text} not null,
    status ${text} not null,
    user_count ${integer} not null,
    search_text ${text} not null,
    created_at ${text} not null,
    updated_at ${text} not null,
    unique (tenant_id, id),
    unique (tenant_id, name)
  )${tableEnd}`,
  'create index groups_by_age on "groups" (tenant_id, created_at, id)',
  'create index groups_by_change on "groups" (tenant_id, updated_at, id)',
  'create index groups_by_size on "groups" (tenant_id, user_count, id)',
  'create index groups_by_status on "groups" (tenant_id, status, created_at, id)',
  `create table group_members (
    tenant_id ${text} not null,
    group_id ${text} not null,
    user_id ${text} not null,
    primary key (tenant_id, group_id, user_id),
    foreign key (tenant_id, group_id) references "groups" (tenant_id, id) on delete cascade,
    foreign key (tenant_id, user_id) references users (tenant_id, id) on delete cascade
  )${tableEnd}`,
  'create index group_members_by_user on group_members (tenant_id, user_id)',

  `alter table api_keys add column settings ${text} not null default '{}'`,
  `alter table api_keys add column updated_at ${text} not null default ''`,
  `alter table api_keys add column search_text ${text} not null default ''`,
  'update api_keys set updated_at = created_at, search_text = lower(name)',
  'create index api_keys_by_age on api_keys (tenant_id, created_at, id)',

  `create table rate_counters (
    tenant_id ${text} not null,
    api_key_id ${text} not null,
    counter ${text} not null,
    window_start ${text} not null,
    used ${integer} not null,
    last_used_at ${text} not null,
    primary key (tenant_id, api_key_id, counter)
  )${tableEnd}`,

  `create table audit_entries (
    id ${text} primary key,
    tenant_id ${text} not null,
    created_at ${text} not null,
    type ${text} not null,
    severity ${text} not null,
    description ${text} not null,
    user_id ${text} not null,
    user_name ${text} not null,
    user_email ${text} not null,
    api_key_id ${text} not null,
    request_id ${text} not null,
    endpoint ${text} not null,
    operation ${text} not null,
    resource_type ${text} not null,
    resource_id ${text} not null,
    outcome ${text} not null,
    compliance_category ${text} not null,
    metadata ${text} not null
  )${tableEnd}`,
  'create index audit_entries_by_time on audit_entries (tenant_id, created_at, id)',

  `create table outbox_events (
    id ${text} primary key,
    tenant_id ${text} not null,
    type ${text} not null,
    created_at ${text} not null,
    data ${text} not null
  )${tableEnd}`,
  'create index outbox_events_by_time on outbox_events (tenant_id, created_at, id)',
  ...(engine === 'postgres' ? [TRIGRAM_SEARCH] : []),
]

/**
 * Lets PostgreSQL search for substrings of names through an index. Typical installations of PostgreSQL include the
 * extension, and the owner of a database is allowed to create it. Without the extension, a search reads all rows of a
 * tenant. Managed databases often install extensions in a separate schema that is not on the search path.
 */
const TRIGRAM_SEARCH = `do $$ declare place text; begin
  create extension if not exists pg_trgm;
  select quote_ident(nspname) into strict place
    from pg_extension join pg_namespace on pg_namespace.oid = extnamespace where extname = 'pg_trgm';
  execute format('create index users_by_text on users using gin (search_text %s.gin_trgm_ops)', place);
  execute format('create index groups_by_text on "groups" using gin (search_text %s.gin_trgm_ops)', place);
exception when insufficient_privilege or undefined_file or feature_not_supported or undefined_object then
  raise notice 'searches work without an index: the extension pg_trgm cannot be used';
end $$`
