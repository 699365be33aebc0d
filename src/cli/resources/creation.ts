/**
 * Creates a resource only once, even if a script runs twice. Also prints secrets. The gateway returns each secret only
 * once.
 */
import { access } from 'node:fs/promises'
import { notAGateway } from '../api/http-errors.ts'
import type { CliContext } from '../context.ts'
import { CliError, EXIT, usageError } from '../errors.ts'
import type { Fields } from '../input/from-file.ts'
import { findAtPath, type View } from '../output/formats.ts'
import { isPlain, type Output } from '../output/output.ts'
import { openSecretFile } from '../output/secret-file.ts'
import { toShellWord } from '../output/shell-word.ts'
import type { Settings } from '../profile/profile.ts'
import type { CreateFlags, SecretFlags } from './options.ts'
import { type Described, findNamed, itemIn } from './resolve.ts'

/** Options for creating one kind of resource. They override the defaults. */
export type Creation<Item extends object> = {
  /** Returns the members that `--if-not-exists` compares. Defaults to the whole request. */
  toWanted?(request: Fields, flags: Record<string, unknown>): object
  /** Converts the existing resource to the form of the request, for the comparison. */
  toComparable?(item: Item): object
  /**
   * Whether `key` caused a conflict with status 409. This function is required if other members must also be unique.
   */
  isAboutName?(conflict: CliError): boolean
  /** Finds the existing resource. Defaults to a search by name. */
  find?(context: CliContext, key: string, request: Fields): Promise<Item | undefined>
  /** The command that uses the existing resource. Defaults to `show`. */
  useIt?(name: string): string
  /** This member is set if the response contains a secret that is shown only once. */
  secret?: {
    /** Returns the object that is printed for a new resource. Defaults to the resource. */
    toShown?(item: Item, body: object): object
    /** The success message. */
    done(item: Item): string
    /** The command that gives an existing resource a new secret. */
    renewal(item: Item): string
  }
  view?: View
  note?(context: CliContext, item: Item): Promise<void>
}

type Input = {
  json: Fields
  /** The member that identifies the resource, and its value. */
  key: string
  name: string
  flags: CreateFlags & SecretFlags
}

/**
 * Sends the request and prints the new resource. With `ifNotExists`, prints an existing resource instead, and lists the
 * different members in a note. Throws an error with exit code 6 in two cases: the resource exists and `ifNotExists` is
 * not set, or it differs and `strict` is set.
 */
