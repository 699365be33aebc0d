/** Manages knowledge bases and their documents. */
import { Command } from 'commander'
import type { z } from 'zod'
import type {
  DiscoverIndexesResponse,
  Index,
  IndexDocument,
  RebuildIndexResponse,
} from '../../../shared/wire/indexes.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT } from '../../errors.ts'
import { type Field, field } from '../../input/fields.ts'
import { columns, flexible } from '../../output/formats.ts'
import { createProgress } from '../../output/progress.ts'
import { listAll } from '../../resources/listing.ts'
import {
  addListOptions,
  addRemoveOptions,
  type ListFlags,
  type ListInput,
  type RemoveFlags,
  toListInput,
} from '../../resources/options.ts'
import { itemPath, withId } from '../../resources/resolve.ts'
import { createVerb, deleteVerb, idOf, showVerb, updateVerb } from '../../resources/verbs.ts'
import { GROUPS } from '../groups/resource.ts'
import { USERS } from '../users/resource.ts'
import { getIndexName, toIndexNameOrId } from './name.ts'
import { documentsOf, INDEXES } from './resource.ts'

const description = { member: 'description', flag: '-d, --description <text>' }

/** The flags that set which user or group is allowed to read an index. */
const OWNERS: Field[] = [
  field('assignedUser', '--user <user>', `only this user may read it: ${USERS.argument}`, {
    conflicts: 'group',
    resolve: idOf(USERS),
  }),
  field('assignedGroup', '--group <group>', 'only members of this group may read it, by name or id', {
    resolve: idOf(GROUPS),
  }),
]

const ACCESS: Record<Index['indexAccess'], true> = { read: true, write: true }

/** The flag that sets whether readers are allowed to change documents. */
const access = field('indexAccess', '--index-access <level>', 'read: keys of readers may never change documents', {
  choices: Object.keys(ACCESS),
})

export const commands = {
  create: createVerb(INDEXES, {
    description: 'Create a knowledge base. The name has 3 to 50 of a-z, 0-9 and dashes.',
    fields: [
      { member: 'name', flag: '<name>', help: 'name for chat and search' },
      { ...description, help: 'its contents' },
      ...OWNERS,
      access,
    ],
    toComparable: (index: Partial<Index>) => ({
      ...index,
      assignedUser: index.assignedUser?.id ?? null,
      assignedGroup: index.assignedGroup?.id ?? null,
    }),
    view: INDEXES.listView ?? INDEXES.view,
    useIt: (name) => `aigw indexes add ${name} FILE`,
  }),
  list: (context: CliContext) =>
    addListOptions(
      new Command('list').description(
        'List knowledge bases: all of them for an administrator, otherwise those the key may query.',
      ),
      'their name',
    ).action((flags: ListFlags) => listIndexes(context, toListInput(flags))),
  show: showVerb(INDEXES, 'Show a knowledge base and who may read it.'),
  update: updateVerb(INDEXES, {
    description: 'Rename a knowledge base, or change who may read it; other fields stay.',
    fields: [
      { member: 'name', flag: '--name <name>', help: 'new name; lists of keys keep the old one' },
      { ...description, help: 'new description' },
      ...OWNERS,
      field('assignedUser', '--general', 'everybody may read it', {
        conflicts: ['user', 'group'],
        sets: { assignedUser: null, assignedGroup: null },
      }),
      access,
    ],
  }),
  delete: deleteVerb(INDEXES, {
    description: 'Delete a knowledge base with all its documents.',
    question: (index) => `Delete index '${index}' and all its documents?`,
  }),
  docs: (context: CliContext) =>
    addListOptions(onIndex('docs', 'List the documents of a knowledge base.'), 'their name').action(
      (given: string, flags: ListFlags) => {
        const { search, ...bounds } = toListInput(flags)
        return listAll<IndexDocument>(context, { ...documentsOf(getIndexName(given)), query: { search }, ...bounds })
      },
    ),
  remove: (context: CliContext) =>
    addRemoveOptions(
      onIndex('remove', 'Remove a document from a knowledge base.').argument('<document>', 'name or id'),
      'document',
    ).action(async (text: string, given: string, flags: RemoveFlags) => {
      const index = getIndexName(text)
      const { remove } = await import('../../resources/changes.ts')
      const question = `Remove '${given}' from index '${index}'?`
      await remove(context, documentsOf(index), { ...flags, given, question, done: 'removed' })
    }),
  rebuild: (context: CliContext) =>
    new Command('rebuild')
      .description('Rebuild the search index of a knowledge base from its passages. Searches keep working meanwhile.')
      .argument('<index>', 'name or id')
      .action((index: string) => rebuild(context, toIndexNameOrId(index))),
}

const onIndex = (name: string, description: string): Command =>
  new Command(name).description(description).argument('<index>', 'knowledge base')

/** GET /indexes/all, page by page. If the key has no administrator rights, the command uses GET /indexes instead. */
async function listIndexes(context: CliContext, { search, limit, all }: ListInput): Promise<void> {
  const { path, view, listView = view } = INDEXES
  try {
    await listAll<Index>(context, { ...INDEXES, path: `${path}/all`, query: { search }, limit, all, view: listView })
  } catch (error) {
    if (!(error instanceof CliError) || error.exitCode !== EXIT.forbidden) throw error
    await listQueryable(context, search, all ? Number.POSITIVE_INFINITY : limit)
  }
}

const QUERYABLE_VIEW = {
  columns: columns({ NAME: 'name', TYPE: 'type', DESCRIPTION: flexible('description') }),
  idPath: 'id',
}

async function listQueryable(context: CliContext, search: string | undefined, wanted: number): Promise<void> {
  const [api, output] = await Promise.all([context.api(), context.output()])
  const { body, raw } = await api.send<z.infer<typeof DiscoverIndexesResponse>>({ method: 'GET', path: 'indexes' })
  await context.note('note: this key is not an administrator; showing the indexes it may query')
  // This route has no parameters and returns all names in one response.
  const sought = search?.trim().toLowerCase() ?? ''
  const found = body.indexes.filter(({ name }) => name.toLowerCase().includes(sought))
  await output.list(found.slice(0, wanted), QUERYABLE_VIEW, raw)
  if (found.length > wanted) await context.note(`note: showing ${wanted} of ${found.length}; add --all`)
}

const REBUILT_VIEW = { columns: columns({ DOCUMENTS: 'documents', PASSAGES: 'passages' }), idPath: 'documents' }

/** This timeout is long enough for large indexes: a rebuild processes about 3,000 passages a second. */
const REBUILD_TIMEOUT_MS = 600_000

/**
 * POST /indexes/{id}/rebuild. Throws an error with exit code 3 if the index does not exist, and one with exit code 6 if
 * another request is changing it.
 */
async function rebuild(context: CliContext, index: string): Promise<void> {
  const [api, output, settings] = await Promise.all([context.api(), context.output(), context.settings()])
  output.assertShowable(REBUILT_VIEW)
  const progress = createProgress(context.io, settings)
  progress.show(`Rebuilding ${index}`)
  const timeoutMs = settings.timeoutFlagMs ?? REBUILD_TIMEOUT_MS
  const { body, raw } = await withId(context, INDEXES, index, (id) => {
    const path = `${itemPath(INDEXES, id)}/rebuild`
    return api.send<z.infer<typeof RebuildIndexResponse>>({ method: 'POST', path, timeoutMs, repeatable: true })
  }).finally(progress.end)
  await output.one(body.rebuilt, REBUILT_VIEW, raw)
}
