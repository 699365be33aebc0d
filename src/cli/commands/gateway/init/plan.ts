/** Decides which files `aigw init` writes. Writes nothing itself. */
import { join } from 'node:path'
import { usageError } from '../../../errors.ts'
import { toShellWord } from '../../../output/shell-word.ts'
import { toUnitWord } from '../../service/unit.ts'
import { secretsFolder } from '../check-config.ts'

/** The answers of the user, from flags and prompts. */
export type Answers = {
  /** The configuration file, absolute. */
  config: string
  /** A name such as `openai`. Undefined: only the built-in models. */
  provider: string | undefined
  providerUrl: string | undefined
  providerKey: string | undefined
  listen: string
  /** Undefined: the daemon's default. */
  dataDir: string | undefined
  /** Undefined: SQLite in the data directory. */
  databaseUrl: string | undefined
  /** The unit file to write, if the gateway is to run under systemd. */
  unit: string | undefined
  isRoot: boolean
}

export type PlannedFile = { path: string; text: string; mode: number; isSecret: boolean }
export type Plan = {
  config: PlannedFile
  secrets: PlannedFile[]
  unit: PlannedFile | undefined
  /** The two commands that the user types next. */
  next: [string, string]
}

/** A configuration contains no secrets, so everyone may read it. */
const PUBLIC = 0o644
const PRIVATE = 0o600

export const DEFAULT_LISTEN = '127.0.0.1:8787'

/**
 * Plans the files. Secrets are files of their own: the daemon reads them through systemd's credentials, or by their
 * path. `unitText` is the unit of this installation.
 */
export function planFiles(
  answers: Answers,
  { unitText, adminKeyDir }: { unitText: string; adminKeyDir: string },
): Plan {
  const { config, provider, providerUrl, providerKey, listen, dataDir, databaseUrl, unit, isRoot } = answers
  const folder = secretsFolder(config)
  // The system's unit runs as a user that cannot read root's files. A unit of the user's own manager can.
  const isCredential = unit !== undefined && isRoot
  if (isCredential) assertReachable(config, dataDir)
  const secrets: PlannedFile[] = []
  const reference = (name: string, text: string): string => {
    secrets.push({ path: join(folder, name), text: `${text}\n`, mode: PRIVATE, isSecret: true })
    return isCredential ? `{credential: ${name}}` : `{file: ${JSON.stringify(`secrets/${name}`)}}`
  }
  const lines = [
    '# Configuration of aigwd. All settings: docs/configuration.md. Check it with: aigwd --check --config FILE',
    `listen: ${JSON.stringify(listen)}`,
  ]
  if (dataDir !== undefined) lines.push(`data_dir: ${JSON.stringify(dataDir)}`)
  if (databaseUrl !== undefined) lines.push('database:', `  url: ${reference('database-url', databaseUrl)}`)
  if (provider !== undefined) {
    assertProviderName(provider)
    lines.push('providers:', `  ${provider}:`)
    if (providerUrl !== undefined) lines.push(`    base_url: ${JSON.stringify(providerUrl)}`)
    if (providerKey !== undefined) lines.push(`    api_key: ${reference(`${provider}-key`, providerKey)}`)
    if (providerUrl === undefined && providerKey === undefined) lines[lines.length - 1] = `  ${provider}: {}`
  }
  const credentials = secrets.map(({ path }) => `LoadCredential=${path.slice(folder.length + 1)}:${path}`)
  return {
    config: { path: config, text: `${lines.join('\n')}\n`, mode: PUBLIC, isSecret: false },
    secrets,
    unit:
      unit === undefined
        ? undefined
        : {
            path: unit,
            text: unitFor(unitText, config, isCredential ? credentials : []),
            mode: PUBLIC,
            isSecret: false,
          },
    next: [
      unit === undefined
        ? `aigw serve --config ${toShellWord(config)}`
        : `systemctl ${isRoot ? '' : '--user '}enable --now aigw`,
      `aigw login --base-url ${toShellWord(addressOf(listen))} --api-key-file ${toShellWord(join(dataDir ?? adminKeyDir, 'admin.key'))}`,
    ],
  }
}

function assertProviderName(name: string): void {
  if (/^[a-z][a-z0-9_-]{0,63}$/.test(name)) return
  throw usageError(`--provider must be a name such as openai or anthropic, not '${name}'`)
}

/** The unit of the system protects homes, and only its own StateDirectory= is writable. */
function assertReachable(config: string, dataDir: string | undefined): void {
  if (dataDir !== undefined) {
    throw usageError('--data-dir cannot be combined with --systemd: the unit keeps its data in /var/lib/aigw', [
      'Leave out --data-dir, or make /var/lib/aigw a mount of that disk.',
    ])
  }
  if (/^\/(home|root|run\/user)\//.test(config)) {
    throw usageError(`the unit of the system cannot read ${config}, because it protects the homes of users`, [
      'Use a file in /etc/aigw, or run aigw init without sudo for a unit of your own.',
    ])
  }
}

/** The unit names its configuration, because the file may be in any folder. */
const unitFor = (unit: string, config: string, credentials: string[]): string =>
  unit
    .replace(/^ExecStart=.*$/m, (line) => `${line} --config ${toUnitWord(config)}`)
    .replace(/^\[Service\]\n/m, (head) => [head, ...credentials.map((line) => `${line}\n`)].join(''))

/** The address for clients on this machine. */
function addressOf(listen: string): string {
  const [, host = '', port = ''] = /^(.*):(\d+)$/.exec(listen) ?? []
  return `http://${host === '0.0.0.0' || host === '*' || host === '' ? '127.0.0.1' : host === '[::]' ? '[::1]' : host}:${port}`
}
