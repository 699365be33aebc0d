import type { Command } from 'commander'
import type { CliContext } from './context.ts'

type Factory = (context: CliContext) => Command

/** One line of the tree. Only the commands a line names are loaded; the others are known by this table alone. */
export type Entry = {
  name: string
  aliases?: string[]
  summary: string
  /** Works on the saved profiles themselves, so the chosen one need not exist (yet, or any more). */
  managesProfiles?: true
} & ({ load(): Promise<Factory> } | { verbs: Entry[] })

type Group = { title: string; entries: Entry[] }

const models: Entry[] = [
  {
    name: 'list',
    aliases: ['ls'],
    summary: 'List the models this key may use',
    load: async () => (await import('./commands/models/list.ts')).listCommand,
  },
  {
    name: 'show',
    aliases: ['get'],
    summary: 'Show a model',
    load: async () => (await import('./commands/models/show.ts')).showCommand,
  },
  {
    name: 'test',
    summary: 'Ask a model for one token and show how long it takes',
    load: async () => (await import('./commands/models/test.ts')).testCommand,
  },
]

const groups: Entry[] = [
  {
    name: 'create',
    summary: 'Create a group',
    load: async () => (await import('./commands/groups/create.ts')).createCommand,
  },
  {
    name: 'list',
    aliases: ['ls'],
    summary: 'List groups',
    load: async () => (await import('./commands/groups/list.ts')).listCommand,
  },
  {
    name: 'show',
    aliases: ['get'],
    summary: 'Show a group and its members',
    load: async () => (await import('./commands/groups/show.ts')).showCommand,
  },
  {
    name: 'update',
    summary: 'Change a group',
    load: async () => (await import('./commands/groups/update.ts')).updateCommand,
  },
  {
    name: 'delete',
    aliases: ['rm'],
    summary: 'Delete a group',
    load: async () => (await import('./commands/groups/delete.ts')).deleteCommand,
  },
  {
    name: 'members',
    summary: 'Members of a group: add, remove',
    verbs: [
      {
        name: 'add',
        summary: 'Add users to a group',
        load: async () => (await import('./commands/groups/members.ts')).addCommand,
      },
      {
        name: 'remove',
        aliases: ['rm'],
        summary: 'Take users out of a group',
        load: async () => (await import('./commands/groups/members.ts')).removeCommand,
      },
    ],
  },
]

const roles: Entry[] = [
  {
    name: 'create',
    summary: 'Create a role',
    load: async () => (await import('./commands/roles/create.ts')).createCommand,
  },
  {
    name: 'list',
    aliases: ['ls'],
    summary: 'List roles',
    load: async () => (await import('./commands/roles/list.ts')).listCommand,
  },
  {
    name: 'show',
    aliases: ['get'],
    summary: 'Show a role and what it opens',
    load: async () => (await import('./commands/roles/show.ts')).showCommand,
  },
  {
    name: 'update',
    summary: 'Change a role',
    load: async () => (await import('./commands/roles/update.ts')).updateCommand,
  },
  {
    name: 'delete',
    aliases: ['rm'],
    summary: 'Delete a role',
    load: async () => (await import('./commands/roles/delete.ts')).deleteCommand,
  },
  {
    name: 'sections',
    summary: 'List permission sections and levels',
    load: async () => (await import('./commands/roles/sections.ts')).sectionsCommand,
  },
]

const policies: Entry[] = [
  {
    name: 'list',
    aliases: ['ls'],
    summary: 'List policies',
    load: async () => (await import('./commands/policies/list.ts')).listCommand,
  },
  {
    name: 'show',
    aliases: ['get'],
    summary: 'Show a policy, or the active one',
    load: async () => (await import('./commands/policies/show.ts')).showCommand,
  },
  {
    name: 'create',
    summary: 'Create a policy',
    load: async () => (await import('./commands/policies/create.ts')).createCommand,
  },
  {
    name: 'update',
    summary: 'Change a policy',
    load: async () => (await import('./commands/policies/update.ts')).updateCommand,
  },
  {
    name: 'delete',
    aliases: ['rm'],
    summary: 'Delete a policy',
    load: async () => (await import('./commands/policies/delete.ts')).deleteCommand,
  },
  {
    name: 'activate',
    summary: 'Make a policy the active one',
    load: async () => (await import('./commands/policies/activate.ts')).activateCommand,
  },
  {
    name: 'diff',
    summary: 'Compare two policies',
    load: async () => (await import('./commands/policies/diff.ts')).diffCommand,
  },
  {
    name: 'check',
    summary: 'Show what would become of a prompt',
    load: async () => (await import('./commands/policies/check.ts')).checkCommand,
  },
]

