/** Resolves every setting from flags, environment and configuration. */

import { parseUrl } from '../../shared/url.ts'
import { usageError } from '../errors.ts'
import { getDuration } from '../input/duration.ts'
import { FORMATS, type Format, type GlobalFlags } from '../input/global-flags.ts'
import type { Io } from '../io.ts'
import {
  type ChatDefaults,
  type ConfigFile,
  type Credentials,
  entryOf,
  loadConfigFiles,
  type ProfileEntry,
} from './config-files.ts'

export const DEFAULT_BASE_URL = 'http://127.0.0.1:8787'
const DEFAULT_PROFILE = 'default'
const DEFAULT_RETRIES = 2
const MOST_RETRIES = 10

/** The source of the key. The key itself is read only when a request needs it. */
/** `overrides`: the profile has a stored key for this gateway too, which is not used. */
type KeySource =
  | { kind: 'value'; value: string; from: 'AIGW_API_KEY' | 'profile'; overrides?: boolean }
  | { kind: 'file'; path: string; from: '--api-key-file' | 'AIGW_API_KEY_FILE'; overrides?: boolean }
  | { kind: 'command'; command: string | string[] }
  /** `why` is set if a key exists but belongs to another gateway. */
  | { kind: 'none'; why?: string }

/** The settings of one run. */
export type Settings = {
  profile: string
  /** An http or https URL without trailing slash and without credentials. */
  baseUrl: string
  key: KeySource
  chat: ChatDefaults
  format: Format | undefined
  fields: string[]
  field: string | undefined
  raw: boolean
  headers: boolean
  quiet: boolean
  verbose: boolean
  debug: boolean
  yes: boolean
  /** The value is false with --no-input or AIGW_NO_INPUT. Prompts also need terminals. */
  mayPrompt: boolean
  dryRun: boolean
  color: string | undefined
  /** The pager's command line, if one is set. */
  pager: string | undefined
  /** The timeout of ordinary calls, from --timeout or the configuration. */
  timeoutMs: number | undefined
  /** The timeout of model answers and uploads. It can be set by --timeout, but not in the configuration. */
  timeoutFlagMs: number | undefined
  retries: number
}

export type SettingsInput = {
  flags: GlobalFlags
  env: Record<string, string | undefined>
  user: ConfigFile
  system: ConfigFile
  credentials: Credentials
}

/** Returns the name of the profile from the flag, the environment or the configuration. Defaults to `default`. */
const profileNameOf = ({ flags, env, user, system }: Omit<SettingsInput, 'credentials'>): string =>
  flags.profile ?? filled(env.AIGW_PROFILE) ?? user.current_profile ?? system.current_profile ?? DEFAULT_PROFILE

/**
 * Resolves every setting: flag > environment > user config > system config > default. Throws a usage error if a value
 * is invalid. Also throws a usage error if the profile is unknown and `mayBeNew` is not set. The commands `login` and
 * `profiles` set `mayBeNew`.
 */
export function resolveSettings(input: SettingsInput, { mayBeNew }: { mayBeNew: boolean }): Settings {
  const { flags, env, user, system } = input
  const profile = profileNameOf(input)
  const entry = mergeEntries(entryOf(system.profiles, profile), entryOf(user.profiles, profile))
  if (entry === undefined && profile !== DEFAULT_PROFILE && !mayBeNew) {
    const known = [...new Set([...Object.keys(user.profiles ?? {}), ...Object.keys(system.profiles ?? {})])]
    throw usageError(`there is no profile '${profile}'`, [
      `Profiles:  ${known.join(', ') || 'none yet'}`,
      `Create it: aigw login --profile ${profile} --base-url URL`,
    ])
  }
  const ownUrl = entry?.base_url === undefined ? DEFAULT_BASE_URL : toBaseUrl(entry.base_url, `profile '${profile}'`)
  const givenUrl = flags.baseUrl ?? filled(env.AIGW_BASE_URL)
  const baseUrl =
    givenUrl === undefined ? ownUrl : toBaseUrl(givenUrl, flags.baseUrl === undefined ? 'AIGW_BASE_URL' : '--base-url')

  const timeoutFlagMs = toTimeout(flags.timeout, '--timeout')
  return {
    profile,
    baseUrl,
    key: chooseKey(input, { profile, entry, ownUrl, baseUrl }),
    chat: { ...system.chat, ...user.chat, ...entry?.chat },
    format: chooseFormat(input),
    fields: splitList(flags.fields),
    field: flags.field,
    raw: flags.raw === true,
    headers: flags.headers !== false,
    quiet: flags.quiet === true,
    verbose: flags.verbose === true,
    debug: flags.debug === true || env.AIGW_DEBUG === 'api',
    yes: flags.yes === true,
    mayPrompt: flags.input !== false && filled(env.AIGW_NO_INPUT) === undefined,
    dryRun: flags.dryRun === true,
    color: flags.color ?? user.color ?? system.color,
    pager: flags.pager === false ? undefined : (filled(env.AIGW_PAGER) ?? filled(env.PAGER)),
    timeoutMs: timeoutFlagMs ?? toTimeout(user.timeout ?? system.timeout, 'timeout in the configuration'),
    timeoutFlagMs,
    retries: toRetries(flags.retries ?? user.retries ?? system.retries ?? DEFAULT_RETRIES),
  }
}

