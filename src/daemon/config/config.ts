import { dirname, isAbsolute, join, resolve } from 'node:path'
import { ALWAYS } from '../../shared/evidence/cosignature.ts'
import { EMBEDDING_BATCH, SAME_MODEL_RETRIES } from '../../shared/spec-limits.ts'
import {
  type CacheConfig,
  type ConcurrencyLimits,
  DEFAULT_CACHE,
  DEFAULT_CONCURRENCY,
  DEFAULT_LIMITS,
  type RequestLimits,
  type ResponsesConfig,
} from '../gateway/config.ts'
import type { EmbeddingConfig, RetrievalConfig } from '../knowledge/search/vectors/config.ts'
import { type LicensePools, licensePools, type PointAllowances } from '../metering/config.ts'
import type { ModelName, ProviderConfig, Scripts } from '../models/config.ts'
import type { ProxySettings } from '../models/proxy.ts'
import type { LogLevel } from '../platform/log.ts'
import type { TelemetryConfig } from '../platform/telemetry/contract.ts'
import { DEFAULT_EVIDENCE, type EvidenceConfig } from '../records/config.ts'
import { DEFAULT_SHIELD_MODEL, type ShieldModelConfig } from '../safety/config.ts'
import type { WebhooksConfig } from '../webhooks/config.ts'
import {
  type EmbeddingSettings,
  type EvidenceSettings,
  type FileSettings,
  type LimitSettings,
  parseBootstrapKey,
  parseConfigFile,
  type ShieldModelSettings,
  type TelemetrySettings,
} from './file.ts'
import { parseFlags } from './flags.ts'
import { faultsOfNames } from './names.ts'
import { providersFromEnvironment } from './providers.ts'
import { proxiesOfEnvironment } from './proxies.ts'
import { readSecret, reasonOf } from './secret.ts'
import type { ConfigSources } from './sources.ts'
import {
  parseCollector,
  parseDatabaseUrl,
  parseDescriptor,
  parseListen,
  parseMasterKey,
  parseSwitch,
  ValueFault,
} from './values.ts'

/** The default time limit for running requests to finish after SIGTERM. */
export const DRAIN_TIMEOUT_MS = 25_000

/**
 * The daemon's configuration. Its settings come from flags, environment and file, and are merged and validated. The
 * object is frozen.
 */
export type Config = {
  listen: { host: string; port: number }
  /** Absolute path of the directory that contains the SQLite file, the lock and admin.key. */
  dataDir: string
  /** An SQLite file in the data directory, or the postgres:// URL of a PostgreSQL database. */
  database: { kind: 'sqlite' } | { kind: 'postgres'; url: string }
  /** How many of the backups before migrations are kept. 0 switches them off. Default BACKUPS_BEFORE_MIGRATION. */
  backupsBeforeMigration?: number | undefined
  /** The configured operator key, if any. */
  bootstrapKey: string | undefined
  /**
   * The key that encrypts secrets in the store, 64 hex characters. If undefined, the key in `<dataDir>/master.key` is
   * used.
   */
  masterKey?: string | undefined
  /** The key to which `aigw secrets rotate-master` changes, 64 hex characters. */
  nextMasterKey?: string | undefined
  webhooks?: Partial<WebhooksConfig>
  /** All providers except the built-in `local`, which needs no configuration. */
  providers: readonly ProviderConfig[]
  /** Names that stand for models. */
  models?: readonly ModelName[] | undefined
  /** The model of requests on the compatible interfaces that name no model. */
  defaultModel?: string | undefined
  /** The proxies of the environment, for calls to providers without their own setting. */
  proxies?: ProxySettings | undefined
  /** The scripts with the responses of the models `local/script/<name>`. */
  scripts?: Scripts | undefined
  /** `requests`: whether each request is logged in one line. */
  log: { level: LogLevel; requests?: boolean }
  /** `tenantLabel`: whether the metrics of requests have a label for the tenant. */
  metrics?: { tenantLabel: boolean }
  /** The collector of traces and metrics. Undefined: none, and the SDK is not loaded. */
  telemetry?: TelemetryConfig | undefined
  /** How long to wait for running requests after SIGTERM. */
  drainTimeoutMs: number
  /** Maximum number of users per tenant and licence. 0 means unlimited. */
  licenses: LicensePools
  /** The monthly points of a user, by licence. A licence that is missing from this list has unlimited points. */
  points?: PointAllowances | undefined
  /** Addresses and blocks of trusted proxies. The X-Forwarded-For header is used only from these proxies. */
  trustedProxies?: readonly string[] | undefined
  /** Whether to discover model servers on this machine. */
  discoverLocal?: boolean | undefined
  failover?: { sameModelRetries: number }
  concurrency?: ConcurrencyLimits
  /** Default DEFAULT_LIMITS. */
  limits?: RequestLimits
  responses?: ResponsesConfig
  /** The origins of web pages that may read responses. Undefined: none. */
  cors?: { origins: readonly string[] }
  cache?: CacheConfig
  /** The search methods for knowledge bases, in addition to full-text search. */
  knowledge?: RetrievalConfig | undefined
  /** An additional model of the prompt shield. */
  shieldModel?: ShieldModelConfig | undefined
  evidence?: EvidenceConfig | undefined
  /** Descriptor of a pipe that closes when the parent process ends. */
  parentPipe?: number | undefined
}

