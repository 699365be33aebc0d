import { Command } from 'commander'
import type { CliContext, CommandFactory } from '../context.ts'
import { usageError } from '../errors.ts'
import { addFields, askFields, type Field, parseFlags, resolveFlags } from '../input/fields.ts'
import { type Fields, type Members, readChanges, readFields, textIn, textsIn, withFlags } from '../input/from-file.ts'
import type { View } from '../output/formats.ts'
import { toShellWord } from '../output/shell-word.ts'
import type { Creation } from './creation.ts'
import {
  addCreateOptions,
  addFromFileOption,
  addListOptions,
  addRemoveOptions,
  addSecretOptions,
  type ListFlags,
  type RemoveFlags,
  type SecretFlags,
  toListInput,
} from './options.ts'
import type { Resource } from './resolve.ts'
import type { SecretCreation } from './shown-once.ts'

// Help and completion need flags alone, so each action loads what it does itself.
const listing = () => import('./listing.ts')
const creating = () => import('./creation.ts')
const removal = () => import('./removal.ts')
const resolving = () => import('./resolve.ts')
const secrets = () => import('./shown-once.ts')
const updating = () => import('./update.ts')

/** Looks up the id for a name or id of this resource, for flags that take one. */
export const idOf =
  <Item extends { id: string }>(resource: Resource<Item>) =>
  async (context: CliContext, given: string): Promise<string> =>
    (await resolving()).toId(context, resource, given)

/** A resource with all that its commands have in common. */
export type Described<Item extends { id: string }> = Resource<Item> & {
  /** What names one, for help texts. */
  argument: string
  view: View
  /** Of lists, where that shows less. */
  listView?: View
  /** The text as the gateway spells names. Throws a usage error for what can be no name. */
  toReference?(given: string): string
  /** A file that made one may be used to change it, so it may hold the name, but no other. */
  keepsName?: true
}

type Verb = {
  description: string
  fields?: readonly Field[]
  /** What `--from-file` may hold; without it there is no such flag. */
  file?: Members
  /** Below the flags. */
  help?: string
}

const referTo = ({ toReference }: { toReference?(given: string): string }, given: string): string =>
  toReference === undefined ? given : toReference(given)

/** `<key>` for an API key. */
const argumentOf = ({ noun }: { noun: string }): string => `<${noun.split(' ').at(-1)}>`

/** Filters as a query has them. */
export const toQuery = (filters: Fields): Record<string, string> =>
  Object.fromEntries(Object.entries(filters).map(([name, value]) => [name, String(value)]))

/** GET of the list, page by page; `fields` filter it, and `searched` says what `--search` looks at. */
export const listVerb =
  <Item extends { id: string }>(
    resource: Described<Item>,
    { description, fields = [], searched }: Verb & { searched?: string },
  ): CommandFactory =>
  (context) => {
    const { isWhole, path, listPath = path, view, listView = view } = resource
    const command = addFields(new Command('list').description(description), fields)
    if (!isWhole) addListOptions(command, searched)
    return command.action(async (flags: ListFlags) => {
      const { search, ...bounds } = isWhole ? { limit: 1, all: true } : toListInput(flags)
      const filters = await resolveFlags(context, fields, parseFlags(context, fields, command))
      const query = { search, ...toQuery(filters) }
      await (await listing()).listAll<Item>(context, { ...resource, path: listPath, query, ...bounds, view: listView })
    })
  }

/** GET of one, by id or name. Throws exit 3 when there is none. */
export const showVerb =
  <Item extends { id: string }>(resource: Described<Item>, description: string): CommandFactory =>
  (context) =>
    new Command('show')
      .description(description)
      .argument(argumentOf(resource), resource.argument)
      .action(async (text: string) => {
        const { view } = resource
        const { showItem } = await resolving()
        await showItem(context, { resource, given: referTo(resource, text), view })
      })

type Deletion = {
  description: string
  /** Where it is called otherwise. */
  name?: string
  done?: string
  question?(given: string): string
}

