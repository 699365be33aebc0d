import { Command } from 'commander'
import type { z } from 'zod'
import type { RebuildIndexResponse } from '../../../shared/wire/indexes.ts'
import type { CliContext } from '../../context.ts'
import { createProgress } from '../../output/progress.ts'
import { itemPath, withId } from '../../resources/resolve.ts'
import { toIndexNameOrId } from './name.ts'
import { INDEXES } from './resource.ts'

export function toCommand(context: CliContext, run = rebuildIndex): Command {
  return new Command('rebuild')
    .description(
      'Make what searches use of a knowledge base anew, from the passages it has. It can be searched all the while.',
    )
    .argument('<index>', 'name or id')
    .action((index: string) => run(context, { index: toIndexNameOrId(index) }))
}

const VIEW = { columns: [{ path: 'documents' }, { path: 'passages' }], idPath: 'documents' }

/** About 3,000 passages a second. */
const REBUILD_TIMEOUT_MS = 600_000

/** POST /indexes/{id}/rebuild. Throws exit 3 for an index that does not exist, exit 6 while others change it. */
export async function rebuildIndex(context: CliContext, { index }: { index: string }): Promise<void> {
  const [api, output, settings] = await Promise.all([context.api(), context.output(), context.settings()])
  output.assertShowable(VIEW)
  const progress = createProgress(context.io, settings)
  progress.show(`Rebuilding ${index}`)
  const { body, raw } = await withId(context, INDEXES, index, (id) =>
    api.send<z.infer<typeof RebuildIndexResponse>>({
      method: 'POST',
      path: `${itemPath(INDEXES, id)}/rebuild`,
      timeoutMs: settings.timeoutFlagMs ?? REBUILD_TIMEOUT_MS,
      // Once more changes nothing.
      repeatable: true,
    }),
  ).finally(progress.end)
  await output.one(body.rebuilt, VIEW, raw)
}