/** Contains all faults of a configuration, one line per fault. The lines contain no secrets. */
export class ConfigFaults {
  readonly faults: readonly string[]

  constructor(faults: readonly string[]) {
    this.faults = faults
  }
}

const DEFAULT_LISTEN = '127.0.0.1:8787'
const SYSTEM_CONFIG_DIRECTORY = '/etc/aigw'
const CONFIG_FILE = 'aigw.yaml'

/**
 * Merges flags, environment, file and defaults, in this order of precedence. Every value is validated, even one that a
 * higher-precedence source overrides.
 */
export function loadConfig(sources: ConfigSources): Config | ConfigFaults {
  const { env } = sources
  const { flags, faults } = parseFlags(sources.argv)
  const file = readConfigFile(flags.config, sources)
  faults.push(...file.faults)
  const { settings } = file

  const value = <T>(source: string, text: string | undefined, parse: (text: string) => T): T | undefined => {
    // An empty variable counts as not set, because Compose files and shells often set unused variables to "".
    if (text === undefined || text === '') return undefined
    try {
      return parse(text)
    } catch (error) {
      if (!(error instanceof ValueFault)) throw error
      faults.push(`${source}: ${error.message}`)
      return undefined
    }
  }
  const listenFlag = value('--listen', flags.listen, parseListen)
  const listenVariable = value('AIGW_LISTEN', env.AIGW_LISTEN, parseListen)
  const databaseUrl = value('AIGW_DATABASE_URL', env.AIGW_DATABASE_URL, parseDatabaseUrl) ?? settings.database?.url
  const bootstrapKey = value('AIGW_BOOTSTRAP_KEY', env.AIGW_BOOTSTRAP_KEY, parseBootstrapKey)
  const parentPipe = value('AIGW_PARENT_PIPE', env.AIGW_PARENT_PIPE, parseDescriptor)
  const masterKey = value('AIGW_MASTER_KEY_FILE', env.AIGW_MASTER_KEY_FILE, (path) =>
    parseMasterKey(readSecret(sources.readFile, resolve(path)), path),
  )
  const collector = value('OTEL_EXPORTER_OTLP_ENDPOINT', env.OTEL_EXPORTER_OTLP_ENDPOINT, parseCollector)
  const allowPrivate = value('WEBHOOKS_ALLOW_PRIVATE', env.WEBHOOKS_ALLOW_PRIVATE, parseSwitch)
  const fromEnvironment = providersFromEnvironment(env, settings.namedProviders)
  const fromProxies = proxiesOfEnvironment(env)
  faults.push(...fromEnvironment.faults, ...fromProxies.faults)
  const dataDir = flags.dataDir ?? (env.AIGW_DATA_DIR || undefined) ?? file.dataDir ?? defaultDataDir(env)
  if (dataDir === undefined && file.faults.length === 0)
    faults.push('data_dir: has no default because HOME is not set; set --data-dir DIR or AIGW_DATA_DIR')
  const providers = [...settings.providers, ...fromEnvironment.providers]
  const discoverLocal = settings.discover_local ?? true
  // A provider with faults is missing from the list, so names are checked only without other faults.
  if (faults.length === 0) {
    const names = { models: settings.models, defaultModel: settings.default_model }
    faults.push(...faultsOfNames(names, providers, discoverLocal))
  }

  if (faults.length > 0 || dataDir === undefined) return new ConfigFaults(faults)
  return deepFreeze<Config>({
    listen: listenFlag ?? listenVariable ?? settings.listen ?? parseListen(DEFAULT_LISTEN),
    dataDir: resolve(dataDir),
    database: databaseUrl === undefined ? { kind: 'sqlite' } : { kind: 'postgres', url: databaseUrl },
    backupsBeforeMigration: settings.database?.backups_before_migration,
    bootstrapKey: bootstrapKey ?? settings.bootstrap_key,
    masterKey: masterKey ?? settings.master_key,
    nextMasterKey: settings.next_master_key,
    webhooks: {
      allowPrivate: allowPrivate ?? false,
      allow: settings.webhooks?.allow ?? [],
      showPrivateBodies: settings.webhooks?.show_private_bodies ?? false,
    },
    providers,
    models: settings.models,
    defaultModel: settings.default_model,
    proxies: fromProxies.proxies,
    scripts: settings.scripts,
    log: { level: settings.log?.level ?? 'info', requests: settings.log?.requests ?? false },
    metrics: { tenantLabel: settings.metrics?.tenant_label ?? false },
    telemetry: telemetryConfig(collector ?? settings.telemetry?.endpoint, settings.telemetry ?? {}),
    drainTimeoutMs: settings.drain_timeout ?? DRAIN_TIMEOUT_MS,
    licenses: licensePools(settings.licenses ?? {}),
    points: settings.points ?? undefined,
    trustedProxies: settings.trusted_proxies ?? undefined,
    discoverLocal,
    failover: { sameModelRetries: settings.failover?.same_model_retries ?? SAME_MODEL_RETRIES.default },
    concurrency: {
      perTenant: settings.concurrency?.per_tenant ?? DEFAULT_CONCURRENCY.perTenant,
      perKey: settings.concurrency?.per_key ?? DEFAULT_CONCURRENCY.perKey,
      waitingPerKey: settings.concurrency?.waiting_per_key ?? DEFAULT_CONCURRENCY.waitingPerKey,
      perProvider: settings.concurrency?.per_provider ?? DEFAULT_CONCURRENCY.perProvider,
    },
    limits: requestLimits(settings.limits ?? {}),
    responses: { store: settings.responses?.store ?? false },
    ...(settings.cors?.origins && { cors: { origins: settings.cors.origins } }),
    cache: {
      enabled: settings.cache?.enabled ?? DEFAULT_CACHE.enabled,
      ttlMs: settings.cache?.ttl ?? DEFAULT_CACHE.ttlMs,
      maxBytes: settings.cache?.max_bytes ?? DEFAULT_CACHE.maxBytes,
    },
    knowledge: settings.knowledge ? retrievalConfig(settings.knowledge) : undefined,
    shieldModel: settings.prompt_shield?.model
      ? shieldModelConfig(settings.prompt_shield.model, file.directory)
      : undefined,
    evidence: evidenceConfig(settings.evidence ?? {}, file.directory),
    parentPipe,
  })
}

