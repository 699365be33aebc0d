import { Command } from 'commander'
import type { Index } from '../../../shared/wire/indexes.ts'
import type { CliContext } from '../../context.ts'
import { addCreateOptions, type CreateFlags, createOrFind } from '../../resources/creation.ts'
import { findIndex } from './list.ts'
import { getIndexName } from './name.ts'
import { addOwnerOptions, type OwnerFlags, toAsked, toOwner } from './owner.ts'
import { INDEX_VIEW } from './view.ts'

export type CreateIndexInput = CreateFlags & OwnerFlags & { name: string; description?: string }

export function createCommand(context: CliContext, run = createIndex): Command {
  const command = new Command('create')
    .description('Create a knowledge base. The name has 3 to 50 of a-z, 0-9 and dashes.')
    .argument('<name>', 'name that chat and search use')
    .option('-d, --description <text>', 'what it holds')
  return addCreateOptions(addOwnerOptions(command)).action(
    (name: string, flags: CreateFlags & OwnerFlags & { description?: string }) => run(context, { name, ...flags }),
  )
}

/** POST /indexes. Throws exit 6 for a name that is taken, unless `ifNotExists`; exit 3 for an owner there is not. */
export async function createIndex(context: CliContext, input: CreateIndexInput): Promise<void> {
  const { name, description, ifNotExists, strict } = input
  const known = getIndexName(name)
  const wanted = { ...(description !== undefined && { description }), ...(await toOwner(context, input)) }
  await createOrFind<Partial<Index>>(context, {
    request: { method: 'POST', path: 'indexes', json: { name, ...wanted } },
    itemKey: 'index',
    noun: 'index',
    name: known,
    ifNotExists,
    strict,
    find: () => findIndex(context, known),
    wanted,
    toComparable: toAsked,
    view: INDEX_VIEW,
    useIt: `aigw indexes add ${known} FILE`,
  })
}
