import { Command, Option } from 'commander'
import type { User } from '../../../shared/wire/users.ts'
import type { CliContext } from '../../context.ts'
import { addFromFileOption, readFields, textIn, withFlags } from '../../input/from-file.ts'
import { askMissing } from '../../input/prompt.ts'
import { addCreateOptions, type CreateFlags, createOrFind } from '../../resources/creation.ts'
import { findOne } from '../../resources/listing.ts'
import { USERS } from '../../resources/resources.ts'
import { addUserOptions, toUserFields, type UserFlags } from './fields.ts'
import { AUTH_TYPE_CHOICES, USER_MEMBERS, USER_VIEW } from './view.ts'

const MEMBERS = { ...USER_MEMBERS, roleId: true, authType: true }

export type CreateUserInput = CreateFlags &
  UserFlags & { name: string | undefined; email?: string; authType?: string; fromFile?: string }

export function createCommand(context: CliContext, run = createUser): Command {
  const command = addUserOptions(
    new Command('create')
      .description('Create a user. Users sign in nowhere: what they work with are keys (aigw keys create --user USER).')
      .argument('[name]', 'full name')
      .option('--email <address>', 'email address')
      .addOption(new Option('--auth-type <type>', 'enterprise users are verified at once').choices(AUTH_TYPE_CHOICES)),
  )
  return addFromFileOption(addCreateOptions(command)).action(
    (name: string | undefined, flags: Omit<CreateUserInput, 'name'>) => run(context, { name, ...flags }),
  )
}

/** POST /users. Throws exit 6 for an email that is taken, unless `ifNotExists`. */
export async function createUser(context: CliContext, input: CreateUserInput): Promise<void> {
  const inFile = await readFields(context, input.fromFile, MEMBERS)
  const name = await askMissing(context, { flag: 'NAME', message: 'Full name:' }, input.name ?? textIn(inFile, 'name'))
  const said = await askMissing(context, { flag: '--email', message: 'Email:' }, input.email ?? textIn(inFile, 'email'))
  // The gateway keeps emails and usernames so.
  const email = said.trim().toLowerCase()
  const flags = await toUserFields(context, input)
  const wanted = { ...withFlags(inFile, { ...flags, authType: input.authType }), name, email }
  await createOrFind<User>(context, {
    request: { method: 'POST', path: USERS.path, json: wanted },
    itemKey: USERS.itemKey,
    noun: USERS.noun,
    name: email,
    ifNotExists: input.ifNotExists,
    strict: input.strict,
    find: () => findOne<User>(context, { ...USERS, search: email, matches: (user) => user.email === email }),
    wanted,
    toComparable: (user) => ({ ...user, roleId: user.customRole?.id ?? null }),
    isAboutName: ({ code }) => /^email/i.test(code),
    view: USER_VIEW,
  })
}