/** DELETE of one, after a question. Throws exit 3 when there is none, unless `--ignore-not-found`. */
export const deleteVerb =
  <Item extends { id: string }>(resource: Described<Item>, deletion: Deletion): CommandFactory =>
  (context) => {
    const { noun } = resource
    const { description, name = 'delete', question = (given) => `Delete ${noun} '${given}'?`, done } = deletion
    const command = new Command(name).description(description).argument(argumentOf(resource), resource.argument)
    return addRemoveOptions(command, noun).action(async (text: string, { ignoreNotFound }: RemoveFlags) => {
      const given = referTo(resource, text)
      const { remove } = await removal()
      await remove(context, { resource, given, ignoreNotFound, question: question(given), ...(done && { done }) })
    })
  }

type Change<Item> = {
  changes: object
  /** Members of the request that depend on what there is now. */
  complete?: ((now: Item) => object) | undefined
}

type Update<Item> = Verb & {
  /** Where a file may not repeat what only the gateway sets. */
  read?: typeof readFields
  /** What to send for what flags and file say, where that is not the same. */
  toChange?(context: CliContext, input: Fields): Change<Item> | Promise<Change<Item>>
  note?(context: CliContext, item: Item): Promise<void>
}

/** PUT of what was named, and nothing else. Throws exit 3 when there is none, and exit 2 when nothing is to change. */
export const updateVerb =
  <Item extends { id: string; name?: string }>(resource: Described<Item>, verb: Update<Item>): CommandFactory =>
  (context) => {
    const { description, fields = [], file, help, read = readChanges, toChange, note } = verb
    const command = new Command('update').description(description).argument(argumentOf(resource), resource.argument)
    addFields(command, fields)
    if (file !== undefined) addFromFileOption(command)
    if (help !== undefined) command.addHelpText('after', `\n${help}`)
    return command.action(async (text: string) => {
      const given = referTo(resource, text)
      const flags = parseFlags(context, fields, command)
      const inFile = file === undefined ? {} : await readTexts(context, command, { fields, file, read })
      const input = withFlags(inFile, await resolveFlags(context, fields, flags))
      const { name, ...others } = input
      const wanted = resource.keepsName ? others : input
      const { changes, complete }: Change<Item> =
        toChange === undefined ? { changes: wanted } : await toChange(context, wanted)
      const renamed = resource.keepsName === true ? (name ?? undefined) : undefined
      const view = resource.view
      const { update } = await updating()
      const item = await update<Item>(context, {
        resource,
        given,
        changes,
        complete:
          complete === undefined && renamed === undefined
            ? undefined
            : (now) => {
                assertSameName(resource, now, renamed)
                return complete?.(now) ?? {}
              },
        view,
      })
      await note?.(context, item)
    })
  }

function assertSameName({ noun }: { noun: string }, now: { name?: string }, name: unknown): void {
  if (name === undefined || name === now.name) return
  throw usageError(`${noun} '${now.name}' cannot be renamed to '${name}'`)
}

/** The members of the file. Throws a usage error for anything but text where only text is meant. */
async function readTexts(
  context: CliContext,
  command: Command,
  { fields, file, read }: { fields: readonly Field[]; file: Members; read: typeof readFields },
): Promise<Fields> {
  const inFile = await read(context, command.opts().fromFile, file)
  for (const { member, isText, isList, ask } of fields) {
    if (isText || ask !== undefined) inFile[member] = isList ? textsIn(inFile, member) : textIn(inFile, member)
  }
  return inFile
}

/** PUT of a state, such as `{ enabled: false }`; one that is in that state already stays in it. */
export const setVerb =
  <Item extends { id: string }>(
    resource: Described<Item>,
    {
      name,
      description,
      changes,
      note,
    }: { name: string; description: string; changes: object; note?: Update<Item>['note'] },
  ): CommandFactory =>
  (context) =>
    new Command(name)
      .description(description)
      .argument(argumentOf(resource), resource.argument)
      .action(async (given: string) => {
        const { view } = resource
        const { update } = await updating()
        const item = await update<Item>(context, { resource, given: referTo(resource, given), changes, view })
        await note?.(context, item)
      })

