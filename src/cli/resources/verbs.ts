/** Makes the list, show, create, update and delete commands of a resource from its description. */
import { Command } from 'commander'
import type { CliContext, CommandFactory } from '../context.ts'
import { usageError } from '../errors.ts'
import { addFields, askFields, type Field, parseFlags, resolveFlags } from '../input/fields.ts'
import { type Fields, type Members, readChanges, readFields, textIn, textsIn, withFlags } from '../input/from-file.ts'
import type { View } from '../output/formats.ts'
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
import type { Described, Resource } from './resolve.ts'

// Each action loads its code only when it runs, because help and completion need only the flags.
const listing = () => import('./listing.ts')
const creating = () => import('./creation.ts')
const changing = () => import('./changes.ts')
const resolving = () => import('./resolve.ts')

/** Returns the `resolve` function of a flag: it converts a name or id of this resource to the id. */
export const idOf =
  <Item extends { id: string }>(resource: Resource<Item>) =>
  async (context: CliContext, given: string): Promise<string> =>
    (await resolving()).toId(context, resource, given)

type Verb = {
  description: string
  fields?: readonly Field[]
  /** The members that `--from-file` may set. If this member is undefined, the command has no such flag. */
  file?: Members
  /** Printed below the flags. */
  help?: string
}

const referTo = ({ toReference }: { toReference?(given: string): string }, given: string): string =>
  toReference === undefined ? given : toReference(given)

/** Creates a command whose argument names one resource, for example `<key>` for an API key. */
const commandOn = (
  { noun, argument }: Pick<Described<{ id: string }>, 'noun' | 'argument'>,
  name: string,
  description: string,
): Command => new Command(name).description(description).argument(`<${noun.split(' ').at(-1)}>`, argument)

/** Converts filters to query parameters. */
export const toQuery = (filters: Fields): Record<string, string> =>
  Object.fromEntries(Object.entries(filters).map(([name, value]) => [name, String(value)]))

/**
 * Sends GET for the list, page by page. `fields` are its filters. `searched` names the members that `--search`
 * searches.
 */
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
      const filters = await resolveFlags(context, fields, await parseFlags(context, fields, command))
      const query = { search, ...toQuery(filters) }
      await (await listing()).listAll<Item>(context, { ...resource, path: listPath, query, ...bounds, view: listView })
    })
  }

/** Sends GET for one resource, by id or name. Throws an error with exit code 3 if it does not exist. */
export const showVerb =
  <Item extends { id: string }>(resource: Described<Item>, description: string): CommandFactory =>
  (context) =>
    commandOn(resource, 'show', description).action(async (text: string) =>
      (await resolving()).showItem(context, resource, referTo(resource, text)),
    )

type Deletion = {
  description: string
  /** `delete` by default. */
  name?: string
  /** The past participle of the verb, for messages. Default: `deleted`. */
  done?: string
  question?(given: string): string
}

/**
 * Sends DELETE for one resource, after a confirmation. Throws an error with exit code 3 if it does not exist and
 * `--ignore-not-found` is not given.
 */
export const deleteVerb =
  <Item extends { id: string }>(resource: Described<Item>, deletion: Deletion): CommandFactory =>
  (context) => {
    const { noun } = resource
    const { description, name = 'delete', question = (given) => `Delete ${noun} '${given}'?`, done } = deletion
    const command = addRemoveOptions(commandOn(resource, name, description), noun)
    return command.action(async (text: string, { ignoreNotFound }: RemoveFlags) => {
      const given = referTo(resource, text)
      const { remove } = await changing()
      await remove(context, resource, { given, ignoreNotFound, question: question(given), done })
    })
  }

type Change<Item> = {
  changes: object
  /** Returns the members of the request that depend on the current resource. */
  complete?: ((now: Item) => object) | undefined
}

type Update<Item> = Verb & {
  /**
   * The function that reads the file. Pass `readFields` if the file must not contain members that only the gateway
   * sets.
   */
  read?: typeof readFields
  /** Returns the request for the input of flags and file. By default, sends the input unchanged. */
  toChange?(context: CliContext, input: Fields): Change<Item> | Promise<Change<Item>>
  note?(context: CliContext, item: Item): Promise<void>
}

/**
 * Sends PUT with the given members. Throws an error with exit code 3 if the resource does not exist, and one with exit
 * code 2 if no change is given.
 */
