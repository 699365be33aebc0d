/** Reads and changes the configuration files and the stored keys. */
import { mkdir, open, readFile, realpath, rename, stat, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { isErrno, unreadable, unwritable, usageError } from '../errors.ts'
import type { Io } from '../io.ts'

export type ChatDefaults = { model?: string; index?: string; policy?: string }

export type ProfileEntry = {
  base_url?: string
  /** A command that prints the key to stdout. A string is run in a shell, and a list is run without a shell. */
  key_command?: string | string[]
  chat?: ChatDefaults
}

/** The format of the user's `config.yaml` and of `/etc/aigw/cli.yaml`. */
export type ConfigFile = {
  current_profile?: string
  output?: string
  color?: string
  timeout?: string
  retries?: number
  chat?: ChatDefaults
  profiles?: Record<string, ProfileEntry>
}

/** Keys by profile. Each key is sent only to the origin that is stored with it. */
export type Credentials = Record<string, { origin: string; key: string }>

/** Returns the entry with this name. Inherited properties are ignored. */
export const entryOf = <Entry>(entries: Record<string, Entry> | undefined, name: string): Entry | undefined =>
  entries !== undefined && Object.hasOwn(entries, name) ? entries[name] : undefined

export const SYSTEM_CONFIG = '/etc/aigw/cli.yaml'

type Check = (value: unknown, at: string) => void

const text: Check = (value, at) => {
  if (typeof value !== 'string') throw new Error(`${at} must be text`)
}
const wholeNumber: Check = (value, at) => {
  if (!Number.isInteger(value)) throw new Error(`${at} must be a whole number`)
}
const textOrList: Check = (value, at) => {
  const items: unknown[] = Array.isArray(value) && value.length > 0 ? value : [value]
  if (!items.every((item) => typeof item === 'string'))
    throw new Error(`${at} must be a command line or a list of words`)
}
const mapOf =
  (check: Check): Check =>
  (value, at) => {
    for (const [name, entry] of entriesOf(value, at)) check(entry, `${at}.${name}`)
  }
const members =
  (checks: Record<string, Check>): Check =>
  (value, at) => {
    for (const [name, entry] of entriesOf(value, at)) {
      const path = at === '' ? name : `${at}.${name}`
      const check = entryOf(checks, name)
      if (check === undefined)
        throw new Error(`${path} is not a known setting (known: ${Object.keys(checks).join(', ')})`)
      check(entry, path)
    }
  }

function entriesOf(value: unknown, at: string): [string, unknown][] {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return Object.entries(value)
  throw new Error(`${at === '' ? 'the file' : at} must be a map of names to values`)
}

const chatDefaults = members({ model: text, index: text, policy: text })
const configFile = members({
  current_profile: text,
  output: text,
  color: text,
  timeout: text,
  retries: wholeNumber,
  chat: chatDefaults,
  profiles: mapOf(members({ base_url: text, key_command: textOrList, chat: chatDefaults })),
})
const credentialsFile = members({ keys: mapOf(members({ origin: text, key: text })) })

/**
 * Returns the folder of the user's files: `$XDG_CONFIG_HOME/aigw`, by default `~/.config/aigw` (XDG Base Directory).
 */
function configDir(env: Io['env']): string {
  const base = env.XDG_CONFIG_HOME
  // Ignores a relative path, as the specification requires.
  if (base?.startsWith('/')) return join(base, 'aigw')
  return join(env.HOME ?? '/', '.config', 'aigw')
}

export const configPath = (env: Io['env']): string => join(configDir(env), 'config.yaml')
export const credentialsPath = (env: Io['env']): string => join(configDir(env), 'credentials.yaml')

/**
 * Reads all three files, or the other two without the user's configuration. A missing file counts as empty. If a setting is invalid, throws a usage error that names the
 * file and the setting.
 */
export async function loadConfigFiles(
  io: Io,
  { without }: { without?: 'user' } = {},
): Promise<{ user: ConfigFile; system: ConfigFile; credentials: Credentials }> {
  const [user, system, keys] = await Promise.all([
    without === 'user' ? undefined : readYaml<ConfigFile>(configPath(io.env), configFile),
    readYaml<ConfigFile>(SYSTEM_CONFIG, configFile),
    readYaml<{ keys?: Credentials }>(credentialsPath(io.env), credentialsFile),
  ])
  return { user: user ?? {}, system: system ?? {}, credentials: keys?.keys ?? {} }
}

/** Whether the mode of the file lets other users read the stored keys. */
export const areCredentialsExposed = (env: Io['env']): Promise<boolean> => isExposed(credentialsPath(env))

/** Whether the mode of a file lets other users read it. False for pipes, whose mode has no meaning. */
export async function isExposed(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => undefined)
  return found?.isFile() === true && (found.mode & 0o077) !== 0
}

