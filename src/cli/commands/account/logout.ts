import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { editCredentials, entryOf, loadConfigFiles } from '../../profile/config-files.ts'

export function toCommand(context: CliContext): Command {
  return new Command('logout')
    .description('Delete the stored key of the profile. The key itself stays valid at the gateway.')
    .action(() => logout(context))
}

/** Deletes the stored key of the profile. If the profile has no key, the command still succeeds. */
async function logout(context: CliContext): Promise<void> {
  const { profile, dryRun } = await context.settings()
  const { credentials } = await loadConfigFiles(context.io)
  if (entryOf(credentials, profile) === undefined) return context.note(`Profile '${profile}' has no stored key.`)
  if (dryRun) return context.note(`Would delete the key of profile '${profile}'.`)
  await editCredentials(context.io.env, [{ path: ['keys', profile], value: undefined }])
  await context.note(`Deleted the key of profile '${profile}'.`)
}
