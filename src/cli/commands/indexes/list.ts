import { Command } from 'commander'
import type { z } from 'zod'
import type { DiscoverIndexesResponse, Index } from '../../../shared/wire/indexes.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT } from '../../errors.ts'
import { listAll } from '../../resources/listing.ts'
import { addListOptions, type ListFlags, type ListInput, toListInput } from '../../resources/options.ts'
import { INDEXES } from './resource.ts'

export function listCommand(context: CliContext, run = listIndexes): Command {
  const command = new Command('list').description(
    'List knowledge bases: all of them for an administrator, else those the key may query.',
  )
  return addListOptions(command, 'their name').action((flags: ListFlags) => run(context, toListInput(flags)))
}

/** GET /indexes/all, page by page; GET /indexes for a key without administrator rights. */
export async function listIndexes(context: CliContext, { search, limit, all }: ListInput): Promise<void> {
  try {
    await listAll<Index>(context, {
      ...{ ...INDEXES, path: `${INDEXES.path}/all`, query: { search }, limit, all },
      view: INDEXES.listView ?? INDEXES.view,
    })
  } catch (error) {
    if (!(error instanceof CliError) || error.exitCode !== EXIT.forbidden) throw error
    await listQueryable(context, search, all ? Number.POSITIVE_INFINITY : limit)
  }
}

const QUERYABLE_VIEW = {
  columns: [{ path: 'name' }, { path: 'type' }, { path: 'description', flexible: true }],
  idPath: 'id',
}

async function listQueryable(context: CliContext, search: string | undefined, wanted: number): Promise<void> {
  const [api, output] = await Promise.all([context.api(), context.output()])
  const { body, raw } = await api.send<z.infer<typeof DiscoverIndexesResponse>>({ method: 'GET', path: 'indexes' })
  await context.note('note: this key is not an administrator; showing the indexes it may query')
  // This route takes no parameters: all of its few names come at once.
  const sought = search?.trim().toLowerCase() ?? ''
  const found = body.indexes.filter(({ name }) => name.toLowerCase().includes(sought))
  await output.list(found.slice(0, wanted), QUERYABLE_VIEW, raw)
  if (found.length > wanted) await context.note(`note: showing ${wanted} of ${found.length}; add --all`)
}
