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
    name: 'add',
    summary: 'Add files or folders to a knowledge base',
    load: async () => (await import('./commands/indexes/add.ts')).addCommand,
  },
  {
    name: 'search',
    summary: 'Search a knowledge base',
    load: async () => (await import('./commands/indexes/search.ts')).searchCommand,
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
    ],
  },
  {
    title: 'Knowledge:',
    entries: [
      { name: 'indexes', aliases: ['index'], summary: 'Knowledge bases: create, list, add, search', verbs: indexes },
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

export const findEntry = (entries: Entry[], word: string | undefined): Entry | undefined =>
  entries.find((entry) => entry.name === word || (word !== undefined && entry.aliases?.includes(word)))