const shield: Entry[] = [
  {
    name: 'check',
    summary: 'Ask the prompt shield about a text',
    load: async () => (await import('./commands/shield/check.ts')).checkCommand,
  },
  {
    name: 'policies',
    aliases: ['policy'],
    summary: 'Prompt shield policies: list, show, create, update, delete',
    verbs: [
      {
        name: 'list',
        aliases: ['ls'],
        summary: 'List prompt shield policies',
        load: async () => (await import('./commands/shield/policies.ts')).listPoliciesCommand,
      },
      {
        name: 'show',
        aliases: ['get'],
        summary: 'Show a prompt shield policy',
        load: async () => (await import('./commands/shield/policies.ts')).showPolicyCommand,
      },
      {
        name: 'create',
        summary: 'Create a prompt shield policy',
        load: async () => (await import('./commands/shield/policies.ts')).createPolicyCommand,
      },
      {
        name: 'update',
        summary: 'Change a prompt shield policy',
        load: async () => (await import('./commands/shield/policies.ts')).updatePolicyCommand,
      },
      {
        name: 'delete',
        aliases: ['rm'],
        summary: 'Delete a prompt shield policy',
        load: async () => (await import('./commands/shield/policies.ts')).deletePolicyCommand,
      },
    ],
  },
]

const guardRules: Entry[] = [
  {
    name: 'list',
    aliases: ['ls'],
    summary: 'List guard rules',
    load: async () => (await import('./commands/guard-rules/list.ts')).listCommand,
  },
  {
    name: 'show',
    aliases: ['get'],
    summary: 'Show a guard rule',
    load: async () => (await import('./commands/guard-rules/show.ts')).showCommand,
  },
  {
    name: 'create',
    summary: 'Create a guard rule',
    load: async () => (await import('./commands/guard-rules/create.ts')).createCommand,
  },
  {
    name: 'update',
    summary: 'Change a guard rule',
    load: async () => (await import('./commands/guard-rules/update.ts')).updateCommand,
  },
  {
    name: 'delete',
    aliases: ['rm'],
    summary: 'Delete a guard rule',
    load: async () => (await import('./commands/guard-rules/delete.ts')).deleteCommand,
  },
  {
    name: 'simulate',
    summary: 'Show what rules would find in a text',
    load: async () => (await import('./commands/guard-rules/simulate.ts')).simulateCommand,
  },
]

const incidents: Entry[] = [
  {
    name: 'list',
    aliases: ['ls'],
    summary: 'List what guards have found',
    load: async () => (await import('./commands/incidents/list.ts')).listCommand,
  },
  {
    name: 'show',
    aliases: ['get'],
    summary: 'Show an incident',
    load: async () => (await import('./commands/incidents/show.ts')).showCommand,
  },
  {
    name: 'counts',
    summary: 'Count incidents by kind and action',
    load: async () => (await import('./commands/incidents/counts.ts')).countsCommand,
  },
]

