import type { CliContext } from '../context.ts'
import { usageError } from '../errors.ts'
import type { View } from '../output/formats.ts'
import { getItem, itemIn, itemPath, type Resource, withId } from './resolve.ts'

type Update<Item extends { id: string }> = {
  resource: Resource<Item>
  given: string
  /** What is to change, and nothing else; undefined members are not sent. */
  changes: object
  /** Members of the request that depend on what there is now, which is then read first. */
  complete?: ((now: Item) => object) | undefined
  view: View
}

/**
 * Changes what was named, prints the result and returns it. Throws exit 3 when there is none, and exit 2 when nothing is
 * to change.
 */
export async function update<Item extends { id: string }>(
  context: CliContext,
  { resource, given, changes, complete, view }: Update<Item>,
): Promise<Item> {
  const [api, output] = await Promise.all([context.api(), context.output()])
  output.assertShowable(view)
  if (Object.values(changes).every((value) => value === undefined)) {
    const { noun, command } = resource
    throw usageError(`say what is to change about the ${noun}`, [`See:  aigw ${command} update --help`])
  }
  const put = (id: string, json: object) => api.send({ method: 'PUT', path: itemPath(resource, id), json })
  const putCompleted = async (complete: (now: Item) => object) => {
    const { item } = await getItem(context, resource, given)
    return put(item.id, { ...changes, ...complete(item) })
  }
  const { body, raw } = await (complete === undefined
    ? withId(context, resource, given, (id) => put(id, changes))
    : putCompleted(complete))
  const updated = itemIn<Item>(body, resource.itemKey, api.baseUrl)
  await output.one(updated, view, raw)
  return updated
}
