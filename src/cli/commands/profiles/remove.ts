import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { editConfig, editCredentials, loadConfigFiles } from '../../profile/config-files.ts'
import { forgetConversation } from '../chat/conversation.ts'
import { assertProfile } from './names.ts'

export function toCommand(context: CliContext, run = removeProfile): Command {
  return new Command('remove')
    .description(
      'Remove a profile, its stored key and its last conversation. The key itself stays valid at the gateway.',
    )
    .argument('<name>', 'profile')
    .option('--ignore-not-found', 'succeed when there is no such profile', false)
    .action((name: string, flags: { ignoreNotFound: boolean }) => run(context, { name, ...flags }))
}

/** Asks first, since the stored key cannot be shown again. Throws exit 3 for an unknown profile. */
export async function removeProfile(
  context: CliContext,
  { name, ignoreNotFound }: { name: string; ignoreNotFound: boolean },
): Promise<void> {
  const { io } = context
  const { user } = await loadConfigFiles(io)
  const profiles = user.profiles ?? {}
  if (ignoreNotFound && !Object.hasOwn(profiles, name)) return
  assertProfile(profiles, name)
  const { dryRun } = await context.settings()
  if (dryRun) return context.note(`Would remove profile '${name}' and its key.`)
  await context.confirm(`Remove profile '${name}' and its stored key?`)
  // First: what is left when this stops half way can be removed again by its name.
  await forgetConversation(io.env, name)
  await editConfig(io.env, [
    { path: ['profiles', name], value: undefined },
    ...(user.current_profile === name ? [{ path: ['current_profile'], value: undefined }] : []),
  ])
  await editCredentials(io.env, [{ path: ['keys', name], value: undefined }])
  await context.note(`Removed profile '${name}'.`)
}