const users: Entry[] = [
  {
    name: 'create',
    summary: 'Create a user',
    load: async () => (await import('./commands/users/create.ts')).createCommand,
  },
  {
    name: 'list',
    aliases: ['ls'],
    summary: 'List users',
    load: async () => (await import('./commands/users/list.ts')).listCommand,
  },
  {
    name: 'show',
    aliases: ['get'],
    summary: 'Show a user',
    load: async () => (await import('./commands/users/show.ts')).showCommand,
  },
  {
    name: 'update',
    summary: 'Change a user',
    load: async () => (await import('./commands/users/update.ts')).updateCommand,
  },
  {
    name: 'disable',
    summary: 'Deactivate a user and their keys',
    load: async () => (await import('./commands/users/status.ts')).disableCommand,
  },
  {
    name: 'enable',
    summary: 'Activate a user again',
    load: async () => (await import('./commands/users/status.ts')).enableCommand,
  },
  {
    name: 'delete',
    aliases: ['rm'],
    summary: 'Delete a user and their keys',
    load: async () => (await import('./commands/users/delete.ts')).deleteCommand,
  },
  {
    name: 'assign-role',
    summary: 'Give a user a role',
    load: async () => (await import('./commands/users/assign-role.ts')).assignRoleCommand,
  },
]

const keys: Entry[] = [
  {
    name: 'create',
    summary: 'Create an API key and print its secret',
    load: async () => (await import('./commands/keys/create.ts')).createCommand,
  },
  {
    name: 'list',
    aliases: ['ls'],
    summary: 'List API keys',
    load: async () => (await import('./commands/keys/list.ts')).listCommand,
  },
  {
    name: 'show',
    aliases: ['get'],
    summary: 'Show an API key and its restrictions',
    load: async () => (await import('./commands/keys/show.ts')).showCommand,
  },
  {
    name: 'update',
    summary: 'Change an API key',
    load: async () => (await import('./commands/keys/update.ts')).updateCommand,
  },
  {
    name: 'rotate',
    summary: 'Give an API key a new secret',
    load: async () => (await import('./commands/keys/rotate.ts')).rotateCommand,
  },
  {
    name: 'revoke',
    aliases: ['rm'],
    summary: 'Revoke an API key for good',
    load: async () => (await import('./commands/keys/revoke.ts')).revokeCommand,
  },
]

const tenants: Entry[] = [
  {
    name: 'create',
    summary: 'Create a tenant with its first administrator',
    load: async () => (await import('./commands/tenants/create.ts')).createCommand,
  },
  {
    name: 'list',
    aliases: ['ls'],
    summary: 'List tenants',
    load: async () => (await import('./commands/tenants/list.ts')).listCommand,
  },
  {
    name: 'show',
    aliases: ['get'],
    summary: 'Show a tenant',
    load: async () => (await import('./commands/tenants/show.ts')).showCommand,
  },
  {
    name: 'admin-key',
    summary: 'Make a new key for the administrator of a tenant',
    load: async () => (await import('./commands/tenants/admin-key.ts')).adminKeyCommand,
  },
  {
    name: 'disable',
    summary: 'Disable a tenant and its keys',
    load: async () => (await import('./commands/tenants/status.ts')).disableCommand,
  },
  {
    name: 'enable',
    summary: 'Enable a tenant again',
    load: async () => (await import('./commands/tenants/status.ts')).enableCommand,
  },
]

