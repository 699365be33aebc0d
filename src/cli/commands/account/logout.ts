import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { editCredentials, entryOf, loadConfigFiles } from '../../profile/config-files.ts'

export function toCommand(context: CliContext, run = logout): Command {
  return new Command('logout')
    .description('Forget the stored key of the profile. The key itself stays valid at the gateway.')
    .action(() => run(context))
}

/** Removes the key of the profile; without one there is nothing to do, and that is fine too. */
export async function logout(context: CliContext): Promise<void> {
  const { profile, dryRun } = await context.settings()
  const { credentials } = await loadConfigFiles(context.io)
  if (entryOf(credentials, profile) === undefined) return context.note(`Profile '${profile}' has no stored key.`)
  if (dryRun) return context.note(`Would forget the key of profile '${profile}'.`)
  await editCredentials(context.io.env, [{ path: ['keys', profile], value: undefined }])
  await context.note(`Forgot the key of profile '${profile}'.`)
}