type Create<Item extends object> = Verb &
  Pick<Creation<Item>, 'toComparable' | 'isAboutName'> & {
    /** Throws a usage error for flags that make no sense here. */
    assertFlags?(flags: Record<string, unknown>): void
    /** The member that tells it from all others. */
    key?: string
    /** The request for what flags, file and answers say, where that is not the same. */
    toRequest?(context: CliContext, input: Fields): Fields | Promise<Fields>
    /** What `--if-not-exists` compares of the request, where that is not all of it. */
    toWanted?(request: Fields, flags: Record<string, unknown>): object
    /** The existing one; by its name by default. */
    find?(context: CliContext, key: string, request: Fields): Promise<Item | undefined>
    useIt?(name: string): string
    /** Where the answer has a secret that is shown once. */
    secret?: Pick<SecretCreation<Item>, 'done' | 'renewal' | 'toShown'>
    view?: View
    note?(context: CliContext, item: Item): Promise<void>
  }

/** POST. Throws exit 6 for a name that is taken, unless `--if-not-exists`. */
export const createVerb =
  <Item extends { id: string }>(resource: Described<Item>, verb: Create<Item>): CommandFactory =>
  (context) => {
    const { description, fields = [], file, help, secret, note, toRequest, toWanted, find, key = 'name' } = verb
    const { noun, path, itemKey, view } = resource
    const command = addFields(new Command('create').description(description), fields)
    if (secret !== undefined) addSecretOptions(command)
    addCreateOptions(command)
    if (file !== undefined) addFromFileOption(command)
    if (help !== undefined) command.addHelpText('after', `\n${help}`)
    return command.action(async () => {
      verb.assertFlags?.(command.opts())
      const flags = parseFlags(context, fields, command)
      const inFile = file === undefined ? {} : await readTexts(context, command, { fields, file, read: readFields })
      const asked = await askFields(context, fields, withFlags(inFile, flags))
      const input = withFlags(withFlags(inFile, await resolveFlags(context, fields, flags)), asked)
      const json = toRequest === undefined ? input : await toRequest(context, input)
      const name = referTo(resource, String(json[key]))
      const { ifNotExists, strict, saveTo, force } = command.opts()
      const { [key]: _, ...others } = json
      const { findNamed } = await resolving()
      const creation = {
        ...{ ifNotExists, strict, noun, itemKey, name, view: verb.view ?? view },
        ...{ toComparable: verb.toComparable, isAboutName: verb.isAboutName },
        request: { method: 'POST', path, json },
        find: () => (find === undefined ? findNamed(context, resource, name) : find(context, name, json)),
        wanted: toWanted === undefined ? others : toWanted(others, command.opts()),
        useIt: verb.useIt?.(name) ?? `aigw ${resource.command} show ${toShellWord(name)}`,
      }
      if (secret !== undefined)
        return (await secrets()).createWithSecret<Item>(context, { ...creation, ...secret, saveTo, force })
      const item = await (await creating()).createOrFind<Item>(context, creation)
      await note?.(context, item)
    })
  }

type SecretVerb<Item extends object> = {
  name: string
  description: string
  fields?: readonly Field[]
  /** What `Item` is, where it is not the resource itself. */
  made?: { itemKey: string; view: View }
  question?(given: string, json: Fields): string
  done(item: Item): string
}

/** POST to `<one>/<name>`, whose answer has a secret that is shown once. */
export const secretVerb =
  <Item extends object>(resource: Described<{ id: string }>, verb: SecretVerb<Item>): CommandFactory =>
  (context) => {
    const { name, description, fields = [], made = resource, question, done } = verb
    const command = new Command(name).description(description).argument(argumentOf(resource), resource.argument)
    return addSecretOptions(addFields(command, fields)).action(async (given: string, flags: SecretFlags) => {
      const json = parseFlags(context, fields, command)
      const [api, { dryRun }] = await Promise.all([context.api(), context.settings()])
      const [{ itemIn, itemPath, withId }, { keepSecret }] = await Promise.all([resolving(), secrets()])
      const call = async (id: string) => {
        if (question !== undefined && !dryRun) await context.confirm(question(given, json))
        const request = { method: 'POST', path: `${itemPath(resource, id)}/${name}` }
        const { body, raw } = await api.send(fields.length === 0 ? request : { ...request, json })
        const item = itemIn<Item>(body, made.itemKey, api.baseUrl)
        return { item, body, raw, done: done(item) }
      }
      await keepSecret(context, { ...flags, view: made.view, call: () => withId(context, resource, given, call) })
    })
  }