const webhooks: Entry[] = [
  {
    name: 'create',
    summary: 'Register an endpoint and print its signing secret',
    load: async () => (await import('./commands/webhooks/create.ts')).createCommand,
  },
  {
    name: 'list',
    aliases: ['ls'],
    summary: 'List endpoints',
    load: async () => (await import('./commands/webhooks/list.ts')).listCommand,
  },
  {
    name: 'show',
    aliases: ['get'],
    summary: 'Show an endpoint and how its deliveries go',
    load: async () => (await import('./commands/webhooks/show.ts')).showCommand,
  },
  {
    name: 'update',
    summary: 'Change an endpoint',
    load: async () => (await import('./commands/webhooks/update.ts')).updateCommand,
  },
  {
    name: 'enable',
    summary: 'Deliver to an endpoint again',
    load: async () => (await import('./commands/webhooks/status.ts')).enableCommand,
  },
  {
    name: 'disable',
    summary: 'Deliver nothing to an endpoint for now',
    load: async () => (await import('./commands/webhooks/status.ts')).disableCommand,
  },
  {
    name: 'delete',
    aliases: ['rm'],
    summary: 'Delete an endpoint',
    load: async () => (await import('./commands/webhooks/delete.ts')).deleteCommand,
  },
  {
    name: 'rotate-secret',
    summary: 'Give an endpoint a new signing secret',
    load: async () => (await import('./commands/webhooks/rotate-secret.ts')).rotateSecretCommand,
  },
  {
    name: 'test',
    summary: 'Send a test event to an endpoint',
    load: async () => (await import('./commands/webhooks/test.ts')).testCommand,
  },
  {
    name: 'events',
    summary: 'List the events, or show a sample of one',
    load: async () => (await import('./commands/webhooks/events.ts')).eventsCommand,
  },
  {
    name: 'verify',
    summary: 'Check the signature of a body that was received',
    load: async () => (await import('./commands/webhooks/verify.ts')).verifyCommand,
  },
  {
    name: 'sign',
    summary: 'Sign a body as the gateway does',
    load: async () => (await import('./commands/webhooks/sign.ts')).signCommand,
  },
  {
    name: 'deliveries',
    aliases: ['delivery'],
    summary: 'What was sent: list, show, resend',
    verbs: [
      {
        name: 'list',
        aliases: ['ls'],
        summary: 'List deliveries',
        load: async () => (await import('./commands/webhooks/deliveries.ts')).listDeliveriesCommand,
      },
      {
        name: 'show',
        aliases: ['get'],
        summary: 'Show a delivery and what came back',
        load: async () => (await import('./commands/webhooks/deliveries.ts')).showDeliveryCommand,
      },
      {
        name: 'resend',
        summary: 'Send the event of a delivery once more',
        load: async () => (await import('./commands/webhooks/deliveries.ts')).resendCommand,
      },
    ],
  },
  {
    name: 'recover',
    summary: 'Send an endpoint what it missed',
    load: async () => (await import('./commands/webhooks/recover.ts')).recoverCommand,
  },
  {
    name: 'listen',
    summary: 'Show events as they happen, and forward them to this machine',
    load: async () => (await import('./commands/webhooks/listen.ts')).listenCommand,
  },
  {
    name: 'trigger',
    summary: 'Send a sample of an event',
    load: async () => (await import('./commands/webhooks/trigger.ts')).triggerCommand,
  },
]

const indexes: Entry[] = [
  {
    name: 'create',
    summary: 'Create a knowledge base',
    load: async () => (await import('./commands/indexes/create.ts')).createCommand,
  },
  {
    name: 'list',
    aliases: ['ls'],
    summary: 'List knowledge bases',
    load: async () => (await import('./commands/indexes/list.ts')).listCommand,
  },
  {
    name: 'show',
    aliases: ['get'],
    summary: 'Show a knowledge base',
    load: async () => (await import('./commands/indexes/show.ts')).showCommand,
  },
  {
    name: 'update',
    summary: 'Rename one, or change who may read it',
    load: async () => (await import('./commands/indexes/update.ts')).updateCommand,
  },
  {
    name: 'delete',
    aliases: ['rm'],
    summary: 'Delete one with all its documents',
    load: async () => (await import('./commands/indexes/delete.ts')).deleteCommand,
  },
  {
    name: 'add',
    summary: 'Add files or folders to a knowledge base',
    load: async () => (await import('./commands/indexes/add.ts')).addCommand,
  },
  {
    name: 'docs',
    summary: 'List the documents of a knowledge base',
    load: async () => (await import('./commands/indexes/docs.ts')).docsCommand,
  },
  {
    name: 'remove',
    summary: 'Take a document out of a knowledge base',
    load: async () => (await import('./commands/indexes/remove.ts')).removeCommand,
  },
  {
    name: 'search',
    summary: 'Search a knowledge base',
    load: async () => (await import('./commands/indexes/search.ts')).searchCommand,
  },
  {
    name: 'rebuild',
    summary: 'Make the search of a knowledge base anew',
    load: async () => (await import('./commands/indexes/rebuild.ts')).rebuildCommand,
  },
]

