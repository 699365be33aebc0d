/** Manages tenants, with the operator key. */
import type { ApiKey } from '../../../shared/wire/keys.ts'
import type { Tenant } from '../../../shared/wire/tenants.ts'
import { usageError } from '../../errors.ts'
import { field } from '../../input/fields.ts'
import { columns, findAtPath } from '../../output/formats.ts'
import { createVerb, listVerb, secretVerb, setVerb, showVerb } from '../../resources/verbs.ts'
import { KEYS } from '../keys/resource.ts'
import { TENANTS } from './resource.ts'

const STATUSES: Record<Tenant['status'], true> = { Active: true, Disabled: true }

const { view } = TENANTS
/** `create` prints the new tenant, its first administrator and the key of that administrator. */
const NEW_TENANT_VIEW = {
  ...view,
  columns: [...view.columns, ...columns({ ADMINISTRATOR: 'admin.email', KEY: 'apiKey.id' })],
  members: [...(view.members ?? []), 'admin', 'apiKey'],
}

export const commands = {
  create: createVerb(TENANTS, {
    description:
      "Create a tenant with its first administrator, and print the secret of that administrator's key, once: alone on\n" +
      'stdout, or as `secret` with -o json. Needs the operator key.',
    fields: [
      {
        member: 'name',
        flag: '[name]',
        help: 'name of the tenant',
        ask: 'Name of the tenant:',
        parse: (text) => text.trim(),
      },
      field('admin.name', '--admin-name <text>', 'full name of its administrator', {
        ask: 'Full name of its administrator:',
      }),
      field('admin.email', '--admin-email <address>', 'their email address', { ask: 'Email of its administrator:' }),
      { member: 'admin.username', flag: '--admin-username <name>', help: 'their username (default: from the email)' },
    ],
    help:
      'Example:\n  aigw tenants create acme --admin-name "Ada Lovelace" --admin-email ada@example.com --save-to acme.key\n' +
      '  aigw --api-key-file acme.key users list',
    assertFlags({ strict }) {
      if (!strict) return
      const reason =
        '--strict cannot compare the administrator: the operator key cannot read the users of another tenant'
      throw usageError(reason, ['Omit it. An existing tenant has no other field to compare.'])
    },
    toWanted: () => ({}),
    secret: {
      toShown: (tenant, body) => ({
        ...tenant,
        admin: findAtPath(body, 'admin'),
        apiKey: findAtPath(body, 'apiKey'),
      }),
      done: (tenant) => `Created tenant '${tenant.name}' (${tenant.id}) and a key for its administrator.`,
      renewal: (tenant) => `aigw tenants admin-key ${tenant.id}`,
    },
    view: NEW_TENANT_VIEW,
  }),
  list: listVerb(TENANTS, {
    description: 'List tenants. Needs the operator key.',
    fields: [{ member: 'status', flag: '--status <status>', help: 'only these', choices: Object.keys(STATUSES) }],
    searched: 'their name',
  }),
  show: showVerb(TENANTS, 'Show a tenant. Needs the operator key.'),
  'admin-key': secretVerb<ApiKey>(TENANTS, {
    name: 'admin-key',
    description:
      'Create a new key for an administrator of a tenant that has lost its own, and print its secret, once.\n' +
      'Its other keys stay. Needs the operator key.',
    fields: [field('userId', '--user <id>', 'id of the administrator (default: the one with the earliest account)')],
    made: KEYS,
    done: (key) => `Created API key '${key.name}' (${key.id}) for ${key.user.email}.`,
  }),
  disable: setVerb(TENANTS, {
    name: 'disable',
    description: 'Disable a tenant: all of its keys are rejected. Nothing is deleted. Needs the operator key.',
    changes: { status: 'Disabled' satisfies Tenant['status'] },
  }),
  enable: setVerb(TENANTS, {
    name: 'enable',
    description: 'Enable a tenant again; its keys are accepted as before. Needs the operator key.',
    changes: { status: 'Active' satisfies Tenant['status'] },
  }),
}
