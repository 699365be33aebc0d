import type { MigrationStep } from '../migration-step.ts'

/**
 * Tenants, their users and API keys. A key refers to its user by (tenant_id, id), so a key cannot belong to a user of
 * another tenant. A tenant with users cannot be deleted. Deleting a user deletes the user's keys.
 */
export const accounts: MigrationStep = ({ text, integer, tableEnd }) => [
  `create table tenants (
    id ${text} primary key,
    name ${text} not null,
    created_at ${text} not null
  )${tableEnd}`,
  `create table users (
    id ${text} primary key,
    tenant_id ${text} not null references tenants (id),
    name ${text} not null,
    email ${text} not null,
    username ${text} not null,
    role ${text} not null,
    status ${integer} not null,
    created_at ${text} not null,
    updated_at ${text} not null,
    unique (tenant_id, id),
    unique (tenant_id, email),
    unique (tenant_id, username)
  )${tableEnd}`,
  `create table api_keys (
    id ${text} primary key,
    tenant_id ${text} not null,
    user_id ${text} not null,
    name ${text} not null,
    secret_hash ${text} not null unique,
    is_operator ${integer} not null,
    created_at ${text} not null,
    expires_at ${text},
    revoked_at ${text},
    foreign key (tenant_id, user_id) references users (tenant_id, id) on delete cascade
  )${tableEnd}`,
  'create index api_keys_by_user on api_keys (tenant_id, user_id)',
]