const profiles: Entry[] = [
  {
    name: 'list',
    aliases: ['ls'],
    summary: 'List profiles',
    load: async () => (await import('./commands/profiles/list.ts')).listCommand,
  },
  {
    name: 'use',
    summary: 'Make a profile the current one',
    load: async () => (await import('./commands/profiles/use.ts')).useCommand,
  },
  {
    name: 'rename',
    summary: 'Rename a profile',
    load: async () => (await import('./commands/profiles/rename.ts')).renameCommand,
  },
  {
    name: 'remove',
    aliases: ['rm'],
    summary: 'Remove a profile and its key',
    load: async () => (await import('./commands/profiles/remove.ts')).removeCommand,
  },
]

const receipts: Entry[] = [
  {
    name: 'show',
    aliases: ['get'],
    summary: 'Show the receipt of a request',
    load: async () => (await import('./commands/receipts/show.ts')).showCommand,
  },
  {
    name: 'verify',
    summary: 'Check a receipt, also without a gateway',
    load: async () => (await import('./commands/receipts/verify.ts')).verifyCommand,
  },
]

const audit: Entry[] = [
  {
    name: 'verify',
    summary: 'Check that nothing of the log was changed',
    load: async () => (await import('./commands/audit/verify.ts')).verifyCommand,
  },
  {
    name: 'checkpoint',
    summary: 'Have the gateway sign how far its log goes',
    load: async () => (await import('./commands/audit/checkpoint.ts')).checkpointCommand,
  },
  {
    name: 'export',
    summary: 'Write the log into a directory that anyone can check',
    load: async () => (await import('./commands/audit/export.ts')).exportCommand,
  },
  {
    name: 'rotate-key',
    summary: 'Sign evidence with a new key (operator key)',
    load: async () => (await import('./commands/audit/rotate-key.ts')).rotateKeyCommand,
  },
]

const logs: Entry[] = [
  {
    name: 'list',
    aliases: ['ls'],
    summary: 'List what was done',
    load: async () => (await import('./commands/logs/list.ts')).listCommand,
  },
  {
    name: 'tail',
    summary: 'Show new entries as they are logged',
    load: async () => (await import('./commands/logs/tail.ts')).tailCommand,
  },
  {
    name: 'show',
    aliases: ['get'],
    summary: 'Show what was logged of one request',
    load: async () => (await import('./commands/logs/show.ts')).showCommand,
  },
]

