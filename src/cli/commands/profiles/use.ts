import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { editConfig, loadConfigFiles } from '../../profile/config-files.ts'
import { assertProfile } from './names.ts'

export function toCommand(context: CliContext, run = useProfile): Command {
  return new Command('use')
    .description('Use this profile from now on, unless -P or AIGW_PROFILE names another.')
    .argument('<name>', 'profile')
    .action((name: string) => run(context, name))
}

/** Throws exit 3 for a profile that does not exist. */
export async function useProfile(context: CliContext, name: string): Promise<void> {
  const { user, system } = await loadConfigFiles(context.io)
  assertProfile({ ...system.profiles, ...user.profiles }, name)
  const { dryRun } = await context.settings()
  if (!dryRun) await editConfig(context.io.env, [{ path: ['current_profile'], value: name }])
  await context.note(`${dryRun ? 'Would use' : 'Now using'} profile '${name}'.`)
}
