import { Command, Option } from 'commander'
import type { CliContext } from '../../context.ts'
import { INDEXES } from '../../resources/resources.ts'
import { update } from '../../resources/update.ts'
import { getIndexNameOrId } from './name.ts'
import { addOwnerOptions, type OwnerFlags, toOwner } from './owner.ts'
import { INDEX_CARD } from './view.ts'

type UpdateFlags = OwnerFlags & { name?: string; description?: string; general?: boolean }

export type UpdateIndexInput = UpdateFlags & { index: string }

export function updateCommand(context: CliContext, run = updateIndex): Command {
  const command = new Command('update')
    .description('Rename a knowledge base, or change who may read it; the rest stays as it is.')
    .argument('<index>', 'name or id')
    .option('--name <name>', 'new name; lists of keys hold the old one still')
    .option('-d, --description <text>', 'new description')
  return addOwnerOptions(command)
    .addOption(new Option('--general', 'everybody may read it').conflicts(['user', 'group']))
    .action((index: string, flags: UpdateFlags) => run(context, { index: getIndexNameOrId(index), ...flags }))
}

/**
 * PUT /indexes/{indexId} with what was named. Throws exit 3 for an index or an owner that does not exist, exit 6 for a name
 * that is taken.
 */
export async function updateIndex(context: CliContext, input: UpdateIndexInput): Promise<void> {
  const { index, name, description, general } = input
  const owner = general ? { assignedUser: null, assignedGroup: null } : await toOwner(context, input)
  await update(context, { resource: INDEXES, given: index, changes: { name, description, ...owner }, view: INDEX_CARD })
}
