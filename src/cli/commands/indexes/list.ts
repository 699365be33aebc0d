import { Command } from 'commander'
import type { z } from 'zod'
import { toIndexName } from '../../../shared/index-name.ts'
import { PAGE_LIMIT } from '../../../shared/spec-limits.ts'
import type { DiscoverIndexesResponse, Index, ListIndexesResponse } from '../../../shared/wire/indexes.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT, usageError } from '../../errors.ts'
import { INDEX_VIEW } from './view.ts'

export type ListIndexesInput = { search: string | undefined; limit: number; all: boolean }

export function listCommand(context: CliContext, run = listIndexes): Command {
  return new Command('list')
    .description('List knowledge bases: all of them for an administrator, else those the key may query.')
    .option('--search <text>', 'only names that contain this')
    .option('--limit <n>', 'how many', String(PAGE_LIMIT.large))
    .option('--all', 'every one, however many', false)
    .action((flags: { search?: string; limit: string; all: boolean }) =>
      run(context, { search: flags.search, limit: toLimit(flags.limit), all: flags.all }),
    )
}

function toLimit(text: string): number {
  const limit = Number(text)
  if (Number.isInteger(limit) && limit >= 1) return limit
  throw usageError(`--limit must be a whole number from 1 on, not '${text}'`)
}

type ListPage = z.infer<typeof ListIndexesResponse>

/** GET /indexes/all, page by page; GET /indexes for a key without administrator rights. */
export async function listIndexes(context: CliContext, { search, limit, all }: ListIndexesInput): Promise<void> {
  const [api, output, settings] = await Promise.all([context.api(), context.output(), context.settings()])
  const wanted = all ? Number.POSITIVE_INFINITY : limit
  const rows: Index[] = []
  try {
    for (let page = 1; ; page++) {
      // One size for every page: a smaller last page would shift the numbering of pages.
      const query = { page, limit: Math.min(PAGE_LIMIT.max, wanted), search }
      const { body, raw } = await api.send<ListPage>({ method: 'GET', path: 'indexes/all', query })
      rows.push(...body.indexes.slice(0, wanted - rows.length))
      const { pages, total } = body.pagination
      const complete = page >= pages || body.indexes.length === 0
      if (settings.raw) await output.list(rows, INDEX_VIEW, raw)
      if (!complete && rows.length < wanted) continue
      if (rows.length < total) await context.note(`note: showing ${rows.length} of ${total}; add --all`)
      break
    }
  } catch (error) {
    if (!(error instanceof CliError) || error.exitCode !== EXIT.forbidden) throw error
    return listQueryable(context, search, wanted)
  }
  if (!settings.raw) await output.list(rows, INDEX_VIEW)
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

/** The index of exactly this name, or undefined. */
export async function findIndex(context: CliContext, name: string): Promise<Index | undefined> {
  const api = await context.api()
  const normalised = toIndexName(name)
  for (let page = 1; ; page++) {
    const query = { page, limit: PAGE_LIMIT.max, search: normalised }
    const { body } = await api.send<ListPage>({ method: 'GET', path: 'indexes/all', query })
    const found = body.indexes.find((index) => index.name === normalised)
    if (found !== undefined || page >= body.pagination.pages) return found
  }
}
