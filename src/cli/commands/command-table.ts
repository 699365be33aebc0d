/** The whole command line: names, summaries, and how to load each command. */
import type { CommandFactory } from '../context.ts'

/** One entry of the command tree. Loads a command only if the command line names it. */
export type Entry = {
  name: string
  aliases?: string[]
  summary: string
  /** The selected profile need not exist, because the command manages saved profiles. */
  managesProfiles?: true
} & (
  | { load(): Promise<CommandFactory> }
  | { verbs: Entry[] /** The verb that runs if none is given. */; usual?: string }
)

type Group = { title: string; entries: Entry[] }

/** Short names of verbs, for every noun. */
const ALIASES: Record<string, string[]> = { list: ['ls'], show: ['get'], delete: ['rm'], revoke: ['rm'] }

function entry(name: string, summary: string, load: () => Promise<CommandFactory>): Entry {
  const aliases = ALIASES[name]
  return { name, ...(aliases && { aliases }), summary, load }
}

/** Creates the entry of a command that has its own file. */
const one = (name: string, summary: string, load: () => Promise<{ toCommand: CommandFactory }>): Entry =>
  entry(name, summary, async () => (await load()).toCommand)

/** Several commands in one file. */
const several = <Name extends string>(
  load: () => Promise<{ commands: Record<Name, CommandFactory> }>,
  summaries: Record<Name, string>,
): Entry[] => names(summaries).map((name) => entry(name, summaries[name], async () => (await load()).commands[name]))

const names = <Name extends string>(summaries: Record<Name, string>): Name[] =>
  Object.keys(summaries).filter((name): name is Name => Object.hasOwn(summaries, name))

/** For nouns without a `delete` command, adds the alias `rm` to `remove`. */
const removeIsShort = (entry: Entry): Entry => (entry.name === 'remove' ? { ...entry, aliases: ['rm'] } : entry)

/** Creates the entry of one resource with its commands. The singular of the resource's name is an alias. */
function noun(name: string, summary: string, verbs: Entry[], singular = name.replace(/s$/, '')): Entry {
  return { name, aliases: [singular], summary, verbs }
}

const models = several(() => import('./models/commands.ts'), {
  list: 'List the models this key may use',
  show: 'Show a model',
  test: 'Request one token from a model and show the response times',
})

const groups: Entry[] = [
  ...several(() => import('./groups/commands.ts'), {
    create: 'Create a group',
    list: 'List groups',
    show: 'Show a group and its members',
    update: 'Change a group',
    delete: 'Delete a group',
  }),
  {
    name: 'members',
    summary: 'Members of a group: add, remove',
    verbs: several(() => import('./groups/members.ts'), {
      add: 'Add users to a group',
      remove: 'Remove users from a group',
    }).map(removeIsShort),
  },
]

const roles = several(() => import('./roles/commands.ts'), {
  create: 'Create a role',
  list: 'List roles',
  show: 'Show a role and its permissions',
  update: 'Change a role',
  delete: 'Delete a role',
  sections: 'List permission sections and levels',
})

const policies: Entry[] = [
  ...several(() => import('./policies/commands.ts'), {
    list: 'List policies',
    show: 'Show a policy, or the active one',
    create: 'Create a policy',
    update: 'Change a policy',
    delete: 'Delete a policy',
    activate: 'Make a policy the active one',
  }),
  one('diff', 'Compare two policies', () => import('./policies/diff.ts')),
  one('check', 'Show how a prompt would be handled', () => import('./policies/check.ts')),
]

const shield: Entry[] = [
  one('check', 'Scan a text with the prompt shield', () => import('./shield/check.ts')),
  one('explain', 'Show what the prompt shield finds in each piece of a text', () => import('./shield/explain.ts')),
  one('report', 'Add a false alarm or a missed attack to a local file', () => import('./shield/report.ts')),
  {
    name: 'policies',
    aliases: ['policy'],
    summary: 'Prompt shield policies: list, show, create, update, delete',
    verbs: several(() => import('./shield/policy-commands.ts'), {
      list: 'List prompt shield policies',
      show: 'Show a prompt shield policy',
      create: 'Create a prompt shield policy',
      update: 'Change a prompt shield policy',
      delete: 'Delete a prompt shield policy',
    }),
  },
]

