/** Updates and deletes one resource. */
import type { CliContext } from '../context.ts'
import { CliError, EXIT, usageError } from '../errors.ts'
import type { RemoveFlags } from './options.ts'
import { type Described, getItem, itemIn, itemPath, withId } from './resolve.ts'

type Update<Item> = {
  given: string
  /** The members to change. The request omits members that are undefined. */
  changes: object
  /**
   * Returns the members of the request that depend on the current resource. If this function is set, the resource is
   * read first.
   */
  complete?: ((now: Item) => object) | undefined
}

/**
 * Sends the changes, prints the result and returns it. Throws an error with exit code 3 if the resource does not exist,
 * and one with exit code 2 if no change is given.
 */
export async function update<Item extends { id: string }>(
  context: CliContext,
  resource: Described<Item>,
  { given, changes, complete }: Update<Item>,
): Promise<Item> {
  const [api, output] = await Promise.all([context.api(), context.output()])
  const { noun, command, itemKey, view } = resource
  output.assertShowable(view)
  if (Object.values(changes).every((value) => value === undefined)) {
    throw usageError(`no change of the ${noun} was given`, [`See:  aigw ${command} update --help`])
  }
  const put = (id: string, json: object) => api.send({ method: 'PUT', path: itemPath(resource, id), json })
  const putCompleted = async (complete: (now: Item) => object) => {
    const { item } = await getItem(context, resource, given)
    return put(item.id, { ...changes, ...complete(item) })
  }
  const { body, raw } = await (complete === undefined
    ? withId(context, resource, given, (id) => put(id, changes))
    : putCompleted(complete))
  const updated = itemIn<Item>(body, itemKey, api.baseUrl)
  await output.one(updated, view, raw)
  return updated
}

type Removal = RemoveFlags & {
  given: string
  question: string
  /** The past participle of the verb, for messages. Default: `deleted`. */
  done?: string | undefined
}

/**
 * Deletes the resource after a confirmation. Throws an error with exit code 3 if it does not exist and `ignoreNotFound`
 * is not set.
 */
export async function remove<Item extends { id: string }>(
  context: CliContext,
  resource: Described<Item>,
  { given, ignoreNotFound, question, done = 'deleted' }: Removal,
): Promise<void> {
  const [api, output, settings] = await Promise.all([context.api(), context.output(), context.settings()])
  const { noun } = resource
  try {
    const { raw } = await withId(context, resource, given, async (id) => {
      if (!settings.dryRun) await context.confirm(question)
      // Retries only with `ignoreNotFound`: if the response of a successful request was lost, the retry gets a 404.
      return api.send({ method: 'DELETE', path: itemPath(resource, id), repeatable: ignoreNotFound })
    })
    if (settings.raw) await output.bytes(raw)
    await context.note(`${done[0]?.toUpperCase()}${done.slice(1)} ${noun} '${given}'.`)
  } catch (error) {
    if (!ignoreNotFound || !(error instanceof CliError) || error.exitCode !== EXIT.notFound) throw error
    await context.note(`note: there is no ${noun} '${given}'; nothing was ${done}`)
  }
}
