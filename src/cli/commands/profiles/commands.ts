/** Lists, selects, renames and removes saved profiles. */
import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT, usageError } from '../../errors.ts'
import { columns } from '../../output/formats.ts'
import { editConfig, editCredentials, entryOf, loadConfigFiles, type ProfileEntry } from '../../profile/config-files.ts'
import { DEFAULT_BASE_URL } from '../../profile/profile.ts'
import { forgetConversation, moveConversation } from '../chat/conversation.ts'

const PROFILE_VIEW = {
  columns: columns({ NAME: 'name', CURRENT: 'current', ADDRESS: 'base_url', KEY: 'key' }),
  idPath: 'name',
  none: 'No profiles yet. Create one:  aigw login --base-url URL',
}

export const commands = {
  list: (context: CliContext) =>
    new Command('list').description('List saved gateways; keys are not shown.').action(() => list(context)),
  use: (context: CliContext) =>
    new Command('use')
      .description('Make a profile the default. -P and AIGW_PROFILE override it.')
      .argument('<name>', 'profile')
      .action((name: string) => use(context, name)),
  rename: (context: CliContext) =>
    new Command('rename')
      .description('Rename a profile, with its key and its last conversation.')
      .argument('<name>', 'profile')
      .argument('<new-name>', 'new name')
      .action((name: string, newName: string) => rename(context, name, newName)),
  remove: (context: CliContext) =>
    new Command('remove')
      .description(
        'Remove a profile, its stored key and its last conversation. The key itself stays valid at the gateway.',
      )
      .argument('<name>', 'profile')
      .option('--ignore-not-found', 'succeed if the profile does not exist', false)
      .action((name: string, flags: { ignoreNotFound: boolean }) => remove(context, name, flags)),
}

/** Lists the user's profiles and this machine's profiles, sorted by name. `key` names the source of the key. */
async function list(context: CliContext): Promise<void> {
  const [output, settings] = await Promise.all([context.output(), context.settings()])
  const { user, system, credentials } = await loadConfigFiles(context.io)
  const entries = Object.entries({ ...system.profiles, ...user.profiles })
  const rows = entries
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, { base_url = DEFAULT_BASE_URL, key_command }]) => {
      const stored = entryOf(credentials, name) === undefined ? 'none' : 'stored'
      return { name, current: name === settings.profile, base_url, key: key_command === undefined ? stored : 'command' }
    })
  await output.list(rows, PROFILE_VIEW)
}

/** Throws an error with exit code 3 for an unknown profile. */
async function use(context: CliContext, name: string): Promise<void> {
  const { user, system } = await loadConfigFiles(context.io)
  assertProfile({ ...system.profiles, ...user.profiles }, name)
  const { dryRun } = await context.settings()
  if (!dryRun) await editConfig(context.io.env, [{ path: ['current_profile'], value: name }])
  await context.note(`${dryRun ? 'Would use' : 'Now using'} profile '${name}'.`)
}

/** Throws an error with exit code 3 for an unknown profile, and one with exit code 6 for a name that is taken. */
async function rename(context: CliContext, name: string, newName: string): Promise<void> {
  const { env } = context.io
  const { user, credentials } = await loadConfigFiles(context.io)
  const profiles = user.profiles ?? {}
  assertProfile(profiles, name)
  assertProfileName(newName)
  if (Object.hasOwn(profiles, newName)) {
    throw new CliError(EXIT.conflict, `a profile named '${newName}' already exists`, { code: 'EXISTS' })
  }
  const { dryRun } = await context.settings()
  if (dryRun) return context.note(`Would rename profile '${name}' to '${newName}'.`)
  const key = entryOf(credentials, name)
  // Stores the key under both names until the profile is renamed, so an interruption cannot lose the key.
  if (key !== undefined) await editCredentials(env, [{ path: ['keys', newName], value: key }])
  await editConfig(env, [
    { path: ['profiles', newName], value: profiles[name] },
    { path: ['profiles', name], value: undefined },
    ...(user.current_profile === name ? [{ path: ['current_profile'], value: newName }] : []),
  ])
  if (key !== undefined) await editCredentials(env, [{ path: ['keys', name], value: undefined }])
  await moveConversation(env, name, newName)
  await context.note(`Renamed profile '${name}' to '${newName}'.`)
}

/**
 * Removes a profile. Asks for a confirmation first, because the stored key of the profile cannot be shown again. Throws
 * an error with exit code 3 for an unknown profile.
 */
async function remove(context: CliContext, name: string, { ignoreNotFound }: { ignoreNotFound: boolean }) {
  const { env } = context.io
  const { user } = await loadConfigFiles(context.io)
  const profiles = user.profiles ?? {}
  if (ignoreNotFound && !Object.hasOwn(profiles, name)) return
  assertProfile(profiles, name)
  const { dryRun } = await context.settings()
  if (dryRun) return context.note(`Would remove profile '${name}' and its key.`)
  await context.confirm(`Remove profile '${name}' and its stored key?`)
  // Deletes the conversation before the profile: after an interruption, the profile still exists and can be removed by
  // its name.
  await forgetConversation(env, name)
  await editConfig(env, [
    { path: ['profiles', name], value: undefined },
    ...(user.current_profile === name ? [{ path: ['current_profile'], value: undefined }] : []),
  ])
  await editCredentials(env, [{ path: ['keys', name], value: undefined }])
  await context.note(`Removed profile '${name}'.`)
}

/** If the profile does not exist, throws an error with exit code 3 that names the existing profiles. */
function assertProfile(profiles: Record<string, ProfileEntry>, name: string): void {
  if (Object.hasOwn(profiles, name)) return
  throw new CliError(EXIT.notFound, `there is no profile '${name}'`, {
    code: 'PROFILE_NOT_FOUND',
    hints: [`Profiles:  ${Object.keys(profiles).join(', ') || 'none yet'}`],
  })
}

/** Throws a usage error for an invalid name. */
export function assertProfileName(name: string): void {
  if (/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name)) return
  throw usageError(`'${name}' is not a valid profile name`, ['Use letters, digits, dots, dashes and underscores.'])
}