const guardRules: Entry[] = [
  ...several(() => import('./guard-rules/commands.ts'), {
    list: 'List guard rules',
    show: 'Show a guard rule',
    create: 'Create a guard rule',
    update: 'Change a guard rule',
    delete: 'Delete a guard rule',
  }),
  one('simulate', 'Show what rules would find in a text', () => import('./guard-rules/simulate.ts')),
]

const usage: Entry[] = [
  one('show', 'Show the use and the limits of this key', () => import('./usage/show.ts')),
  one('report', 'Report usage and cost by user, key, model, tag …', () => import('./usage/report.ts')),
]

const budgets = several(() => import('./budgets/commands.ts'), {
  create: 'Create a budget',
  list: 'List budgets and what is spent',
  show: 'Show a budget',
  update: 'Change the limit of a budget',
  delete: 'Delete a budget',
})

const incidents = several(() => import('./incidents/commands.ts'), {
  list: 'List findings of guards',
  show: 'Show an incident',
  counts: 'Count incidents by kind, severity and action',
})

const users: Entry[] = [
  ...several(() => import('./users/commands.ts'), {
    create: 'Create a user',
    list: 'List users',
    show: 'Show a user',
    update: 'Change a user',
    disable: 'Deactivate a user and their keys',
    enable: 'Activate a user again',
    delete: 'Delete a user and their keys',
  }),
  one('assign-role', 'Give a user a role', () => import('./users/assign-role.ts')),
]

const keys = several(() => import('./keys/commands.ts'), {
  create: 'Create an API key and print its secret',
  list: 'List API keys',
  show: 'Show an API key and its restrictions',
  update: 'Change an API key',
  rotate: 'Give an API key a new secret',
  revoke: 'Revoke an API key permanently',
})

const tenants = several(() => import('./tenants/commands.ts'), {
  create: 'Create a tenant with its first administrator',
  list: 'List tenants',
  show: 'Show a tenant',
  'admin-key': 'Make a new key for the administrator of a tenant',
  disable: 'Disable a tenant and its keys',
  enable: 'Enable a tenant again',
})

const webhooks: Entry[] = [
  ...several(() => import('./webhooks/commands.ts'), {
    create: 'Register an endpoint and print its signing secret',
    list: 'List endpoints',
    show: 'Show an endpoint and the state of its deliveries',
    update: 'Change an endpoint',
    enable: 'Deliver to an endpoint again',
    disable: 'Pause an endpoint',
    delete: 'Delete an endpoint',
    'rotate-secret': 'Give an endpoint a new signing secret',
    test: 'Send a test event to an endpoint',
    recover: 'Send an endpoint the events that it missed',
  }),
  one('events', 'List the events, or show a sample of one', () => import('./webhooks/events.ts')),
  ...several(() => import('./webhooks/signatures.ts'), {
    verify: 'Verify the signature of a received body',
    sign: 'Sign a body as the gateway does',
  }),
  {
    name: 'deliveries',
    aliases: ['delivery'],
    summary: 'Sent events: list, show, resend',
    verbs: several(() => import('./webhooks/delivery-commands.ts'), {
      list: 'List deliveries',
      show: 'Show a delivery and its response',
      resend: 'Send the event of a delivery once more',
    }),
  },
  one('listen', 'Show events as they happen, or forward them to this machine', () => import('./webhooks/listen.ts')),
  one('trigger', 'Send a sample of an event', () => import('./webhooks/trigger.ts')),
]

const indexes: Entry[] = [
  ...several(() => import('./indexes/commands.ts'), {
    create: 'Create a knowledge base',
    list: 'List knowledge bases',
    show: 'Show a knowledge base',
    update: 'Rename a knowledge base, or change who may read it',
    delete: 'Delete a knowledge base with all its documents',
    docs: 'List the documents of a knowledge base',
    remove: 'Remove a document from a knowledge base',
    rebuild: 'Rebuild the search index of a knowledge base',
  }),
  one('add', 'Add files or folders to a knowledge base', () => import('./indexes/add.ts')),
  one('search', 'Search a knowledge base', () => import('./indexes/search.ts')),
]

