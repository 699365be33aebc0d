import { Command } from 'commander'
import type { Index } from '../../../shared/wire/indexes.ts'
import type { CliContext } from '../../context.ts'
import { addCreateOptions, type CreateFlags, createOrFind } from '../../creation.ts'
import { findIndex } from './list.ts'
import { getIndexName } from './name.ts'
import { INDEX_VIEW } from './view.ts'

export type CreateIndexInput = CreateFlags & { name: string; description: string | undefined }

export function createCommand(context: CliContext, run = createIndex): Command {
  return addCreateOptions(
    new Command('create')
      .description('Create a knowledge base. The name has 3 to 50 of a-z, 0-9 and dashes.')
      .argument('<name>', 'name that chat and search use')
      .option('-d, --description <text>', 'what it holds'),
  ).action((name: string, flags: CreateFlags & { description?: string }) =>
    run(context, { name, description: flags.description, ifNotExists: flags.ifNotExists, strict: flags.strict }),
  )
}

/** POST /indexes. Throws exit 6 for a name that is taken, unless `ifNotExists`. */
export async function createIndex(context: CliContext, input: CreateIndexInput): Promise<void> {
  const { name, description, ifNotExists, strict } = input
  const known = getIndexName(name)
  const wanted = description === undefined ? {} : { description }
  await createOrFind<Partial<Index>>(context, {
    request: { method: 'POST', path: 'indexes', json: { name, ...wanted } },
    itemKey: 'index',
    noun: 'index',
    name: known,
    ifNotExists,
    strict,
    find: () => findIndex(context, known),
    wanted,
    view: INDEX_VIEW,
    useIt: `aigw indexes add ${known} FILE`,
  })
}