const requestLimits = ({
  body_size,
  body_memory,
  json_depth,
  messages,
  content_size,
  tools,
  max_tokens,
  default_max_tokens,
  output_tokens,
  anthropic_betas,
  addresses,
  ...times
}: LimitSettings): RequestLimits => ({
  bodyBytes: body_size ?? DEFAULT_LIMITS.bodyBytes,
  bodyMemoryBytes: body_memory ?? DEFAULT_LIMITS.bodyMemoryBytes,
  jsonDepth: json_depth ?? DEFAULT_LIMITS.jsonDepth,
  messages: messages ?? DEFAULT_LIMITS.messages,
  contentBytes: content_size ?? DEFAULT_LIMITS.contentBytes,
  tools: tools ?? DEFAULT_LIMITS.tools,
  maxTokens: max_tokens ?? DEFAULT_LIMITS.maxTokens,
  defaultMaxTokens: default_max_tokens ?? DEFAULT_LIMITS.defaultMaxTokens,
  outputTokens: output_tokens ?? DEFAULT_LIMITS.outputTokens,
  anthropicBetas: anthropic_betas ?? DEFAULT_LIMITS.anthropicBetas,
  addresses: addresses ?? DEFAULT_LIMITS.addresses,
  firstTokenMs: times.first_token_timeout ?? DEFAULT_LIMITS.firstTokenMs,
  attemptMs: times.attempt_timeout ?? DEFAULT_LIMITS.attemptMs,
  silenceMs: times.silence_timeout ?? DEFAULT_LIMITS.silenceMs,
  keepAliveMs: times.keep_alive ?? DEFAULT_LIMITS.keepAliveMs,
})

const telemetryConfig = (
  endpoint: string | undefined,
  { headers = {}, sample_ratio: sampleRatio = 1 }: TelemetrySettings,
): TelemetryConfig | undefined => (endpoint === undefined ? undefined : { endpoint, headers, sampleRatio })

