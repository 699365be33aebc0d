// Compares two configurations, and decides which settings a running daemon applies.
import { isDeepStrictEqual } from 'node:util'
import type { Config } from './config.ts'

/**
 * Every setting with its key in the configuration file. `restart`: the setting is read only at the start, because an
 * open resource depends on it.
 */
const SETTINGS: { readonly [Name in keyof Required<Config>]: { key: string; restart?: true } } = {
  listen: { key: 'listen', restart: true },
  dataDir: { key: 'data_dir', restart: true },
  database: { key: 'database', restart: true },
  backupsBeforeMigration: { key: 'database.backups_before_migration', restart: true },
  bootstrapKey: { key: 'bootstrap_key', restart: true },
  masterKey: { key: 'master_key', restart: true },
  nextMasterKey: { key: 'next_master_key', restart: true },
  trustedProxies: { key: 'trusted_proxies', restart: true },
  webhooks: { key: 'webhooks', restart: true },
  knowledge: { key: 'knowledge', restart: true },
  shieldModel: { key: 'prompt_shield', restart: true },
  evidence: { key: 'evidence', restart: true },
  proxies: { key: 'the proxies of the environment', restart: true },
  parentPipe: { key: 'AIGW_PARENT_PIPE', restart: true },
  providers: { key: 'providers' },
  models: { key: 'models' },
  defaultModel: { key: 'default_model' },
  scripts: { key: 'providers.local.scripts' },
  discoverLocal: { key: 'discover_local' },
  failover: { key: 'failover' },
  concurrency: { key: 'concurrency' },
  limits: { key: 'limits' },
  points: { key: 'points' },
  licenses: { key: 'licenses' },
  responses: { key: 'responses' },
  cache: { key: 'cache' },
  cors: { key: 'cors' },
  log: { key: 'log' },
  metrics: { key: 'metrics', restart: true },
  telemetry: { key: 'telemetry', restart: true },
  drainTimeoutMs: { key: 'drain_timeout' },
}

/** The settings that another configuration changes, by their keys. No key contains a value. */
export type ConfigChanges = {
  /** Applied by a reload. */
  changed: string[]
  /** Applied only by a restart. The earlier values stay in force. */
  needsRestart: string[]
}

/** Returns the configuration that a reload puts in force, and how it differs from the earlier one. */
export function reloaded(before: Config, after: Config): { config: Config } & ConfigChanges {
  const changed: string[] = []
  const needsRestart: string[] = []
  const config: Record<string, unknown> = { ...after }
  for (const [name, { key, restart }] of entriesOf(SETTINGS)) {
    if (isDeepStrictEqual(before[name], after[name])) continue
    if (!restart) changed.push(...keysIn(key, before[name], after[name]))
    else {
      needsRestart.push(key)
      config[name] = before[name]
    }
  }
  return { config: config as Config, changed, needsRestart }
}

/** Lists the changed entries of a list of named entries, such as `providers.openai`. */
function keysIn(key: string, before: unknown, after: unknown): string[] {
  if (!isNamed(before) || !isNamed(after)) return [key]
  const names = new Set([...before, ...after].map(({ name }) => name))
  const find = (list: readonly { name: string }[], name: string) => list.find((one) => one.name === name)
  const differing = [...names].filter((name) => !isDeepStrictEqual(find(before, name), find(after, name)))
  // Only the order differs, which is the order of lists of models.
  return differing.length === 0 ? [key] : differing.map((name) => `${key}.${name}`)
}

const isNamed = (value: unknown): value is readonly { name: string }[] =>
  Array.isArray(value) && value.every((entry) => typeof entry === 'object' && entry !== null && 'name' in entry)

const entriesOf = <T extends object>(record: T) => Object.entries(record) as [keyof T, T[keyof T]][]
