import { type Command, Option } from 'commander'
import type { CliContext } from '../context.ts'
import { usageError } from '../errors.ts'
import { findAtPath } from '../output/formats.ts'
import { type Fields, withFlags } from './from-file.ts'
import { repeatable } from './repeatable.ts'

/** One flag or argument of a command, and the member of the request that it sets. */
export type Field = {
  /** A member, or the path of one in an object: `rateLimit.requestsPerMinute`. */
  member: string
  /** As commander spells it: `-d, --description <text>`, `--no-shield`, or `[name]` for an argument. */
  flag: string
  help: string
  choices?: readonly string[]
  /** What is typed by default. */
  initially?: string
  /** May be given several times. The list replaces the one that is there. */
  isList?: true
  /** Attributes of flags that may not stand on the same line. */
  conflicts?: string | string[]
  /** The member for what was typed. Throws a usage error that names the flag. */
  parse?: (text: string, flag: string, context: CliContext) => unknown
  /** What a flag without a value sets; by default its member, to false for `--no-…` and else to true. */
  sets?: object
  /** Looks up what was typed, such as the id of a user, once everything else is known to be valid. */
  resolve?: (context: CliContext, text: string) => Promise<unknown>
  /** What a person at the terminal is asked when neither flag nor file has it. Without a terminal it is a usage error. */
  ask?: string
  /** A file may give only text for this member, or with `isList` a list of texts. */
  isText?: true
}

const isArgument = ({ flag }: Field): boolean => !flag.startsWith('-')

function toOption({ flag, help, choices, initially, isList, conflicts }: Field): Option {
  const option = new Option(flag, help)
  if (choices !== undefined) option.choices(choices)
  if (initially !== undefined) option.default(initially)
  if (conflicts !== undefined) option.conflicts(conflicts)
  return isList ? repeatable(option) : option
}

/** Adds the flags and arguments in their order. `--x` and `--no-x` on one line are a usage error. */
export function addFields(command: Command, fields: readonly Field[]): Command {
  for (const field of fields) {
    if (isArgument(field)) command.argument(field.flag, field.help)
    else command.addOption(toOption(field))
  }
  const names = command.options.flatMap(({ long }) => long?.slice(2) ?? [])
  for (const name of names) if (names.includes(`no-${name}`)) exclusive(command, name)
  return command
}

/** Makes `--<name>` and `--no-<name>` on one line a usage error, where commander would let the later one win. */
export function exclusive(command: Command, name: string): void {
  const given = new Set<string>()
  for (const flag of [name, `no-${name}`]) {
    command.on(`option:${flag}`, () => {
      if (given.add(flag).size === 2) throw usageError(`--${name} and --no-${name} contradict each other`)
    })
  }
}

/** What was typed for each field; undefined where nothing was. */
function typedFor(field: Field, fields: readonly Field[], command: Command): unknown {
  if (isArgument(field)) return command.processedArgs[fields.filter(isArgument).indexOf(field)]
  const option = toOption(field)
  const value: unknown = command.opts()[option.attributeName()]
  if (option.negate) return value === false ? false : undefined
  return value === false || (Array.isArray(value) && value.length === 0) ? undefined : value
}

/** The members that flags and arguments set. Throws usage errors before anything is asked or sent. */
export function parseFlags(context: CliContext, fields: readonly Field[], command: Command): Fields {
  let members: Fields = {}
  for (const field of fields) {
    const typed = typedFor(field, fields, command)
    if (typed === undefined) continue
    const name = labelOf(field)
    const parse = (text: unknown) => (field.parse === undefined ? text : field.parse(String(text), name, context))
    const value = Array.isArray(typed) ? [...new Set(typed.map(parse))] : parse(typed)
    members = withFlags(
      members,
      typeof typed === 'boolean' ? (field.sets ?? nest(field.member, typed)) : nest(field.member, value),
    )
  }
  return members
}

/** How error messages call it: `NAME` or `--description`. */
const labelOf = (field: Field): string =>
  isArgument(field) ? field.flag.replace(/[[\]<>.]/g, '').toUpperCase() : (toOption(field).long ?? field.flag)

const nest = (path: string, value: unknown): Fields =>
  path.split('.').reduceRight<Fields>((inner, name, at, all) => ({ [name]: at === all.length - 1 ? value : inner }), {})

/** The same members with ids for names. Throws exit 3 for a name that nothing has. */
export async function resolveFlags(context: CliContext, fields: readonly Field[], members: Fields): Promise<Fields> {
  const resolved = { ...members }
  for (const { member, resolve } of fields) {
    const text = members[member]
    if (resolve !== undefined && typeof text === 'string') resolved[member] = await resolve(context, text)
  }
  return resolved
}

/** Asks for each member that is missing; the answer is treated as if it had been typed. */
export async function askFields(context: CliContext, fields: readonly Field[], known: Fields): Promise<Fields> {
  let members: Fields = {}
  for (const field of fields) {
    const { member, ask, parse } = field
    if (ask === undefined) continue
    const value = findAtPath(known, member)
    const flag = labelOf(field)
    const { askMissing } = await import('./prompt.ts')
    const text = await askMissing(context, { flag, message: ask }, typeof value === 'string' ? value : undefined)
    members = withFlags(members, nest(member, parse === undefined ? text : parse(text, flag, context)))
  }
  return members
}