const providers = several(() => import('./providers/commands.ts'), {
  list: 'List providers',
  show: 'Show a provider',
  add: 'Add a provider',
  update: 'Change a provider',
  test: 'Make one small call to a provider',
  remove: 'Remove a provider',
}).map(removeIsShort)

const profiles = several(() => import('./profiles/commands.ts'), {
  list: 'List profiles',
  use: 'Make a profile the current one',
  rename: 'Rename a profile',
  remove: 'Remove a profile and its key',
}).map(removeIsShort)

const receipts: Entry[] = [
  one('show', 'Show the receipt of a request', () => import('./receipts/show.ts')),
  one(
    'bundle',
    'Show a receipt with the proof that a cosigned checkpoint covers it',
    () => import('./receipts/bundle.ts'),
  ),
  one('verify', 'Check a receipt, also without a gateway', () => import('./receipts/verify.ts')),
]

const audit: Entry[] = [
  one('verify', 'Check that no entry of the log was changed', () => import('./audit/verify.ts')),
  one('checkpoint', 'Have the gateway sign the current size of its log', () => import('./audit/checkpoint.ts')),
  one('export', 'Write the log into a directory that anyone can check', () => import('./audit/export.ts')),
  one(
    'consistency',
    'Check that a later state of the log extends an earlier one',
    () => import('./audit/consistency.ts'),
  ),
  one('losses', 'List and acknowledge lost history (operator key)', () => import('./audit/losses.ts')),
  one('forget', 'Forget the remembered checkpoints of a gateway', () => import('./audit/forget.ts')),
  one('reconcile', 'Compare the bills of a month with the receipts', () => import('./audit/reconcile.ts')),
  one('rotate-key', 'Sign evidence with a new key (operator key)', () => import('./audit/rotate-key.ts')),
]

const secrets: Entry[] = [
  one(
    'rotate-master',
    'Encrypt all secrets of the store with a new master key (operator key)',
    () => import('./secrets/rotate-master.ts'),
  ),
  one(
    'status',
    'Show the master key of the store and its rotation (operator key)',
    () => import('./secrets/status.ts'),
  ),
]

const cache = several(() => import('./cache/commands.ts'), {
  show: 'Show the answer cache',
  clear: 'Delete all stored answers of the tenant',
})

const db = several(() => import('./db/commands.ts'), {
  status: 'Show the size, the migrations and the backups of the store',
  check: 'Check the store, its log and its bills',
  backup: 'Copy the store into an encrypted file while the daemon runs',
  restore: 'Replace a stopped store with a backup',
  migrate: 'Migrate a stopped store to this version',
  prune: 'Delete what has expired from a stopped store',
  vacuum: 'Return unused space of a stopped store to the disk',
})

const config = several(() => import('./config/commands.ts'), {
  get: 'Print the value of a setting',
  set: 'Set a value',
  unset: 'Remove a setting',
  list: 'List the settings of the file',
  edit: 'Edit the file in your editor',
  explain: 'Show where the value of a setting comes from',
})

const logs = several(() => import('./logs/commands.ts'), {
  list: 'List requests and changes',
  tail: 'Show new entries as they are logged',
  show: 'Show the log entries of one request',
})

const profileCommand = { managesProfiles: true } as const