export async function create<Item extends { id: string }>(
  context: CliContext,
  resource: Described<Item>,
  creation: Creation<Item>,
  { json, key, name, flags }: Input,
): Promise<void> {
  const { path, itemKey, noun } = resource
  const { secret, view = resource.view, isAboutName = () => true, toComparable = (item: Item) => item } = creation
  const { ifNotExists, strict } = flags
  const [api, output, settings] = await Promise.all([context.api(), context.output(), context.settings()])
  const shown = secret === undefined ? view : await toSecretView(context, flags, view)
  if (strict && !ifNotExists) throw usageError('--strict needs --if-not-exists')
  if (settings.raw && ifNotExists) throw usageError('--raw and --if-not-exists cannot be combined')
  output.assertShowable(shown)

  const findExisting = async (): Promise<Item | undefined> => {
    const { find = () => findNamed(context, resource, name), toWanted = (others: Fields) => others } = creation
    const item = await find(context, name, json)
    if (item === undefined) return undefined
    const { [key]: _, ...others } = json
    const comparable = toComparable(item)
    await noteExisting(context, { noun, name, strict }, comparable, differences(toWanted(others, flags), comparable))
    return item
  }
  /** If the resource already exists, `body` is undefined. */
  const send = async (): Promise<{ item: Item; body?: object; raw?: Buffer }> => {
    try {
      const { body, raw } = await api.send({ method: 'POST', path, json })
      return { item: itemIn<Item>(body, itemKey, api.baseUrl), body, raw }
    } catch (error) {
      if (!(error instanceof CliError) || error.exitCode !== EXIT.conflict) throw error
      const useIt = creation.useIt?.(name) ?? `aigw ${resource.command} show ${toShellWord(name)}`
      if (!ifNotExists) throw isAboutName(error) ? alreadyExists(noun, name, useIt, error) : error
      const item = await findExisting()
      if (item === undefined) throw error
      return { item }
    }
  }

  if (secret === undefined) {
    const { item, raw } = await send()
    await output.one(item, view, raw)
    return creation.note?.(context, item)
  }
  // Searches first. If the resource exists, its secret cannot be shown again, so a `--save-to` file would be useless.
  let existing = ifNotExists && !settings.dryRun ? await findExisting() : undefined
  if (existing === undefined) {
    const { toShown = (item: Item) => item, done } = secret
    const call = async () => {
      const { item, body, raw } = await send()
      if (body !== undefined && raw !== undefined) return { item: toShown(item, body), body, raw, done: done(item) }
      existing = item
      return undefined
    }
    await keepSecret(context, { ...flags, view, call })
  }
  if (existing === undefined) return
  const renewal = secret.renewal(existing)
  const { saveTo } = flags
  if (saveTo === undefined) {
    await context.note(`note: its secret was shown when it was created; for a new secret:  ${renewal}`)
    // Plain stdout must contain only the secret, because a script would use any other text as the secret.
    if (!isPlain(settings)) await output.one({ ...existing, secret: null }, shown)
  } else if (await isThere(saveTo)) await showUnsaved(output, settings, existing, shown)
  else {
    const message = `${noun} '${name}' exists, but ${saveTo} does not, and its secret is shown only once`
    const hints = [`A new secret:  ${renewal} --save-to ${toShellWord(saveTo)}`]
    throw new CliError(EXIT.conflict, message, { code: 'SECRET_MISSING', hints })
  }
}

async function noteExisting(
  context: CliContext,
  { noun, name, strict }: { noun: string; name: string; strict: boolean },
  existing: object,
  differing: string[],
): Promise<void> {
  if (strict && differing.length > 0) {
    throw new CliError(EXIT.conflict, `${noun} '${name}' already exists and differs: ${differing.join(', ')}`, {
      code: 'DIFFERS',
      hints: differing.map((field) => `Its ${field} is: ${JSON.stringify(Reflect.get(existing, field))}`),
    })
  }
  const suffix = differing.length === 0 ? '' : ` (differs: ${differing.join(', ')})`
  await context.note(`note: ${noun} '${name}' already exists; left unchanged${suffix}`)
}

function alreadyExists(noun: string, name: string, useIt: string, cause: CliError): CliError {
  const { httpStatus, requestId, code } = cause
  // Excludes `u`, because the only noun that begins with `u` is `user`, and `user` takes `a`.
  const article = /^[aeio]/i.test(noun) ? 'an' : 'a'
  return new CliError(EXIT.conflict, `${article} ${noun} named '${name}' already exists (${code})`, {
    ...{ code, httpStatus, requestId, cause },
    hints: [`Use it:      ${useIt}`, 'In scripts:  add --if-not-exists'],
  })
}

/** Returns the members of `wanted` that differ in `existing`. Members that `wanted` omits are not compared. */
export const differences = (wanted: object, existing: object): string[] =>
  Object.entries(wanted)
    .filter(([field, value]) => !isSame(field, value, Reflect.get(existing, field)))
    .map(([field]) => field)

const toLowerCase = (text: string): string => text.toLowerCase()
/** Functions that normalise members before the comparison. Members without a function are compared unchanged. */
const NORMALISERS = new Map<string, (text: string) => unknown>([
  ['email', toLowerCase],
  ['username', toLowerCase],
  ['roleId', toLowerCase],
  ['expiresAt', Date.parse],
])
/** The order of the models in a chain is significant, but the gateway treats all other lists as sets. */
const ORDERED_LISTS = new Set(['models'])

