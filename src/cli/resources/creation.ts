import type { ApiRequest } from '../api/client.ts'
import type { CliContext } from '../context.ts'
import { CliError, EXIT, usageError } from '../errors.ts'
import type { View } from '../output/formats.ts'
import { toShellWord } from '../output/shell-word.ts'
import type { CreateFlags } from './options.ts'
import { itemIn, toCode } from './resolve.ts'

export type Creation<Item extends object> = CreateFlags & {
  request: ApiRequest
  /** Where the answer has what was made. */
  itemKey: string
  noun: string
  name: string
  /** The existing one, after a 409; undefined when the conflict is about something else. */
  find(): Promise<Item | undefined>
  /** What was asked for by name, by the member of the resource that shows it. */
  wanted: object
  /** The resource in the form of `wanted`, where that differs from its own. */
  toComparable?: ((item: Item) => object) | undefined
  /** Whether a 409 is about `name`, where more than names is unique. */
  isAboutName?: ((conflict: CliError) => boolean) | undefined
  /** What to do with an existing one; `aigw <noun>s show <name>` by default. */
  useIt?: string
}

type Created<Item> =
  | { item: Item; isNew: true; body: object; raw: Buffer }
  /** It existed already; a note on stderr reports it. */
  | { item: Item; isNew: false }

/**
 * Sends the request. With `ifNotExists`, a 409 leads to the existing one, and stderr says in which of the named fields it
 * differs. Throws exit 6 without it, and with `strict` when it differs.
 */
export async function createUnlessThere<Item extends object>(
  context: CliContext,
  creation: Creation<Item>,
): Promise<Created<Item>> {
  const { request, itemKey, ifNotExists, isAboutName = () => true } = creation
  const api = await context.api()
  try {
    const { body, raw } = await api.send(request)
    return { item: itemIn<Item>(body, itemKey, api.baseUrl), isNew: true, body, raw }
  } catch (error) {
    if (!(error instanceof CliError) || error.exitCode !== EXIT.conflict) throw error
    if (!ifNotExists) throw isAboutName(error) ? alreadyExists(creation, error) : error
    const item = await findExisting(context, creation)
    if (item === undefined) throw error
    return { item, isNew: false }
  }
}

/** The existing item, after a note on stderr. Throws exit 6 with `strict` when it differs. */
export async function findExisting<Item extends object>(
  context: CliContext,
  creation: Creation<Item>,
): Promise<Item | undefined> {
  const item = await creation.find()
  if (item !== undefined) await noteExisting(context, creation, item)
  return item
}

/** Throws a usage error for flags that contradict each other, and for an output that the result does not have. */
export async function checkCreation(
  context: CliContext,
  { ifNotExists, strict }: CreateFlags,
  view: View,
): Promise<void> {
  const [output, { raw }] = await Promise.all([context.output(), context.settings()])
  if (strict && !ifNotExists) throw usageError('--strict is of use only with --if-not-exists')
  if (raw && ifNotExists) throw usageError('--raw and --if-not-exists cannot be combined')
  output.assertShowable(view)
}

/** Creates it unless it is there, prints what there is then, and returns it. */
export async function createOrFind<Item extends object>(
  context: CliContext,
  { view, ...creation }: Creation<Item> & { view: View },
): Promise<Item> {
  await checkCreation(context, creation, view)
  const created = await createUnlessThere(context, creation)
  const output = await context.output()
  await output.one(created.item, view, created.isNew ? created.raw : undefined)
  return created.item
}

async function noteExisting<Item extends object>(
  context: CliContext,
  { noun, name, wanted, toComparable, strict }: Creation<Item>,
  existing: Item,
): Promise<void> {
  const there = toComparable === undefined ? existing : toComparable(existing)
  const differing = differences(wanted, there)
  if (strict && differing.length > 0) {
    throw new CliError(EXIT.conflict, `${noun} '${name}' already exists and differs: ${differing.join(', ')}`, {
      code: `${toCode(noun)}_DIFFERS`,
      hints: differing.map((field) => `Its ${field} is: ${JSON.stringify(Reflect.get(there, field))}`),
    })
  }
  const suffix = differing.length === 0 ? '' : ` (differs: ${differing.join(', ')})`
  await context.note(`note: ${noun} '${name}' already exists; left unchanged${suffix}`)
}

/** The members of `wanted` that are otherwise in `existing`; what was not mentioned does not differ. */
export const differences = (wanted: object, existing: object): string[] =>
  Object.entries(wanted)
    .filter(([field, value]) => !isSame(field, value, Reflect.get(existing, field)))
    .map(([field]) => field)

const toLowerCase = (text: string): string => text.toLowerCase()
/** How to normalise such a member before comparing; other texts are compared as they are. */
const NORMALISERS = new Map<string, (text: string) => unknown>([
  ['email', toLowerCase],
  ['username', toLowerCase],
  ['roleId', toLowerCase],
  ['expiresAt', Date.parse],
])
/** Models of a chain are tried in their order; all other lists that the gateway keeps are sets. */
const ORDERED_LISTS = new Set(['models'])

function isSame(field: string, wanted: unknown, existing: unknown): boolean {
  if (wanted === undefined) return true
  if (typeof wanted === 'string' && typeof existing === 'string') {
    const normalise = NORMALISERS.get(field) ?? String
    // The gateway removes white space around texts.
    return Object.is(normalise(wanted.trim()), normalise(existing.trim()))
  }
  if (Array.isArray(wanted) && Array.isArray(existing)) {
    const [these, those] = [toSet(wanted), toSet(existing)]
    if (ORDERED_LISTS.has(field)) return [...these].join() === [...those].join()
    return these.size === those.size && [...these].every((entry) => those.has(entry))
  }
  if (typeof wanted !== 'object' || wanted === null || typeof existing !== 'object' || existing === null) {
    return wanted === existing
  }
  return differences(wanted, existing).length === 0
}

/** Repeated entries count once. */
const toSet = (list: unknown[]): Set<string> => new Set(list.map((entry) => JSON.stringify(entry)))

function alreadyExists(
  { noun, name, useIt = `aigw ${noun}s show ${toShellWord(name)}` }: Pick<Creation<object>, 'noun' | 'name' | 'useIt'>,
  cause: CliError,
): CliError {
  const { httpStatus, requestId, code } = cause
  // Of all nouns here that begin with a vowel letter, only `user` does not begin with a vowel.
  const article = /^[aeio]/i.test(noun) ? 'an' : 'a'
  return new CliError(EXIT.conflict, `${article} ${noun} named '${name}' already exists (${code})`, {
    code,
    hints: [`Use it:      ${useIt}`, 'In scripts:  add --if-not-exists'],
    httpStatus,
    requestId,
    cause,
  })
}
