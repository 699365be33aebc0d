import { Command } from 'commander'
import type { CliContext } from '../../context.ts'
import { entryOf, loadConfigFiles } from '../../profile/config-files.ts'
import { DEFAULT_BASE_URL } from '../../profile/profile.ts'

const PROFILE_VIEW = {
  columns: [{ path: 'name' }, { path: 'current' }, { path: 'base_url', title: 'ADDRESS' }, { path: 'key' }],
  idPath: 'name',
  none: 'No profiles yet. Create one:  aigw login --base-url URL',
}

export function toCommand(context: CliContext, run = listProfiles): Command {
  return new Command('list').description('List saved gateways; keys are not shown.').action(() => run(context))
}

/** Profiles of the user and of this machine, by name. `key` says where a key would come from. */
export async function listProfiles(context: CliContext): Promise<void> {
  const [output, settings] = await Promise.all([context.output(), context.settings()])
  const { user, system, credentials } = await loadConfigFiles(context.io)
  const entries = { ...system.profiles, ...user.profiles }
  const rows = Object.keys(entries)
    .sort()
    .map((name) => {
      const command = entries[name]?.key_command === undefined ? undefined : 'command'
      return {
        name,
        current: name === settings.profile,
        base_url: entries[name]?.base_url ?? DEFAULT_BASE_URL,
        key: command ?? (entryOf(credentials, name) === undefined ? 'none' : 'stored'),
      }
    })
  await output.list(rows, PROFILE_VIEW)
}