/** Reads the configuration files and resolves the settings. */
export async function loadSettings(flags: GlobalFlags, io: Io, options: { mayBeNew: boolean }): Promise<Settings> {
  const files = await loadConfigFiles(io)
  return resolveSettings({ flags, env: io.env, ...files }, options)
}

/** Validates a gateway address and removes a trailing slash or `/api/external`. */
export function toBaseUrl(text: string, from: string): string {
  const url = parseUrl(text)
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw usageError(`${from} is not an address: '${text}'`, ['Write it like http://127.0.0.1:8787.'])
  }
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    throw usageError(`${from} may contain only scheme, host, port and path`, ['Save keys with:  aigw login'])
  }
  return `${url.origin}${url.pathname.replace(/\/+$/, '').replace(/\/api\/external$/, '')}`
}

type Chosen = { profile: string; entry: ProfileEntry | undefined; ownUrl: string; baseUrl: string }

/** Never chooses a key that is stored for another gateway, regardless of the flags. */
function chooseKey({ flags, env, credentials }: SettingsInput, { profile, entry, ownUrl, baseUrl }: Chosen): KeySource {
  const { origin } = new URL(baseUrl)
  const stored = entryOf(credentials, profile)
  const overrides = stored?.origin === origin
  if (flags.apiKeyFile !== undefined) return { kind: 'file', path: flags.apiKeyFile, from: '--api-key-file', overrides }
  const value = filled(env.AIGW_API_KEY)
  if (value !== undefined) return { kind: 'value', value, from: 'AIGW_API_KEY', overrides }
  const path = filled(env.AIGW_API_KEY_FILE)
  if (path !== undefined) return { kind: 'file', path, from: 'AIGW_API_KEY_FILE', overrides }

  const bound = (owner: string): KeySource => ({
    kind: 'none',
    why: `The key of profile '${profile}' belongs to ${owner} and is not sent to ${origin}.`,
  })
  if (entry?.key_command !== undefined) {
    const owner = new URL(ownUrl).origin
    return owner === origin ? { kind: 'command', command: entry.key_command } : bound(owner)
  }
  if (stored === undefined) return { kind: 'none' }
  return stored.origin === origin ? { kind: 'value', value: stored.key, from: 'profile' } : bound(stored.origin)
}

function chooseFormat({ flags, env, user, system }: SettingsInput): Format | undefined {
  if (flags.json === true && flags.output !== undefined && flags.output !== 'json') {
    throw usageError(`--json and -o ${flags.output} contradict each other`)
  }
  const text = flags.json === true ? 'json' : (flags.output ?? filled(env.AIGW_OUTPUT) ?? user.output ?? system.output)
  const format = FORMATS.find((known) => known === text)
  if (text !== undefined && format === undefined) {
    throw usageError(`'${text}' is not an output format`, [`Formats:  ${FORMATS.join(', ')}`])
  }
  return format
}

function toTimeout(text: string | undefined, from: string): number | undefined {
  if (text === undefined) return undefined
  const timeoutMs = getDuration(text, from)
  if (timeoutMs === 0) throw usageError(`${from} must be greater than 0`)
  return timeoutMs
}

function toRetries(value: string | number): number {
  const retries = Number(value)
  if (value !== '' && Number.isInteger(retries) && retries >= 0 && retries <= MOST_RETRIES) return retries
  throw usageError(`--retries must be a whole number from 0 to ${MOST_RETRIES}, not '${value}'`)
}

const splitList = (text: string | undefined): string[] =>
  text === undefined
    ? []
    : text
        .split(',')
        .map((name) => name.trim())
        .filter((name) => name !== '')

const filled = (value: string | undefined): string | undefined => (value === '' ? undefined : value)

function mergeEntries(system: ProfileEntry | undefined, user: ProfileEntry | undefined): ProfileEntry | undefined {
  if (system === undefined || user === undefined) return user ?? system
  return { ...system, ...user, chat: { ...system.chat, ...user.chat } }
}