/** All commands, in the order in which the help lists them. */
export const COMMAND_GROUPS: Group[] = [
  {
    title: 'Chat:',
    entries: [
      one('chat', 'Ask a model, with or without a knowledge base', () => import('./chat/chat.ts')),
      noun('models', 'Models this key may use: list, show, test', models),
    ],
  },
  {
    title: 'Access:',
    entries: [
      noun('groups', 'Groups of users: create, list, show, update, delete, members', groups),
      noun('roles', 'Roles: create, list, show, update, delete, sections', roles),
      noun('users', 'Users: create, list, show, update, disable, enable, delete, assign-role', users),
      noun('keys', 'API keys: create, list, show, update, rotate, revoke', keys),
      noun('tenants', 'Tenants (operator key): create, list, show, admin-key, disable, enable', tenants),
    ],
  },
  {
    title: 'Webhooks:',
    entries: [noun('webhooks', 'Signed events to endpoints: create, test, deliveries, listen and more', webhooks)],
  },
  {
    title: 'Knowledge:',
    entries: [noun('indexes', 'Knowledge bases and their documents: create, add, docs, search …', indexes, 'index')],
  },
  {
    title: 'Security:',
    entries: [
      noun('policies', 'SMLTP policies: list, show, create, update, delete, activate, diff, check', policies, 'policy'),
      { name: 'shield', summary: 'The prompt shield: check, explain, report, policies', verbs: shield },
      noun('guard-rules', 'Rules about secrets and personal data: list, create, simulate …', guardRules),
      noun('incidents', 'Findings of guards: list, show, counts', incidents),
      noun('receipts', 'Signed receipts of requests: show, bundle, verify', receipts),
      {
        name: 'audit',
        summary: 'The log and its proofs: verify, checkpoint, export, losses, reconcile …',
        verbs: audit,
      },
      { name: 'secrets', summary: 'The master key of the store: rotate-master, status', verbs: secrets },
    ],
  },
  {
    title: 'Observe:',
    entries: [
      noun('logs', 'Requests and changes, and who made them: list, tail, show', logs),
      {
        name: 'usage',
        summary: 'The use and the limits of this key, and reports of cost',
        verbs: usage,
        usual: 'show',
      },
      noun('budgets', 'Monthly budgets of groups, tags and tenants: list, create …', budgets),
      { name: 'cache', summary: 'Stored answers of the tenant: show, clear', verbs: cache },
    ],
  },
  {
    title: 'Gateway:',
    entries: [
      one('init', 'Write the configuration of a new gateway', () => import('./gateway/init/init.ts')),
      one('serve', 'Run the gateway on this machine', () => import('./gateway/serve.ts')),
      one('status', 'Show the state of a gateway', () => import('./gateway/status.ts')),
      one('doctor', 'Find problems and their remedies', () => import('./gateway/doctor/doctor.ts')),
      one('health', 'Check whether a gateway is healthy', () => import('./gateway/health.ts')),
      one('reload', 'Apply a changed configuration file (operator key)', () => import('./gateway/reload.ts')),
      noun('providers', 'Providers of models (operator key): list, show, add, update, test, remove', providers),
      { name: 'db', summary: 'The store of this machine: backup, restore, check, status …', verbs: db },
      {
        name: 'service',
        summary: 'Run the gateway under systemd',
        verbs: [one('unit', 'Print a systemd unit', () => import('./service/unit.ts'))],
      },
    ],
  },
  {
    title: 'Account:',
    entries: [
      { ...one('login', 'Check an API key and save it', () => import('./account/login.ts')), ...profileCommand },
      { ...one('logout', 'Delete the stored key', () => import('./account/logout.ts')), ...profileCommand },
      one('whoami', 'Show the user, tenant and key of requests', () => import('./account/whoami.ts')),
      { ...noun('profiles', 'Saved gateways: list, use, rename, remove', profiles), ...profileCommand },
    ],
  },
  {
    title: 'More:',
    entries: [
      { name: 'config', summary: 'Settings: get, set, unset, list, edit, explain', verbs: config },
      one('api', 'Call any route of the gateway', () => import('./api/call.ts')),
      one('completion', 'Print a completion script for your shell', () => import('./shell/completion.ts')),
      one('version', 'Print the version', () => import('./shell/version.ts')),
      one('help', 'Show the help of a command', () => import('./shell/help.ts')),
    ],
  },
]

/** Finds a top-level command by its name or an alias. */
export const findCommand = (word: string | undefined): Entry | undefined =>
  findEntry(
    COMMAND_GROUPS.flatMap((group) => group.entries),
    word,
  )

/**
 * Returns the entries of the command tree that the first words name. Example: three entries for `groups members add`.
 */
export function entriesOnPath(words: string[]): Entry[] {
  const path: Entry[] = []
  let below = COMMAND_GROUPS.flatMap((group) => group.entries)
  for (const word of words) {
    const entry = findEntry(below, word)
    if (entry === undefined) break
    path.push(entry)
    if (!('verbs' in entry)) break
    below = entry.verbs
  }
  return path
}

export const findEntry = (entries: Entry[], word: string | undefined): Entry | undefined =>
  entries.find((entry) => entry.name === word || (word !== undefined && entry.aliases?.includes(word)))
