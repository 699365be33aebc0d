import { Command } from 'commander'
import type { ApiKey } from '../../../shared/wire/keys.ts'
import type { CliContext } from '../../context.ts'
import { opposed } from '../../input/exclusive-flags.ts'
import { addFromFileOption, isObject, readChanges, withFlags } from '../../input/from-file.ts'
import { KEYS } from '../../resources/resources.ts'
import { update } from '../../resources/update.ts'
import { toExpiry } from './expiry.ts'
import { addKeyOptions, KEY_MEMBERS, type KeyFlags, toKeyFields } from './fields.ts'
import { KEY_ARGUMENT, KEY_VIEW } from './view.ts'

export type UpdateKeyInput = KeyFlags & { key: string; name?: string }

export function updateCommand(context: CliContext, run = updateKey): Command {
  const command = new Command('update')
    .description('Change what you name about an API key; everything else stays. A repeatable flag replaces its list.')
    .argument('<key>', KEY_ARGUMENT)
    .option('--name <text>', 'what it is for')
    .option('--admin', "with its owner's administrator rights")
    .option('--no-admin', 'without them')
  return addFromFileOption(addKeyOptions(opposed(command, 'admin'))).action(
    (key: string, flags: Omit<UpdateKeyInput, 'key'>) => run(context, { key, ...flags }),
  )
}

/** PUT /api/admin/api-keys/{id}. */
export async function updateKey(context: CliContext, input: UpdateKeyInput): Promise<void> {
  const { key, name, expires, fromFile } = input
  const fields = toKeyFields(input)
  const expiresAt = expires === undefined ? undefined : toExpiry(expires, context.io.clock.now()).at
  const changes = withFlags(await readChanges(context, fromFile, KEY_MEMBERS), { ...fields, name, expiresAt })
  const { failoverDefaults: chain } = changes
  await update<ApiKey>(context, {
    resource: KEYS,
    given: key,
    changes,
    // The gateway replaces them whole; what was not named, such as a time limit, stays.
    complete: isObject(chain)
      ? (now) => ({ failoverDefaults: withFlags(now.failoverDefaults ?? {}, chain) })
      : undefined,
    view: KEY_VIEW,
  })
}
