/** Flags and arguments that set members of a request. */
import { type Command, Option } from 'commander'
import type { CliContext } from '../context.ts'
import { usageError } from '../errors.ts'
import { findAtPath } from '../output/formats.ts'
import { type Fields, withFlags } from './from-file.ts'
import { nameMembers } from './member-flags.ts'
import { repeatable } from './repeatable.ts'

/** One flag or argument of a command, and the member of the request that it sets. */
export type Field = {
  /** The path of the member: `name`, or `rateLimit.requestsPerMinute`. */
  member: string
  /** The flag or argument in commander's syntax: `-d, --description <text>`, `--no-shield`, or `[name]`. */
  flag: string
  help: string
  choices?: readonly string[]
  /** The default value, written as the user would type it. */
  initially?: string
  /** The flag is repeatable. The values from the command line replace the current list. */
  isList?: true
  /** Attribute names of the flags that cannot be combined with this flag. */
  conflicts?: string | string[]
  /**
   * Converts the typed text to the value of the member, or to a promise of that value. Throws a usage error that names
   * the flag.
   */
  parse?: (text: string, flag: string, context: CliContext) => unknown
  /**
   * The members that a flag without a value sets. By default, the flag sets its member to true. A `--no-…` flag sets
   * its member to false.
   */
  sets?: object
  /** Looks up the typed text, such as the id of a user. Runs after all other flags have been validated. */
  resolve?: (context: CliContext, text: string) => Promise<unknown>
  /**
   * The prompt that is shown if neither a flag nor a file sets the member. Without a terminal, a missing member is a
   * usage error.
   */
  ask?: string
  /** If true, the member must be a text in a file. With `isList`, the member must be a list of texts. */
  isText?: true
}

/** Creates a field. The three required members are separate parameters. */
export const field = (
  member: string,
  flag: string,
  help: string,
  more: Omit<Field, 'member' | 'flag' | 'help'> = {},
): Field => ({ member, flag, help, ...more })

const isArgument = ({ flag }: Field): boolean => !flag.startsWith('-')

function toOption({ flag, help, choices, initially, isList, conflicts }: Field): Option {
  const option = new Option(flag, help)
  if (choices !== undefined) option.choices(choices)
  if (initially !== undefined) option.default(initially)
  if (conflicts !== undefined) option.conflicts(conflicts)
  return isList ? repeatable(option) : option
}

/** Adds the flags and arguments in the given order. `--x` together with `--no-x` is a usage error. */
export function addFields(command: Command, fields: readonly Field[]): Command {
  for (const field of fields) {
    if (isArgument(field)) command.argument(field.flag, field.help)
    else command.addOption(toOption(field))
  }
  nameMembers(command, Object.fromEntries(fields.map((field) => [field.member, labelOf(field)])))
  const names = command.options.flatMap(({ long }) => long?.slice(2) ?? [])
  for (const name of names) if (names.includes(`no-${name}`)) exclusive(command, name)
  return command
}

/**
 * Makes `--<name>` together with `--no-<name>` a usage error. Without this rule, commander would silently apply only
 * the last of the two flags.
 */
function exclusive(command: Command, name: string): void {
  const given = new Set<string>()
  for (const flag of [name, `no-${name}`]) {
    command.on(`option:${flag}`, () => {
      if (given.add(flag).size === 2) throw usageError(`--${name} and --no-${name} contradict each other`)
    })
  }
}

/** Returns the typed value of a field, or undefined if no value was typed. */
function typedFor(field: Field, fields: readonly Field[], command: Command): unknown {
  if (isArgument(field)) return command.processedArgs[fields.filter(isArgument).indexOf(field)]
  const option = toOption(field)
  const value: unknown = command.opts()[option.attributeName()]
  if (option.negate) return value === false ? false : undefined
  return value === false || (Array.isArray(value) && value.length === 0) ? undefined : value
}

/**
 * Returns the members that flags and arguments set. Runs before any prompt or request, and throws a usage error for an
 * invalid value.
 */
export async function parseFlags(context: CliContext, fields: readonly Field[], command: Command): Promise<Fields> {
  let members: Fields = {}
  for (const field of fields) {
    const typed = typedFor(field, fields, command)
    if (typed === undefined) continue
    const name = labelOf(field)
    const parse = (text: unknown) => (field.parse === undefined ? text : field.parse(String(text), name, context))
    const value = Array.isArray(typed) ? [...new Set(await Promise.all(typed.map(parse)))] : await parse(typed)
    members = withFlags(
      members,
      typeof typed === 'boolean' ? (field.sets ?? nest(field.member, typed)) : nest(field.member, value),
    )
  }
  return members
}

/** Returns the name of a field in error messages: `NAME` or `--description`. */
const labelOf = (field: Field): string =>
  isArgument(field) ? field.flag.replace(/[[\]<>.]/g, '').toUpperCase() : (toOption(field).long ?? field.flag)

const nest = (path: string, value: unknown): Fields =>
  path.split('.').reduceRight<Fields>((inner, name, at, all) => ({ [name]: at === all.length - 1 ? value : inner }), {})

/** Replaces each name in the members by its id. Throws an error with exit code 3 for an unknown name. */
export async function resolveFlags(context: CliContext, fields: readonly Field[], members: Fields): Promise<Fields> {
  const resolved = { ...members }
  for (const { member, resolve } of fields) {
    const text = members[member]
    if (resolve !== undefined && typeof text === 'string') resolved[member] = await resolve(context, text)
  }
  return resolved
}

/** Prompts for each missing member. Handles each answer like a value from the command line. */
export async function askFields(context: CliContext, fields: readonly Field[], known: Fields): Promise<Fields> {
  let members: Fields = {}
  for (const field of fields) {
    const { member, ask, parse } = field
    if (ask === undefined) continue
    const value = findAtPath(known, member)
    const flag = labelOf(field)
    const { askMissing } = await import('./prompt.ts')
    const text = await askMissing(context, { flag, message: ask }, typeof value === 'string' ? value : undefined)
    members = withFlags(members, nest(member, parse === undefined ? text : await parse(text, flag, context)))
  }
  return members
}