async function readYaml<Content>(path: string, check: Check): Promise<Content | undefined> {
  const source = await readFile(path, 'utf8').catch((error: unknown) => {
    if (isErrno(error) && (error.code === 'ENOENT' || error.code === 'ENOTDIR')) return undefined
    throw unreadable(path, error)
  })
  if (source === undefined) return undefined
  const { parse } = await import('yaml')
  try {
    const content = parse(source) ?? {}
    check(content, '')
    return content
  } catch (error) {
    const [reason] = (error instanceof Error ? error.message : String(error)).split('\n')
    throw usageError(`${path}: ${reason}`, ['Correct the file, or remove it to start with defaults.'])
  }
}

/** One change of a YAML file: the new value at a path, or undefined to remove the current value. */
type Edit = { path: string[]; value: unknown }

/**
 * Changes single values of the user's configuration. Comments, other values and the file mode stay. Throws an error
 * with exit code 1 on failure.
 */
export const editConfig = (env: Io['env'], edits: Edit[]): Promise<void> => editYaml(configPath(env), edits, undefined)

/** Changes single values of the stored keys. The file always has mode 0600. */
export const editCredentials = (env: Io['env'], edits: Edit[]): Promise<void> =>
  editYaml(credentialsPath(env), edits, 0o600)

async function editYaml(path: string, edits: Edit[], mode: number | undefined): Promise<void> {
  const { parseDocument } = await import('yaml')
  const source = await readFile(path, 'utf8').catch((error: unknown) => {
    if (isErrno(error) && error.code === 'ENOENT') return ''
    throw unwritable(path, error)
  })
  const document = parseDocument(source)
  for (const { path: at, value } of edits) {
    if (value !== undefined) document.setIn(at, value)
    else if (document.hasIn(at)) document.deleteIn(at)
  }
  await writeText(path, String(document), mode)
}

/** Replaces a text file. Keeps the owner, the group and the mode of an existing file, unless `mode` is given. Throws an error with exit code 1. */
export async function writeText(path: string, text: string, mode?: number): Promise<void> {
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 })
    // If the path is a link, replaces the link's target and keeps the link.
    const target = await realpath(path).catch(() => path)
    const found = await stat(target).catch(() => undefined)
    await replaceFile(target, text, mode ?? (found === undefined ? 0o644 : found.mode & 0o777), found)
  } catch (error) {
    throw unwritable(path, error)
  }
}

/** Validates the content of a `config.yaml`. Throws an error that names the invalid setting. */
export function toConfigFile(content: unknown): ConfigFile {
  configFile(content, '')
  return content as ConfigFile
}

/**
 * Replaces a file atomically. After a crash, the file contains either the old or the new content. With `owner`, the new
 * file belongs to that user and group; otherwise a gateway could no longer read what root has changed.
 */
export async function replaceFile(
  path: string,
  content: string,
  mode: number,
  owner?: { uid: number; gid: number },
): Promise<void> {
  const draft = `${path}.${process.pid}.new`
  const file = await open(draft, 'wx', mode)
  try {
    const own = await file.stat()
    if (owner !== undefined && (owner.uid !== own.uid || owner.gid !== own.gid)) await file.chown(owner.uid, owner.gid)
    // `chmod` is needed because the umask restricts the mode that `open` sets.
    await file.chmod(mode)
    await file.writeFile(content)
    await file.sync()
    await file.close()
    await rename(draft, path)
  } catch (error) {
    await file.close().catch(() => {})
    await unlink(draft).catch(() => {})
    throw error
  }
}
