/** Finds one resource by its id or name, and prints the resource. */
import { isErrorCode } from '../../shared/errors.ts'
import { EMAIL_CHARS } from '../../shared/spec-limits.ts'
import { notAGateway } from '../api/http-errors.ts'
import type { CliContext } from '../context.ts'
import type { CliCode } from '../error-codes.ts'
import { CliError, EXIT, usageError } from '../errors.ts'
import type { View } from '../output/formats.ts'
import { findMatching } from './listing.ts'

/** A kind of resource: its names for people, and its routes at the gateway. */
export type Resource<Item extends { id: string }> = {
  noun: string
  /** The command for this resource: `aigw <command> list`. */
  command: string
  /** The path of the list, unless `listPath` is set. A single resource is at `<path>/<id>`. */
  path: string
  listPath?: string
  /** The command that lists all resources of this kind. Default: `aigw <command> list`. */
  listCommand?: string
  itemsKey: string
  itemKey: string
  /** Whether `name` identifies this item. */
  isCalled(item: Item, name: string): boolean
  /** If true, several items of this kind may have the same name. */
  sharesNames?: true
  /** If true, the list has no pages. */
  isWhole?: true
  /** If true, the routes of the resource accept a name instead of an id. */
  takesNames?: true
}

/** A kind of resource, with all values that its commands share. */
export type Described<Item extends { id: string }> = Resource<Item> & {
  /** Describes how to identify one resource, for help texts. */
  argument: string
  view: View
  /** The view for lists, if it differs from `view`. */
  listView?: View
  /** Normalises a name as the gateway does. Throws a usage error for an invalid name. */
  toReference?(given: string): string
  /** The name cannot change. A file for an update may contain the current name. */
  keepsName?: true
}

/** The limit is the maximum length of an email, because emails may be longer than all other names. */
const LONGEST_NAME_CHARS = EMAIL_CHARS

const ID = /^[0-9a-f]{24}$/i

/** Whether the text has the form of an id. A name may also have this form. */
export const isId = (text: string): boolean => ID.test(text.trim())

export const itemPath = ({ path }: { path: string }, id: string): string =>
  `${path}/${encodeURIComponent(id.trim().toLowerCase())}`

/** Whether the routes of a resource accept this text unchanged. */
const isReference = ({ takesNames }: { takesNames?: true }, text: string): boolean => takesNames === true || isId(text)

/** Returns the resource in a response body. Throws an error with exit code 1 if it is missing. */
export function itemIn<Item extends object>(body: object, itemKey: string, baseUrl: string): Item {
  const item: Item | undefined = Reflect.get(body, itemKey)
  if (typeof item === 'object' && item !== null) return item
  throw notAGateway(EXIT.error, `${baseUrl} did not answer with '${itemKey}'`, {})
}

/** Finds a resource by its name. Throws a usage error if several resources have that name. */
export async function findNamed<Item extends { id: string }>(
  context: CliContext,
  resource: Resource<Item>,
  given: string,
): Promise<Item | undefined> {
  if (resource.takesNames) return (await findById(context, resource, given))?.item
  const { path, listPath = path, itemsKey, isCalled, sharesNames, isWhole, noun } = resource
  // The gateway also trims names. It rejects a search text that is empty or longer than the longest allowed name.
  const name = given.trim()
  if (name === '' || (isWhole !== true && name.length > LONGEST_NAME_CHARS)) return undefined
  // Sorts the list oldest first. A resource that is created during the search then does not shift other resources to
  // the next page.
  const query = { sortOrder: 'asc' }
  const matches = (item: Item) => isCalled(item, name)
  let found: Item | undefined
  const source = { path: listPath, query, itemsKey, isWhole, search: name, matches }
  for await (const item of findMatching<Item>(context, source)) {
    if (found !== undefined) {
      const hint = `Say which by its id:  ${found.id} or ${item.id}`
      throw usageError(`more than one ${noun} is called '${name}'`, [hint])
    }
    found = item
    if (sharesNames !== true) break
  }
  return found
}

type Found<Item> = { item: Item; raw: Buffer | undefined }

