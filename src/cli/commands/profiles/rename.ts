import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT } from '../../errors.ts'
import { editConfig, editCredentials, entryOf, loadConfigFiles } from '../../profile/config-files.ts'
import { moveConversation } from '../chat/conversation.ts'
import { assertProfile, assertProfileName } from './names.ts'

export function toCommand(context: CliContext, run = renameProfile): Command {
  return new Command('rename')
    .description('Rename a profile; its key and its last conversation move along.')
    .argument('<name>', 'profile')
    .argument('<new-name>', 'what to call it')
    .action((name: string, newName: string) => run(context, { name, newName }))
}

/** Throws exit 3 for an unknown profile and exit 6 for a name that is taken. */
export async function renameProfile(
  context: CliContext,
  { name, newName }: { name: string; newName: string },
): Promise<void> {
  const { io } = context
  const { user, credentials } = await loadConfigFiles(io)
  const profiles = user.profiles ?? {}
  assertProfile(profiles, name)
  assertProfileName(newName)
  if (Object.hasOwn(profiles, newName)) {
    throw new CliError(EXIT.conflict, `a profile named '${newName}' already exists`, { code: 'PROFILE_EXISTS' })
  }
  const { dryRun } = await context.settings()
  if (dryRun) return context.note(`Would rename profile '${name}' to '${newName}'.`)
  const key = entryOf(credentials, name)
  // The key is known under both names until the profile has moved, so stopping half way loses nothing.
  if (key !== undefined) await editCredentials(io.env, [{ path: ['keys', newName], value: key }])
  await editConfig(io.env, [
    { path: ['profiles', newName], value: profiles[name] },
    { path: ['profiles', name], value: undefined },
    ...(user.current_profile === name ? [{ path: ['current_profile'], value: newName }] : []),
  ])
  if (key !== undefined) await editCredentials(io.env, [{ path: ['keys', name], value: undefined }])
  await moveConversation(io.env, name, newName)
  await context.note(`Renamed profile '${name}' to '${newName}'.`)
}