const shieldModelConfig = (model: ShieldModelSettings, directory: string): ShieldModelConfig => ({
  folder: resolve(directory, model.folder),
  file: model.file ?? DEFAULT_SHIELD_MODEL.file,
  attackLabels: model.attack_labels,
  examples: model.examples === undefined ? undefined : resolve(directory, model.examples),
  maxTokens: model.max_tokens ?? DEFAULT_SHIELD_MODEL.maxTokens,
  timeoutMs: model.timeout ?? DEFAULT_SHIELD_MODEL.timeoutMs,
  flagAt: model.flag_at ?? DEFAULT_SHIELD_MODEL.flagAt,
  blockAt: model.block_at ?? DEFAULT_SHIELD_MODEL.blockAt,
  threads: model.threads ?? DEFAULT_SHIELD_MODEL.threads,
})

const evidenceConfig = (
  { name, receipts, retention_days, checkpoint_file, checkpoint_url, witnesses, publish_tiles }: EvidenceSettings,
  directory: string,
): EvidenceConfig => ({
  name,
  receipts: receipts ?? DEFAULT_EVIDENCE.receipts,
  retentionDays: retention_days ?? DEFAULT_EVIDENCE.retentionDays,
  checkpointFile: checkpoint_file === undefined ? undefined : resolve(directory, checkpoint_file),
  checkpointUrl: checkpoint_url,
  witnesses: (witnesses ?? []).map(({ name, url, key, valid_from, valid_until }) => ({
    name,
    url,
    key,
    window: {
      fromMs: valid_from === undefined ? ALWAYS.fromMs : Date.parse(valid_from),
      untilMs: valid_until === undefined ? ALWAYS.untilMs : Date.parse(valid_until),
    },
  })),
  publishTiles: publish_tiles ?? DEFAULT_EVIDENCE.publishTiles,
})

function retrievalConfig({ embedding, rerank }: NonNullable<FileSettings['knowledge']>): RetrievalConfig {
  return {
    embedding: embedding ? embeddingConfig(embedding) : undefined,
    rerank: rerank ?? undefined,
  }
}

const embeddingConfig = ({
  query_timeout_ms: queryTimeoutMs,
  batch = EMBEDDING_BATCH.default,
  ...model
}: EmbeddingSettings): EmbeddingConfig => ({
  ...model,
  batch,
  ...(queryTimeoutMs !== undefined && { queryTimeoutMs }),
})

function readConfigFile(
  flag: string | undefined,
  sources: ConfigSources,
): { settings: FileSettings; directory: string; dataDir?: string | undefined; faults: string[] } {
  const { env } = sources
  const named = flag ?? (env.AIGW_CONFIG || undefined)
  const directory = firstOf(env.CONFIGURATION_DIRECTORY) ?? SYSTEM_CONFIG_DIRECTORY
  const path = resolve(named ?? join(directory, CONFIG_FILE))
  let text: string
  try {
    text = sources.readFile(path)
  } catch (error) {
    const absent = error instanceof Error && 'code' in error && error.code === 'ENOENT'
    // A missing file is a fault only if the operator named the file.
    const faults = absent && named === undefined ? [] : [`${path}: cannot be read (${reasonOf(error)})`]
    return { settings: { providers: [], models: [], namedProviders: [] }, directory: dirname(path), faults }
  }
  const { settings, faults } = parseConfigFile(text, path, sources)
  const dataDir = settings.data_dir === undefined ? undefined : resolve(path, '..', settings.data_dir)
  return { settings, directory: dirname(path), dataDir, faults }
}

function defaultDataDir(env: ConfigSources['env']): string | undefined {
  const stateDirectory = firstOf(env.STATE_DIRECTORY)
  if (stateDirectory !== undefined) return stateDirectory
  // A relative path is ignored, as the XDG base directory specification requires.
  if (env.XDG_STATE_HOME && isAbsolute(env.XDG_STATE_HOME)) return join(env.XDG_STATE_HOME, 'aigw')
  return env.HOME ? join(env.HOME, '.local', 'state', 'aigw') : undefined
}

/** Returns the first directory of a list. systemd separates directories with colons. */
const firstOf = (directories: string | undefined): string | undefined => directories?.split(':')[0] || undefined

function deepFreeze<T extends object>(value: T): T {
  for (const member of Object.values(value)) if (typeof member === 'object' && member !== null) deepFreeze(member)
  return Object.freeze(value)
}