/**
 * Returns the resource with this id or exact name. `raw` is the response of the request by id. Throws an error with
 * exit code 3 if not found.
 */
export async function getItem<Item extends { id: string }>(
  context: CliContext,
  resource: Resource<Item>,
  given: string,
): Promise<Found<Item>> {
  const byId = isReference(resource, given) ? await findById(context, resource, given) : undefined
  if (byId !== undefined) return byId
  return { item: await getNamed(context, resource, given), raw: undefined }
}

/** Returns the resource with this name. Throws an error with exit code 3 if it is not found. */
async function getNamed<Item extends { id: string }>(
  context: CliContext,
  resource: Resource<Item>,
  given: string,
): Promise<Item> {
  const item = await findNamed(context, resource, given)
  if (item !== undefined) return item
  const { noun, command, listCommand = `aigw ${command} list` } = resource
  throw new CliError(EXIT.notFound, `there is no ${noun} '${given}'`, {
    code: notFoundCode(noun),
    hints: [`To list existing names and ids, run: ${listCommand}`],
  })
}

/** Returns the gateway's code for a missing resource: `API_KEY_NOT_FOUND` for an `API key`. */
function notFoundCode(noun: string): CliCode {
  const words = `${noun
    .replace(/^prompt shield /, '')
    .toUpperCase()
    .replaceAll(' ', '_')}_NOT_FOUND`
  return isErrorCode(words) ? words : 'NOT_FOUND'
}

async function findById<Item extends { id: string }>(
  context: CliContext,
  resource: Resource<Item>,
  id: string,
): Promise<Found<Item> | undefined> {
  const api = await context.api()
  try {
    const { body, raw } = await api.send({ method: 'GET', path: itemPath(resource, id) })
    return { item: itemIn<Item>(body, resource.itemKey, api.baseUrl), raw }
  } catch (error) {
    if (error instanceof CliError && error.exitCode === EXIT.notFound) return undefined
    throw error
  }
}

/**
 * Runs `act` on the resource with this id or exact name. If the text has the form of an id, tries it as an id first. If
 * the gateway finds no such id, tries it as a name. Throws an error with exit code 3 if it is not found.
 */
export async function withId<Item extends { id: string }, T>(
  context: CliContext,
  resource: Resource<Item>,
  given: string,
  act: (id: string) => Promise<T>,
): Promise<T> {
  if (!isReference(resource, given)) return act((await getNamed(context, resource, given)).id)
  try {
    return await act(given)
  } catch (error) {
    if (!(error instanceof CliError) || error.exitCode !== EXIT.notFound) throw error
    const named = await findNamed(context, resource, given)
    if (named === undefined) throw error
    return act(named.id)
  }
}

/**
 * Returns the id of a resource. If the text has the form of an id, returns it without a check, because the gateway
 * validates it. Otherwise looks the text up as a name.
 */
export const toId = async <Item extends { id: string }>(
  context: CliContext,
  resource: Resource<Item>,
  given: string,
): Promise<string> => (isId(given) ? given.trim().toLowerCase() : (await getNamed(context, resource, given)).id)

/** Returns the ids of several resources and removes duplicates. Each text is treated as in `toId`. */
export async function toIds<Item extends { id: string }>(
  context: CliContext,
  resource: Resource<Item>,
  given: readonly string[],
): Promise<string[]> {
  const ids: string[] = []
  for (const text of given) ids.push(await toId(context, resource, text))
  return [...new Set(ids)]
}

/** Prints the resource with this id or name. Throws an error with exit code 3 if it is not found. */
export const showItem = async <Item extends { id: string }>(
  context: CliContext,
  resource: Described<Item>,
  given: string,
): Promise<void> => showFound(context, resource, await getItem(context, resource, given))

/** Prints a resource. With `--raw`, fetches the resource again by id if it was found in a list. */
export async function showFound<Item extends { id: string }>(
  context: CliContext,
  resource: Described<Item>,
  found: Found<Item>,
): Promise<void> {
  const [output, settings] = await Promise.all([context.output(), context.settings()])
  const { item, raw } =
    settings.raw && found.raw === undefined ? await getItem(context, resource, found.item.id) : found
  await output.one(item, resource.view, raw)
}
