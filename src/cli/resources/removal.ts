import type { CliContext } from '../context.ts'
import { CliError, EXIT } from '../errors.ts'
import type { RemoveFlags } from './options.ts'
import { itemPath, type Resource, withId } from './resolve.ts'

type Removal<Item extends { id: string }> = RemoveFlags & {
  resource: Resource<Item>
  given: string
  question: string
  /** What is done to it, where that is not `deleted`. */
  done?: string
}

/** Asks, deletes. Throws exit 3 when there is none, unless `ignoreNotFound`. */
export async function remove<Item extends { id: string }>(
  context: CliContext,
  { resource, given, ignoreNotFound, question, done = 'deleted' }: Removal<Item>,
): Promise<void> {
  const [api, output, settings] = await Promise.all([context.api(), context.output(), context.settings()])
  const { noun } = resource
  try {
    const { raw } = await withId(context, resource, given, async (id) => {
      if (!settings.dryRun) await context.confirm(question)
      // After an answer that was lost, a second try would find nothing to delete.
      return api.send({ method: 'DELETE', path: itemPath(resource, id), repeatable: ignoreNotFound })
    })
    if (settings.raw) await output.bytes(raw)
    await context.note(`${done[0]?.toUpperCase()}${done.slice(1)} ${noun} '${given}'.`)
  } catch (error) {
    if (!ignoreNotFound || !(error instanceof CliError) || error.exitCode !== EXIT.notFound) throw error
    await context.note(`note: there is no ${noun} '${given}'; nothing was ${done}`)
  }
}
