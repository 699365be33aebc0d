/** Reads the fields of a resource from a JSON or YAML file. */
import { readFile, stat } from 'node:fs/promises'
import type { CliContext } from '../context.ts'
import { unreadable, usageError } from '../errors.ts'
import { readStdin } from '../io.ts'

/**
 * Maximum file size. This limit exceeds the gateway's own limit, so the gateway can reject a file that is too large and
 * report its own limit.
 */
const FILE_BYTES = 4_194_304

export type Fields = Record<string, unknown>

/**
 * The members of a resource. Each value states whether a file is allowed to set the member. For an object member, the
 * value lists its settable members. Views use the same member names.
 */
export type Members<Name extends string = string> = Readonly<Record<Name, boolean | readonly string[]>>

/**
 * Reads the members of the object in a JSON or YAML file (`-` for stdin). Empty without a file. The gateway validates
 * the values. Throws a usage error if the content is not an object, or if it has a member that a file must not set.
 */
export async function readFields(context: CliContext, file: string | undefined, members: Members): Promise<Fields> {
  if (file === undefined) return {}
  const where = file === '-' ? 'stdin' : file
  const content = await parse(await readSource(context, file), where)
  const allowed = Object.keys(members).filter((name) => members[name] !== false)
  if (!isObject(content)) throw usageError(`${where} must contain one object`, [`Its members:  ${allowed.join(', ')}`])
  await assertKnown(Object.keys(content), allowed, where)
  for (const [name, value] of Object.entries(content)) {
    const inner = members[name]
    if (typeof inner === 'object' && isObject(value)) await assertKnown(Object.keys(value), inner, `${where}: ${name}`)
  }
  return { ...content }
}

/**
 * Like `readFields`, for an update. Users may edit the output of `show -o json` and send it back, so the file may
 * contain members that only the gateway sets. The gateway rejects changes to those members.
 */
export const readChanges = (context: CliContext, file: string | undefined, members: Members): Promise<Fields> =>
  readFields(context, file, Object.fromEntries(Object.entries(members).map(([name, inner]) => [name, inner || true])))

/** Whether the value is an object. Lists do not count as objects. */
export const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

async function assertKnown(names: string[], allowed: readonly string[], where: string): Promise<void> {
  const unknown = names.find((name) => !allowed.includes(name))
  if (unknown === undefined) return
  const { findNearestName } = await import('../../shared/nearest-name.ts')
  const nearest = findNearestName(unknown, allowed)
  const hints = [`Members:  ${allowed.join(', ')}`]
  if (nearest !== undefined) hints.unshift(`Did you mean '${nearest}'?`)
  throw usageError(`${where}: unknown member '${unknown}'`, hints)
}

/** Merges flags into the fields of a file, recursively. Flags override the file. Undefined flags change nothing. */
export function withFlags(fields: object, flags: object): Fields {
  const merged: Fields = { ...fields }
  for (const [name, value] of Object.entries(flags)) {
    const below = merged[name]
    if (isObject(value)) merged[name] = withFlags(isObject(below) ? below : {}, value)
    else if (value !== undefined) merged[name] = value
  }
  return merged
}

async function readSource({ io }: CliContext, file: string): Promise<string> {
  if (file === '-') return (await readStdin(io, FILE_BYTES, 'the object')).toString()
  try {
    const { size } = await stat(file)
    if (size <= FILE_BYTES) return await readFile(file, 'utf8')
  } catch (error) {
    throw unreadable(file, error)
  }
  throw usageError(`${file} is longer than ${FILE_BYTES} bytes`)
}

async function parse(source: string, where: string): Promise<unknown> {
  const { parse: parseYaml } = await import('yaml')
  try {
    // JSON is a subset of YAML.
    return parseYaml(source)
  } catch (error) {
    const [reason] = (error instanceof Error ? error.message : String(error)).split('\n')
    throw usageError(`${where} is neither JSON nor YAML (${reason})`)
  }
}

/** Returns the text of a member. Throws a usage error for another type. */
export function textIn(fields: Fields, name: string): string | undefined {
  const value = fields[name]
  if (value === undefined || value === null) return undefined
  if (typeof value === 'string') return value
  throw usageError(`'${name}' in the file must be text`, ['Put it in quotes.'])
}

/** Returns the list of texts of a member. Throws a usage error for another type. */
export function textsIn(fields: Fields, name: string): string[] | undefined {
  const value = fields[name]
  if (value === undefined || value === null) return undefined
  const isText = (entry: unknown): entry is string => typeof entry === 'string'
  if (Array.isArray(value) && value.every(isText)) return value
  throw usageError(`'${name}' in the file must be a list of texts`)
}
