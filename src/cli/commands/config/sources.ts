/** The sources of one setting in their order of precedence, for `config explain`. */
import type { CliContext } from '../../context.ts'
import type { GlobalFlags } from '../../input/global-flags.ts'
import { findAtPath } from '../../output/formats.ts'
import { configPath, credentialsPath, entryOf, loadConfigFiles, SYSTEM_CONFIG } from '../../profile/config-files.ts'
import { DEFAULT_BASE_URL } from '../../profile/profile.ts'

export type Source = { source: string; value: unknown; used: boolean }

type Origin = { flag?: keyof GlobalFlags; name?: string; env?: string; fallback?: string }

/** Flags, variables and defaults of the CLI's settings. All other settings come only from the files. */
const ORIGINS: Record<string, Origin> = {
  output: { flag: 'output', name: '--output', env: 'AIGW_OUTPUT', fallback: 'table' },
  color: { flag: 'color', name: '--color', fallback: 'auto' },
  timeout: { flag: 'timeout', name: '--timeout', fallback: '30s' },
  retries: { flag: 'retries', name: '--retries', fallback: '2' },
  current_profile: { flag: 'profile', name: '--profile', env: 'AIGW_PROFILE', fallback: 'default' },
}

/** Variables that override a setting of the gateway's file. */
const GATEWAY_VARIABLES: Record<string, string> = {
  listen: 'AIGW_LISTEN',
  data_dir: 'AIGW_DATA_DIR',
  'database.url': 'AIGW_DATABASE_URL',
  bootstrap_key: 'AIGW_BOOTSTRAP_KEY',
  master_key: 'AIGW_MASTER_KEY_FILE',
}
const SECRET_VARIABLES: ReadonlySet<string> = new Set(['AIGW_DATABASE_URL', 'AIGW_BOOTSTRAP_KEY', 'AIGW_API_KEY'])

const filled = (value: string | undefined): string | undefined => (value === '' ? undefined : value)
const secret = (value: unknown): unknown => (value === undefined ? undefined : '(secret)')

/** Marks the first source with a value. */
function ranked(rows: [source: string, value: unknown][]): Source[] {
  const used = rows.findIndex(([, value]) => value !== undefined)
  return rows.map(([source, value], at) => ({ source, value: value ?? null, used: at === used }))
}

/** Returns the sources of a setting of the CLI. `base_url` and `api_key` are those of the current profile. */
export async function sourcesOf({ io, globals }: CliContext, key: string): Promise<Source[]> {
  const { user, system, credentials } = await loadConfigFiles(io)
  const inFiles = (path: string): [string, unknown][] => [
    [configPath(io.env), findAtPath(user, path)],
    [SYSTEM_CONFIG, findAtPath(system, path)],
  ]
  const variable = (name: string): [string, unknown] => {
    const value = filled(io.env[name])
    return [name, SECRET_VARIABLES.has(name) ? secret(value) : value]
  }
  const profile =
    globals.profile ?? filled(io.env.AIGW_PROFILE) ?? user.current_profile ?? system.current_profile ?? 'default'
  if (key === 'base_url') {
    const rows = inFiles(`profiles.${profile}.base_url`)
    return ranked([['--base-url', globals.baseUrl], variable('AIGW_BASE_URL'), ...rows, ['default', DEFAULT_BASE_URL]])
  }
  if (key === 'api_key') {
    const rows: [string, unknown][] = [
      ['--api-key-file', globals.apiKeyFile],
      variable('AIGW_API_KEY'),
      variable('AIGW_API_KEY_FILE'),
    ]
    const stored = secret(entryOf(credentials, profile)?.key)
    const ofProfile: [string, unknown] = [`${credentialsPath(io.env)} (profile '${profile}')`, stored]
    return ranked([...rows, ...inFiles(`profiles.${profile}.key_command`), ofProfile])
  }
  if (/^chat\.(model|index|policy)$/.test(key))
    return ranked([...inFiles(`profiles.${profile}.${key}`), ...inFiles(key)])
  const { flag, name = '', env, fallback } = ORIGINS[key] ?? {}
  return ranked([
    ...(flag === undefined ? [] : [[name, globals[flag]] as [string, unknown]]),
    ...(env === undefined ? [] : [variable(env)]),
    ...inFiles(key),
    ...(fallback === undefined ? [] : [['default', fallback] as [string, unknown]]),
  ])
}

/** Returns the sources of a setting of a gateway. The variables are those of this shell, not of a running daemon. */
export function gatewaySourcesOf({ io }: CliContext, key: string, path: string, value: unknown): Source[] {
  const name = GATEWAY_VARIABLES[key]
  const given = name === undefined ? undefined : filled(io.env[name])
  return ranked([
    ...(name === undefined ? [] : [[name, SECRET_VARIABLES.has(name) ? secret(given) : given] as [string, unknown]]),
    [path, value],
    ['default, see docs/configuration.md', '(default)'],
  ])
}
