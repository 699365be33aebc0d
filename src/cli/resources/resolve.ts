import { EMAIL_CHARS } from '../../shared/spec-limits.ts'
import { notAGateway } from '../api/http-errors.ts'
import type { CliContext } from '../context.ts'
import { CliError, EXIT, usageError } from '../errors.ts'
import type { View } from '../output/formats.ts'
import { findMatching } from './listing.ts'

/** A kind of thing that administrators keep: how people call it, and where the gateway has it. */
export type Resource<Item extends { id: string }> = {
  noun: string
  /** The command that works on it: `aigw <command> list`. */
  command: string
  /** Of the list, unless that has a path of its own; a single one is at `<path>/<id>`. */
  path: string
  listPath?: string
  /** What shows all of them, where that is not `aigw <command> list`. */
  listCommand?: string
  itemsKey: string
  itemKey: string
  /** Whether a person who says `name` means this one. */
  isCalled(item: Item, name: string): boolean
  /** Where several may be called the same. */
  sharesNames?: true
  /** The list has no pages. */
  isWhole?: true
  /** Where others take an id, its routes take a name as well. */
  takesNames?: true
}

/** No name, username or role name is longer than an email may be. */
const LONGEST_NAME_CHARS = EMAIL_CHARS

const ID = /^[0-9a-f]{24}$/i

/** Whether this is how ids look; a name may look so too. */
export const isId = (text: string): boolean => ID.test(text.trim())

export const itemPath = ({ path }: { path: string }, id: string): string =>
  `${path}/${encodeURIComponent(id.trim().toLowerCase())}`

/** Whether the routes of a resource take this text as it is. */
const isReference = ({ takesNames }: { takesNames?: true }, text: string): boolean => takesNames === true || isId(text)

/** The member of an answer that holds the resource. */
export function itemIn<Item extends object>(body: object, itemKey: string, baseUrl: string): Item {
  const item: Item | undefined = Reflect.get(body, itemKey)
  if (typeof item === 'object' && item !== null) return item
  throw notAGateway(EXIT.error, `${baseUrl} did not answer with '${itemKey}'`, {})
}

/** Asks for one by its name, or returns undefined. Throws a usage error when several have it. */
export async function findNamed<Item extends { id: string }>(
  context: CliContext,
  resource: Resource<Item>,
  given: string,
): Promise<Item | undefined> {
  if (resource.takesNames) return (await findById(context, resource, given))?.item
  const { path, listPath = path, itemsKey, isCalled, sharesNames, isWhole, noun } = resource
  // As the gateway keeps names. No list can be asked for a longer one than there can be, and nothing is called nothing.
  const name = given.trim()
  if (name === '' || (isWhole !== true && name.length > LONGEST_NAME_CHARS)) return undefined
  // The oldest first: what is added meanwhile does not push others from page to page.
  const query = { sortOrder: 'asc' }
  const matches = (item: Item) => isCalled(item, name)
  let found: Item | undefined
  for await (const item of findMatching<Item>(context, {
    path: listPath,
    query,
    itemsKey,
    isWhole,
    search: name,
    matches,
  })) {
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
 * The one that `given` names: by its id, else by its exact name. `raw` is the answer when it was asked for by id.
 * Throws exit 3 when there is none.
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

/** Asks for one by its name. Throws exit 3 when there is none. */
async function getNamed<Item extends { id: string }>(
  context: CliContext,
  resource: Resource<Item>,
  given: string,
): Promise<Item> {
  const item = await findNamed(context, resource, given)
  if (item !== undefined) return item
  const { noun, command, listCommand = `aigw ${command} list` } = resource
  throw new CliError(EXIT.notFound, `there is no ${noun} '${given}'`, {
    code: `${toCode(noun)}_NOT_FOUND`,
    hints: [`Which are there?  ${listCommand}`],
  })
}

/** `API key` as error codes spell it: `API_KEY`. */
export const toCode = (noun: string): string => noun.toUpperCase().replaceAll(' ', '_')

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
 * Runs `act` on the one that `given` names, by id or exact name. What looks like an id is not looked up first: the gateway
 * says itself when there is none. Throws exit 3 then, unless it is a name.
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

/** Id for a request that the gateway checks itself: what looks like one is passed on, a name is looked up. */
export const toId = async <Item extends { id: string }>(
  context: CliContext,
  resource: Resource<Item>,
  given: string,
): Promise<string> => (isId(given) ? given.trim().toLowerCase() : (await getNamed(context, resource, given)).id)

/** The same for several. */
export async function toIds<Item extends { id: string }>(
  context: CliContext,
  resource: Resource<Item>,
  given: readonly string[],
): Promise<string[]> {
  const ids: string[] = []
  for (const text of given) ids.push(await toId(context, resource, text))
  return [...new Set(ids)]
}

/** Prints the one that `given` names. Throws exit 3 when there is none. */
export async function showItem<Item extends { id: string }>(
  context: CliContext,
  { resource, given, view }: { resource: Resource<Item>; given: string; view: View },
): Promise<void> {
  await showFound(context, { resource, found: await getItem(context, resource, given), view })
}

/** Prints what was found. A list has it as it is, but only its own route has the bytes that `--raw` prints. */
export async function showFound<Item extends { id: string }>(
  context: CliContext,
  { resource, found, view }: { resource: Resource<Item>; found: Found<Item>; view: View },
): Promise<void> {
  const [output, settings] = await Promise.all([context.output(), context.settings()])
  const { item, raw } =
    settings.raw && found.raw === undefined ? await getItem(context, resource, found.item.id) : found
  await output.one(item, view, raw)
}