/** The whole command line, in the order of its help. */
export const COMMAND_GROUPS: Group[] = [
  {
    title: 'Chat:',
    entries: [
      {
        name: 'chat',
        summary: 'Ask a model, with or without a knowledge base',
        load: async () => (await import('./commands/chat/chat.ts')).chatCommand,
      },
      { name: 'models', aliases: ['model'], summary: 'Models this key may use: list, show, test', verbs: models },
    ],
  },
  {
    title: 'Access:',
    entries: [
      {
        name: 'groups',
        aliases: ['group'],
        summary: 'Groups of users: create, list, show, update, delete, members',
        verbs: groups,
      },
      {
        name: 'roles',
        aliases: ['role'],
        summary: 'Roles: create, list, show, update, delete, sections',
        verbs: roles,
      },
      {
        name: 'users',
        aliases: ['user'],
        summary: 'Users: create, list, show, update, disable, enable, delete, assign-role',
        verbs: users,
      },
      {
        name: 'keys',
        aliases: ['key'],
        summary: 'API keys: create, list, show, update, rotate, revoke',
        verbs: keys,
      },
      {
        name: 'tenants',
        aliases: ['tenant'],
        summary: 'Tenants (operator key): create, list, show, admin-key, disable, enable',
        verbs: tenants,
      },
    ],
  },
  {
    title: 'Webhooks:',
    entries: [
      {
        name: 'webhooks',
        aliases: ['webhook'],
        summary: 'Signed events to endpoints: create, test, deliveries, listen and more',
        verbs: webhooks,
      },
    ],
  },
  {
    title: 'Knowledge:',
    entries: [
      {
        name: 'indexes',
        aliases: ['index'],
        summary: 'Knowledge bases and their documents: create, add, docs, search …',
        verbs: indexes,
      },
    ],
  },
  {
    title: 'Security:',
    entries: [
      {
        name: 'policies',
        aliases: ['policy'],
        summary: 'SMLTP policies: list, show, create, update, delete, activate, diff, check',
        verbs: policies,
      },
      { name: 'shield', summary: 'The prompt shield: check, policies', verbs: shield },
      {
        name: 'guard-rules',
        aliases: ['guard-rule'],
        summary: 'Rules about secrets and personal data: list, create, simulate …',
        verbs: guardRules,
      },
      {
        name: 'incidents',
        aliases: ['incident'],
        summary: 'What guards have found: list, show, counts',
        verbs: incidents,
      },
      {
        name: 'receipts',
        aliases: ['receipt'],
        summary: 'Signed receipts of requests: show, verify',
        verbs: receipts,
      },
      {
        name: 'audit',
        summary: 'The log and what proves it: verify, checkpoint, export, rotate-key',
        verbs: audit,
      },
    ],
  },
  {
    title: 'Observe:',
    entries: [
      {
        name: 'logs',
        aliases: ['log'],
        summary: 'What was done, by whom: list, tail, show',
        verbs: logs,
      },
      {
        name: 'usage',
        summary: 'Show what this key has used, and what is left',
        load: async () => (await import('./commands/usage/show.ts')).usageCommand,
      },
    ],
  },
  {
    title: 'Gateway:',
    entries: [
      {
        name: 'serve',
        summary: 'Run the gateway on this machine',
        load: async () => (await import('./commands/gateway/serve.ts')).serveCommand,
      },
      {
        name: 'health',
        summary: 'Ask a gateway whether it is well',
        load: async () => (await import('./commands/gateway/health.ts')).healthCommand,
      },
      {
        name: 'service',
        summary: 'Run the gateway under systemd',
        verbs: [
          {
            name: 'unit',
            summary: 'Print a systemd unit',
            load: async () => (await import('./commands/service/unit.ts')).unitCommand,
          },
        ],
      },
    ],
  },
  {
    title: 'Account:',
    entries: [
      {
        name: 'login',
        summary: 'Check an API key and keep it for a gateway',
        managesProfiles: true,
        load: async () => (await import('./commands/account/login.ts')).loginCommand,
      },
      {
        name: 'logout',
        summary: 'Forget the stored key',
        managesProfiles: true,
        load: async () => (await import('./commands/account/logout.ts')).logoutCommand,
      },
      {
        name: 'whoami',
        summary: 'Show whom the key speaks for',
        load: async () => (await import('./commands/account/whoami.ts')).whoamiCommand,
      },
      {
        name: 'profiles',
        aliases: ['profile'],
        summary: 'Saved gateways: list, use, rename, remove',
        managesProfiles: true,
        verbs: profiles,
      },
    ],
  },
  {
    title: 'More:',
    entries: [
      {
        name: 'api',
        summary: 'Call any route of the gateway',
        load: async () => (await import('./commands/api/call.ts')).apiCommand,
      },
      {
        name: 'completion',
        summary: 'Print a completion script for your shell',
        load: async () => (await import('./commands/shell/completion.ts')).completionCommand,
      },
      {
        name: 'version',
        summary: 'Print the version',
        load: async () => (await import('./commands/shell/version.ts')).versionCommand,
      },
      {
        name: 'help',
        summary: 'Show the help of a command',
        load: async () => (await import('./commands/shell/help.ts')).helpCommand,
      },
    ],
  },
]

/** A top-level command by its name or an alias. */
export const findCommand = (word: string | undefined): Entry | undefined =>
  findEntry(
    COMMAND_GROUPS.flatMap((group) => group.entries),
    word,
  )

/** The entries that the first words lead through: `groups members add` has three. */
export function entriesOnWay(words: string[]): Entry[] {
  const way: Entry[] = []
  let below = COMMAND_GROUPS.flatMap((group) => group.entries)
  for (const word of words) {
    const entry = findEntry(below, word)
    if (entry === undefined) break
    way.push(entry)
    if (!('verbs' in entry)) break
    below = entry.verbs
  }
  return way
}

export const findEntry = (entries: Entry[], word: string | undefined): Entry | undefined =>
  entries.find((entry) => entry.name === word || (word !== undefined && entry.aliases?.includes(word)))
