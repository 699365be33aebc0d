import type { Group } from '../../shared/wire/groups.ts'
import type { GuardRule } from '../../shared/wire/guard-rules.ts'
import type { Index } from '../../shared/wire/indexes.ts'
import type { ApiKey } from '../../shared/wire/keys.ts'
import type { Policy } from '../../shared/wire/policies.ts'
import type { Role } from '../../shared/wire/roles.ts'
import type { ShieldPolicy } from '../../shared/wire/shield.ts'
import type { Tenant } from '../../shared/wire/tenants.ts'
import type { User } from '../../shared/wire/users.ts'
import type { Webhook } from '../../shared/wire/webhooks.ts'
import type { Resource } from './resolve.ts'

export const GROUPS: Resource<Group> = {
  noun: 'group',
  command: 'groups',
  path: 'groups',
  itemsKey: 'groups',
  itemKey: 'group',
  isCalled: (group, name) => group.name === name,
}

export const ROLES: Resource<Role> = {
  noun: 'role',
  command: 'roles',
  path: 'roles',
  itemsKey: 'roles',
  itemKey: 'role',
  isCalled: (role, name) => role.name === name,
}

/** Emails and usernames are kept in lower case. One user's name may be another one's username. */
export const USERS: Resource<User> = {
  noun: 'user',
  command: 'users',
  path: 'users',
  itemsKey: 'users',
  itemKey: 'user',
  isCalled: ({ name, username, email }, said) =>
    name === said || username === said.toLowerCase() || email === said.toLowerCase(),
  sharesNames: true,
}

/** Names of keys are labels that several may have. One that is revoked is history, and goes by its id alone. */
export const KEYS: Resource<ApiKey> = {
  noun: 'API key',
  command: 'keys',
  path: '/api/admin/api-keys',
  itemsKey: 'apiKeys',
  itemKey: 'apiKey',
  isCalled: ({ name, status }, said) => name === said && status !== 'revoked',
  sharesNames: true,
}

export const TENANTS: Resource<Tenant> = {
  noun: 'tenant',
  command: 'tenants',
  path: '/api/admin/tenants',
  itemsKey: 'tenants',
  itemKey: 'tenant',
  isCalled: (tenant, name) => tenant.name === name,
}

/** Several endpoints may have one address. */
export const WEBHOOKS: Resource<Webhook> = {
  noun: 'webhook',
  command: 'webhooks',
  path: '/api/admin/webhooks',
  itemsKey: 'webhooks',
  itemKey: 'webhook',
  isCalled: (webhook, address) => webhook.url === address,
  sharesNames: true,
  isWhole: true,
}

export const INDEXES: Resource<Index> = {
  noun: 'index',
  command: 'indexes',
  path: 'indexes',
  listPath: 'indexes/all',
  itemsKey: 'indexes',
  itemKey: 'index',
  isCalled: (index, name) => index.name === name,
}

/** Known by name or id, in any case. */
export const POLICIES: Resource<Policy> = {
  noun: 'policy',
  command: 'policies',
  path: 'smltp-policies',
  itemsKey: 'policies',
  itemKey: 'policy',
  isCalled: (policy, name) => policy.name === name,
  takesNames: true,
}

/** Known by name or id, in any case. */
export const SHIELD_POLICIES: Resource<ShieldPolicy> = {
  noun: 'prompt shield policy',
  command: 'shield policies',
  path: '/api/admin/prompt-shield-policies',
  itemsKey: 'policies',
  itemKey: 'policy',
  isCalled: (policy, name) => policy.name === name,
  isWhole: true,
  takesNames: true,
}

/** Known by name or id, in any case. */
export const GUARD_RULES: Resource<GuardRule> = {
  noun: 'guard rule',
  command: 'guard-rules',
  path: '/api/admin/guard-rules',
  itemsKey: 'rules',
  itemKey: 'rule',
  isCalled: (rule, name) => rule.name === name,
  isWhole: true,
  takesNames: true,
}