function isSame(field: string, wanted: unknown, existing: unknown): boolean {
  if (wanted === undefined) return true
  if (typeof wanted === 'string' && typeof existing === 'string') {
    const normalise = NORMALISERS.get(field) ?? String
    // The gateway removes leading and trailing white space from texts.
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

/** Removes repeated entries. */
const toSet = (list: unknown[]): Set<string> => new Set(list.map((entry) => JSON.stringify(entry)))

/** The response that contains a secret: the object to print, and the success message. */
type Response = { item: object; body: object; raw: Uint8Array; done: string }

/**
 * Calls the gateway, and saves or prints the secret in its response. Opens the file of `--save-to` before the call, and
 * removes the file if the call fails. Without a file, prints only the secret to stdout. If the format has field names,
 * prints the resource with its `secret` instead. If the chosen output would lose the secret, throws a usage error
 * before the call. `call` returns undefined if it created nothing.
 */
export async function keepSecret(
  context: CliContext,
  { view, call, ...flags }: SecretFlags & { view: View; call(): Promise<Response | undefined> },
): Promise<void> {
  const [output, settings] = await Promise.all([context.output(), context.settings()])
  const { saveTo, force } = flags
  const shown = await toSecretView(context, flags, view)
  const file = saveTo === undefined || settings.dryRun ? undefined : await openSecretFile(saveTo, { force })
  const called = async () => {
    const response = await call()
    return response && { ...response, secret: secretIn(response.body, (await context.api()).baseUrl) }
  }
  const response = await called().catch(async (error: unknown) => {
    await file?.discard()
    throw error
  })
  if (response === undefined) return file?.discard()
  const { item, secret, raw, done } = response
  if (file !== undefined) {
    await file.write(secret)
    await context.note(`${done} Its secret is in ${saveTo} (mode 0600) and cannot be shown again.`)
    return showUnsaved(output, settings, item, shown)
  }
  await context.note(`${done} Its secret cannot be shown again.`)
  return output.textOrOne(`${secret}\n`, { ...item, secret }, shown, raw)
}

/**
 * Prints the resource only if the user chose an output format or fields. Otherwise prints nothing, because the secret
 * is in the file.
 */
async function showUnsaved(
  output: Output,
  { format, field, fields }: Settings,
  item: object,
  view: View,
): Promise<void> {
  if (format !== undefined || field !== undefined || fields.length > 0) await output.one(item, view)
}

/**
 * Returns the view of the result. Throws a usage error if the chosen output would lose the secret, or if a chosen field
 * is not in the view.
 */
async function toSecretView(context: CliContext, flags: SecretFlags, view: View): Promise<View> {
  const [output, settings] = await Promise.all([context.output(), context.settings()])
  assertKept(settings, flags)
  const members = view.members && [...view.members, 'secret']
  const shown = flags.saveTo === undefined && members !== undefined ? { ...view, members } : view
  if (!settings.dryRun) output.assertShowable(shown)
  return shown
}

function secretIn(body: object, baseUrl: string): string {
  const secret = findAtPath(body, 'secret')
  if (typeof secret === 'string') return secret
  throw notAGateway(EXIT.error, `${baseUrl} did not answer with a secret`, {})
}

function assertKept({ raw, field, fields, format, dryRun }: Settings, { saveTo, force }: SecretFlags): void {
  if (saveTo !== undefined) {
    if (raw) throw usageError('--raw would print the secret that --save-to writes', ['Omit one of them.'])
    return
  }
  if (force) throw usageError('--force needs --save-to')
  const isShown =
    dryRun ||
    raw ||
    (field === undefined ? format !== 'id' && (fields.length === 0 || fields.includes('secret')) : field === 'secret')
  if (!isShown) {
    throw usageError('this output omits the secret, which is shown only once', ['Keep it:  --save-to FILE'])
  }
}

const isThere = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  )