export const updateVerb =
  <Item extends { id: string; name?: string }>(resource: Described<Item>, verb: Update<Item>): CommandFactory =>
  (context) => {
    const { description, fields = [], file, help, read = readChanges, toChange, note } = verb
    const command = addFields(commandOn(resource, 'update', description), fields)
    if (file !== undefined) addFromFileOption(command)
    if (help !== undefined) command.addHelpText('after', `\n${help}`)
    return command.action(async (text: string) => {
      const given = referTo(resource, text)
      const flags = await parseFlags(context, fields, command)
      const inFile = file === undefined ? {} : await readTexts(context, command, { fields, file, read })
      const input = withFlags(inFile, await resolveFlags(context, fields, flags))
      const { name, ...others } = input
      const wanted = resource.keepsName ? others : input
      const { changes, complete }: Change<Item> =
        toChange === undefined ? { changes: wanted } : await toChange(context, wanted)
      const renamed = resource.keepsName === true ? (name ?? undefined) : undefined
      const completeSameName = (now: Item) => {
        if (renamed !== undefined && renamed !== now.name)
          throw usageError(`${resource.noun} '${now.name}' cannot be renamed to '${renamed}'`)
        return complete?.(now) ?? {}
      }
      const mustRead = complete !== undefined || renamed !== undefined
      const { update } = await changing()
      const item = await update(context, resource, {
        given,
        changes,
        complete: mustRead ? completeSameName : undefined,
      })
      await note?.(context, item)
    })
  }

/** Reads the members of the file. Throws a usage error if a text field has a value of another type. */
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

type StateChange<Item> = Pick<Update<Item>, 'description' | 'note'> & { name: string; changes: object }

/** Sends PUT with a fixed body, such as `{ enabled: false }`. Running the command again changes nothing. */
export const setVerb =
  <Item extends { id: string }>(
    resource: Described<Item>,
    { name, description, changes, note }: StateChange<Item>,
  ): CommandFactory =>
  (context) =>
    commandOn(resource, name, description).action(async (given: string) => {
      const { update } = await changing()
      const item = await update<Item>(context, resource, { given: referTo(resource, given), changes })
      await note?.(context, item)
    })

type Create<Item extends object> = Verb &
  Creation<Item> & {
    /** `create` by default. */
    name?: string
    /** Throws a usage error for a flag that this resource does not allow. */
    assertFlags?(flags: Record<string, unknown>): void
    /** The member that identifies the resource. Defaults to `name`. */
    key?: string
    /** Returns the request for the input of flags, file and prompts. By default, sends the input unchanged. */
    toRequest?(context: CliContext, input: Fields): Fields | Promise<Fields>
  }

/** POST. Throws an error with exit code 6 if the name is taken and `--if-not-exists` is not given. */
export const createVerb =
  <Item extends { id: string }>(resource: Described<Item>, verb: Create<Item>): CommandFactory =>
  (context) => {
    const { description, fields = [], file, help, toRequest, key = 'name' } = verb
    const command = addFields(new Command(verb.name ?? 'create').description(description), fields)
    if (verb.secret !== undefined) addSecretOptions(command)
    addCreateOptions(command)
    if (file !== undefined) addFromFileOption(command)
    if (help !== undefined) command.addHelpText('after', `\n${help}`)
    return command.action(async () => {
      verb.assertFlags?.(command.opts())
      const flags = await parseFlags(context, fields, command)
      const inFile = file === undefined ? {} : await readTexts(context, command, { fields, file, read: readFields })
      const asked = await askFields(context, fields, withFlags(inFile, flags))
      const input = withFlags(withFlags(inFile, await resolveFlags(context, fields, flags)), asked)
      const json = toRequest === undefined ? input : await toRequest(context, input)
      const name = referTo(resource, String(json[key]))
      await (await creating()).create<Item>(context, resource, verb, { json, key, name, flags: command.opts() })
    })
  }

type SecretVerb<Item extends object> = {
  name: string
  description: string
  fields?: readonly Field[]
  /** The kind of `Item`, if `Item` is not the resource itself. */
  made?: { itemKey: string; view: View }
  question?(given: string, json: Fields): string
  done(item: Item): string
}

/** Sends POST to the route `<name>` of one resource. The response contains a secret that is shown only once. */
export const secretVerb =
  <Item extends object>(resource: Described<{ id: string }>, verb: SecretVerb<Item>): CommandFactory =>
  (context) => {
    const { name, description, fields = [], made = resource, question, done } = verb
    const command = addSecretOptions(addFields(commandOn(resource, name, description), fields))
    return command.action(async (given: string, flags: SecretFlags) => {
      const json = await parseFlags(context, fields, command)
      const [api, { dryRun }] = await Promise.all([context.api(), context.settings()])
      const [{ itemIn, itemPath, withId }, { keepSecret }] = await Promise.all([resolving(), creating()])
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
