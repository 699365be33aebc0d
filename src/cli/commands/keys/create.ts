import { Command } from 'commander'
import type { ApiKey } from '../../../shared/wire/keys.ts'
import type { CliContext } from '../../context.ts'
import { addFromFileOption, readFields, textIn, withFlags } from '../../input/from-file.ts'
import { askMissing } from '../../input/prompt.ts'
import { addCreateOptions, type CreateFlags } from '../../resources/creation.ts'
import { findOne } from '../../resources/listing.ts'
import { toId } from '../../resources/resolve.ts'
import { KEYS, USERS } from '../../resources/resources.ts'
import { addSecretOptions, createWithSecret, type SecretFlags } from '../../resources/shown-once.ts'
import type { Whoami } from '../account/whoami.ts'
import { toExpiry } from './expiry.ts'
import { addKeyOptions, KEY_MEMBERS, type KeyFlags, toKeyFields } from './fields.ts'
import { KEY_VIEW } from './view.ts'

type Flags = KeyFlags & CreateFlags & SecretFlags & { name?: string; user?: string }
export type CreateKeyInput = Flags

export function createCommand(context: CliContext, run = createKey): Command {
  const command = new Command('create')
    .description(
      'Create an API key and print its secret, once: alone on stdout, or as `secret` of the key with -o json.\n' +
        "The key has none of its owner's administrator rights, unless --admin says so. What is not named stays at the\n" +
        "gateway's defaults.",
    )
    .option('--name <text>', 'what it is for')
    .option('--user <user>', 'its owner: id, email, username or name (default: whoever asks)')
    .option('--admin', "with its owner's administrator rights")
  addFromFileOption(addCreateOptions(addSecretOptions(addKeyOptions(command))))
  return command
    .addHelpText(
      'after',
      '\n--if-not-exists looks for an active key of this name and owner. Names of keys need not be unique, so two runs\n' +
        'at the same moment may make two. The secret of an existing key cannot be shown again.\n\nExample:\n' +
        "  aigw keys create --name ci --user ada@example.com --model 'local/*' --daily 500 --save-to ci.key",
    )
    .action((flags: Flags) => run(context, flags))
}

/** POST /api/admin/api-keys. Throws exit 3 for a name or email that no user has. */
export async function createKey(context: CliContext, input: CreateKeyInput): Promise<void> {
  const fields = toKeyFields(input)
  const expiry = input.expires === undefined ? undefined : toExpiry(input.expires, context.io.clock.now())
  const inFile = await readFields(context, input.fromFile, KEY_MEMBERS)
  const asked = { flag: '--name', message: 'Name of the key:' }
  const name = (await askMissing(context, asked, input.name ?? textIn(inFile, 'name'))).trim()
  const userId = input.user === undefined ? undefined : await toId(context, USERS, input.user)
  const json = { adminAccess: false, ...withFlags(inFile, { ...fields, expiresAt: expiry?.at }), name, userId }

  await createWithSecret<ApiKey>(context, {
    ...input,
    request: { method: 'POST', path: KEYS.path, json },
    itemKey: KEYS.itemKey,
    noun: KEYS.noun,
    name,
    find: () => findKey(context, name, userId),
    // "In 90 days" was another time when the existing key was made.
    wanted: expiry?.isRelative ? { ...json, expiresAt: undefined } : json,
    view: KEY_VIEW,
    useIt: 'aigw keys list',
    done: (key) => `Created API key '${key.name}' (${key.id}).`,
    renewal: (key) => `aigw keys rotate ${key.id}`,
  })
}

/** The active key of this name and owner, who is whoever asks unless said otherwise. */
async function findKey(context: CliContext, name: string, userId: string | undefined): Promise<ApiKey | undefined> {
  const owner = userId ?? (await ownId(context))
  const query = { userId: owner, status: 'active', sortOrder: 'asc' }
  const matches = (key: ApiKey) => key.name === name && key.userId === owner && key.status === 'active'
  return findOne<ApiKey>(context, { ...KEYS, query, search: name, matches })
}

async function ownId(context: CliContext): Promise<string> {
  const api = await context.api()
  const { body } = await api.send<Whoami>({ method: 'GET', path: 'whoami' })
  return body.user.id
}
