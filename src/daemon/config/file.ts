// Defines the schema of the YAML file, and reports all faults with their lines. This module is long because the schema
// contains every section.
import { type Document, isAlias, isMap, isNode, isScalar, isSeq, LineCounter, parseDocument } from 'yaml'
import { z } from 'zod'
import { isAddressBlock } from '../../shared/address-block.ts'
import { parseWitnessKey, VerifierKeyError } from '../../shared/evidence/verifier-key.ts'
import { API_KEY_PATTERN } from '../../shared/ids.ts'
import {
  ANSWER_TOKENS_MAX,
  BACKUPS_BEFORE_MIGRATION,
  BODY_MEMORY_BYTES,
  CACHE_TENANT_BYTES,
  CACHE_TTL_MS,
  CLIENT_KEEP_ALIVE_MS,
  COMPAT_BODY_BYTES,
  COMPAT_JSON_DEPTH,
  CONTENT_BYTES_MIN,
  COUNT_LIMIT_MAX,
  EMBEDDING_BATCH,
  EMBEDDING_DIMENSIONS,
  EVIDENCE_RETENTION_DAYS,
  QUERY_VECTOR_MS,
  SAME_MODEL_RETRIES,
  SHIELD_MODEL_MS,
  SHIELD_MODEL_THREADS_MAX,
  SHIELD_MODEL_TOKENS,
  WITNESSES_MAX,
} from '../../shared/spec-limits.ts'
import { parseUrl } from '../../shared/url.ts'
import { LICENSES, type License } from '../../shared/wire/users.ts'
import type { ModelName, ProviderConfig, Scripts } from '../models/config.ts'
import { DEFAULT_SHIELD_MODEL } from '../safety/config.ts'
import { defaultModel, modelNameEntry } from './names.ts'
import { checkHeaders, providerEntry } from './providers.ts'
import { localEntry } from './scripts.ts'
import { masterKeyReference, resolveMasterKey, resolveSecret, secretReference } from './secret.ts'
import { section, valueFrom } from './section.ts'
import type { ConfigSources } from './sources.ts'
import { timeLimit } from './timeouts.ts'
import { parseCollector, parseDatabaseUrl, parseDuration, parseListen, parseSize, ValueFault } from './values.ts'

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'silent'] as const

/** The section `knowledge.embedding` of a configuration file. */
export type EmbeddingSettings = {
  model: string
  dimensions?: number | undefined
  batch?: number | undefined
  query_timeout_ms?: number | undefined
}

/** The section `evidence` of a configuration file. */
export type EvidenceSettings = {
  name?: string | undefined
  receipts?: boolean | undefined
  retention_days?: number | undefined
  checkpoint_file?: string | undefined
  checkpoint_url?: string | undefined
  witnesses?: WitnessSettings[] | undefined
  publish_tiles?: boolean | undefined
}

/** An element of `evidence.witnesses` of a configuration file. */
export type WitnessSettings = {
  name: string
  url: string
  key: string
  valid_from?: string | undefined
  valid_until?: string | undefined
}

/** The section `prompt_shield.model` of a configuration file. */
export type ShieldModelSettings = {
  /** The paths as written. Relative paths are resolved against the folder of the configuration file. */
  folder: string
  file?: string | undefined
  attack_labels?: string[] | undefined
  examples?: string | undefined
  max_tokens?: number | undefined
  /** In milliseconds. */
  timeout?: number | undefined
  flag_at?: number | undefined
  block_at?: number | undefined
  threads?: number | undefined
}

/** The section `telemetry` of a configuration file. */
export type TelemetrySettings = {
  endpoint?: string | undefined
  headers?: Record<string, string> | undefined
  sample_ratio?: number | undefined
}

/** The section `limits` of a configuration file. */
export type LimitSettings = {
  /** In bytes. */
  body_size?: number | undefined
  body_memory?: number | undefined
  json_depth?: number | undefined
  messages?: number | null | undefined
  /** In bytes. */
  content_size?: number | null | undefined
  tools?: number | null | undefined
  max_tokens?: number | null | undefined
  default_max_tokens?: number | null | undefined
  output_tokens?: Record<string, number> | null | undefined
  anthropic_betas?: string[] | null | undefined
  addresses?: boolean | undefined
  /** All times are in milliseconds. */
  first_token_timeout?: number | undefined
  attempt_timeout?: number | undefined
  silence_timeout?: number | undefined
  keep_alive?: number | undefined
}

/** The content of a configuration file; omitted keys are undefined. */
export type FileSettings = {
  listen?: { host: string; port: number } | undefined
  /** The path as written. A relative path is resolved against the folder of the configuration file. */
  data_dir?: string | undefined
  bootstrap_key?: string | undefined
  /** 64 hex characters. */
  master_key?: string | undefined
  next_master_key?: string | undefined
  database?: { url?: string | undefined; backups_before_migration?: number | undefined } | null | undefined
  log?: { level?: (typeof LOG_LEVELS)[number] | undefined; requests?: boolean | undefined } | null | undefined
  metrics?: { tenant_label?: boolean | undefined } | null | undefined
  telemetry?: TelemetrySettings | null | undefined
  /** In milliseconds. */
  drain_timeout?: number | undefined
  /** Maximum number of users with each licence. */
  licenses?: { [Tier in License]?: number | undefined } | null | undefined
  /** Monthly points per user, by licence. Null means unlimited. */
  points?: { [Tier in License]?: number | null | undefined } | null | undefined
  /** Addresses and blocks in CIDR notation. */
  trusted_proxies?: string[] | null | undefined
  discover_local?: boolean | undefined
  failover?: { same_model_retries?: number | undefined } | null | undefined
  concurrency?:
    | {
        per_tenant?: number | undefined
        per_key?: number | undefined
        waiting_per_key?: number | undefined
        per_provider?: number | undefined
      }
    | null
    | undefined
  limits?: LimitSettings | null | undefined
  responses?: { store?: boolean | undefined } | null | undefined
  cors?: { origins?: string[] | undefined } | null | undefined
  /** `ttl` is in milliseconds, `max_bytes` in bytes. */
  cache?: { enabled?: boolean | undefined; ttl?: number | undefined; max_bytes?: number | undefined } | null | undefined
  knowledge?:
    | {
        embedding?: EmbeddingSettings | null | undefined
        rerank?: { model: string } | null | undefined
      }
    | null
    | undefined
  prompt_shield?: { model?: ShieldModelSettings | null | undefined } | null | undefined
  evidence?: EvidenceSettings | null | undefined
  webhooks?: { allow?: string[] | null | undefined; show_private_bodies?: boolean | undefined } | null | undefined
  providers: ProviderConfig[]
  /** The names under `models:`. */
  models: ModelName[]
  default_model?: string | undefined
  scripts?: Scripts | undefined
  /** Names of all entries under `providers:`, including invalid ones and `local`. */
  namedProviders: string[]
}

/**
 * Parses the text of a configuration file. Each fault is reported in one line: the file, the line number if known, the
 * dotted key, the problem and the remedy. Invalid parts are omitted from the settings.
 */
export function parseConfigFile(
  text: string,
  path: string,
  sources: ConfigSources,
): { settings: FileSettings; faults: string[] } {
  const lines = new LineCounter()
  // `prettyErrors` would quote the source, which may contain secrets.
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false })
  const nothing: FileSettings = { providers: [], models: [], namedProviders: [] }
  const notYaml = [...document.errors, ...document.warnings].map(
    ({ message, pos }) =>
      `${path}:${lines.linePos(pos[0]).line}: not valid YAML: ${withoutSource(message)}; put texts with [ ] { } : or # in quotes`,
  )
  if (notYaml.length > 0) return { settings: nothing, faults: notYaml }

  const content = toValue(document) ?? {}
  if (content === TOO_MANY_ALIASES)
    return { settings: nothing, faults: [`${path}: expands too many YAML aliases; write the values out`] }
  if (!isMapping(content)) return { settings: nothing, faults: [`${path}: must be a mapping of keys, such as listen:`] }
  const { providers: entries = {}, models: names = {}, ...rest } = content
  const found: { line: number; fault: string }[] = []
  const check = <T>(schema: z.ZodType<T>, value: unknown, at: string[]): T | undefined => {
    const result = schema.safeParse(value)
    if (result.success) return result.data
    for (const issue of result.error.issues) {
      const key = [...at, ...issue.path]
      const line = lineOf(document, lines, key)
      const place = line === undefined ? path : `${path}:${line}`
      found.push({ line: line ?? 0, fault: `${place}: ${key.join('.')}: ${issue.message}` })
    }
    return undefined
  }

  const settings = check(rootSchema(sources, path), rest, [])
  const providers: ProviderConfig[] = []
  let scripts: Scripts | undefined
  const named = check(z.record(z.string(), z.unknown(), 'must map provider names to their settings'), entries ?? {}, [
    'providers',
  ])
  for (const [name, entry] of Object.entries(named ?? {})) {
    if (name === 'local') {
      scripts = check(localEntry(), entry ?? {}, ['providers', name])
      continue
    }
    const provider = check<ProviderConfig | undefined>(providerEntry(name, entry, sources, path), entry ?? {}, [
      'providers',
      name,
    ])
    if (provider !== undefined) providers.push(provider)
  }
  const models: ModelName[] = []
  const mapped = check(z.record(z.string(), z.unknown(), 'must map names to models'), names ?? {}, ['models'])
  for (const [name, entry] of Object.entries(mapped ?? {})) {
    const model = check(modelNameEntry(name, entry), entry, ['models', name])
    if (model !== undefined) models.push(model)
  }
  const faults = found.sort((a, b) => a.line - b.line).map(({ fault }) => fault)
  return { settings: { ...settings, providers, models, scripts, namedProviders: Object.keys(named ?? {}) }, faults }
}

function rootSchema(sources: ConfigSources, path: string) {
  const text = (mustBe: string) => z.string({ error: `must be ${mustBe}` })
  const secret = secretReference().transform(valueFrom((reference) => resolveSecret(reference, sources, path)))
  const masterKey = masterKeyReference().transform(valueFrom((reference) => resolveMasterKey(reference, sources, path)))
  return section(
    {
      listen: text('HOST:PORT in quotes, such as "127.0.0.1:8787"').transform(valueFrom(parseListen)).optional(),
      data_dir: text('a directory').transform(valueFrom(checkPath)).optional(),
      bootstrap_key: secret.transform(valueFrom(parseBootstrapKey)).optional(),
      master_key: masterKey.optional(),
      next_master_key: masterKey.optional(),
      database: section(
        {
          url: secret.transform(valueFrom(parseDatabaseUrl)).optional(),
          backups_before_migration: z
            .int({ error: 'must be a whole number from 0, such as 3; 0 makes no backups' })
            .min(BACKUPS_BEFORE_MIGRATION.min, 'must be a whole number from 0, such as 3; 0 makes no backups')
            .max(BACKUPS_BEFORE_MIGRATION.max, `must be at most ${BACKUPS_BEFORE_MIGRATION.max}`)
            .optional(),
        },
        'must contain url: postgres://… or backups_before_migration: 3',
      ).nullish(),
      log: section(
        {
          level: z.enum(LOG_LEVELS, { error: `must be one of ${LOG_LEVELS.join(', ')}` }).optional(),
          requests: z.boolean({ error: 'must be true or false' }).optional(),
        },
        'must contain level: info or requests: true',
      ).nullish(),
      metrics: section(
        { tenant_label: z.boolean({ error: 'must be true or false' }).optional() },
        'must contain tenant_label: true',
      ).nullish(),
      telemetry: section(
        {
          endpoint: text('the URL of a collector, such as http://127.0.0.1:4318')
            .transform(valueFrom(parseCollector))
            .optional(),
          headers: z
            .record(z.string(), secret, { error: 'must map header names to values' })
            .transform(valueFrom(checkHeaders))
            .optional(),
          sample_ratio: z
            .number({ error: 'must be a number from 0 to 1, such as 0.1' })
            .min(0, { error: 'must be a number from 0 to 1, such as 0.1' })
            .max(1, { error: 'must be a number from 0 to 1, such as 0.1' })
            .optional(),
        },
        'must contain endpoint: http://127.0.0.1:4318, and may contain headers and sample_ratio',
      ).nullish(),
      drain_timeout: text('a duration, such as 25s')
        .transform(valueFrom((duration) => parseDuration(duration)))
        .optional(),
      licenses: section(
        Object.fromEntries(LICENSES.map((license) => [license, poolSize.optional()])),
        'must map licences to numbers of users, such as Essential: 50',
      ).nullish(),
      points: section(
        Object.fromEntries(LICENSES.map((license) => [license, allowance.nullish()])),
        'must map licences to monthly points, such as Essential: 29000',
      ).nullish(),
      trusted_proxies: z
        .array(addressBlock, { error: 'must be a list of IP addresses or blocks, such as [127.0.0.1, 10.0.0.0/8]' })
        .nullish(),
      discover_local: z.boolean({ error: 'must be true or false' }).optional(),
      failover: section({ same_model_retries: retries.optional() }, 'must contain same_model_retries: 1').nullish(),
      concurrency: section(
        {
          per_tenant: places.optional(),
          per_key: places.optional(),
          waiting_per_key: places.optional(),
          per_provider: places.optional(),
        },
        'must contain per_tenant, per_key, waiting_per_key or per_provider, such as per_key: 100',
      ).nullish(),
      limits: section(
        {
          body_size: text('a size, such as 32MB')
            .transform(valueFrom((size) => parseSize(size, COMPAT_BODY_BYTES)))
            .optional(),
          body_memory: text('a size, such as 256MB')
            .transform(valueFrom((size) => parseSize(size, BODY_MEMORY_BYTES)))
            .optional(),
          json_depth: jsonDepth.optional(),
          messages: countOf('messages').nullish(),
          content_size: text('a size, such as 1MB')
            .transform(valueFrom((size) => parseSize(size, CONTENT_BYTES)))
            .nullish(),
          tools: countOf('tools').nullish(),
          max_tokens: answerTokens.nullish(),
          default_max_tokens: answerTokens.nullish(),
          anthropic_betas: z.array(z.string(), { error: 'must be a list of values of anthropic-beta' }).nullish(),
          addresses: z.boolean({ error: 'must be true or false' }).optional(),
          output_tokens: z
            .record(modelId, outputTokens, { error: 'must map models to numbers of tokens, such as azure/chat: 16384' })
            .nullish(),
          first_token_timeout: timeLimit.optional(),
          attempt_timeout: timeLimit.optional(),
          silence_timeout: timeLimit.optional(),
          keep_alive: keepAlive.optional(),
        },
        'must contain request limits, such as body_size: 32MB',
      ).nullish(),
      responses: section(
        { store: z.boolean({ error: 'must be true or false' }).optional() },
        'must contain store: true',
      ).nullish(),
      cors: section({ origins: origins.optional() }, 'must contain origins: [https://app.example.com]').nullish(),
      cache: section(
        {
          enabled: z.boolean({ error: 'must be true or false' }).optional(),
          ttl: text('a duration, such as 60m')
            .transform(valueFrom((duration) => parseDuration(duration, CACHE_TTL_MS)))
            .optional(),
          max_bytes: text('a size, such as 64MB')
            .transform(valueFrom((size) => parseSize(size, CACHE_TENANT_BYTES)))
            .optional(),
        },
        'must contain enabled: true, and may contain ttl and max_bytes',
      ).nullish(),
      knowledge: section(
        {
          embedding: section(
            {
              model: modelId,
              dimensions: dimensions.optional(),
              batch: batch.optional(),
              query_timeout_ms: queryTimeout.optional(),
            },
            'must contain model: <provider>/<model>, and may contain dimensions, batch and query_timeout_ms',
          ).nullish(),
          rerank: section({ model: modelId }, 'must contain model: <provider>/<model>').nullish(),
        },
        'must contain embedding or rerank, such as embedding: {model: openai/text-embedding-3-small}',
      ).nullish(),
      prompt_shield: section(
        { model: shieldModel.nullish() },
        'must contain model: {folder: DIR}, the folder of a model in the ONNX format',
      ).nullish(),
      evidence: section(
        {
          name: signerName.optional(),
          receipts: z.boolean({ error: 'must be true or false' }).optional(),
          retention_days: retentionDays.optional(),
          checkpoint_file: text('a file').transform(valueFrom(checkPath)).optional(),
          checkpoint_url: checkpointUrl.optional(),
          witnesses: witnessList.optional(),
          publish_tiles: z.boolean({ error: 'must be true or false' }).optional(),
        },
        'may contain name, receipts, retention_days, checkpoint_file, checkpoint_url, witnesses and publish_tiles, such as retention_days: 365',
      ).nullish(),
      webhooks: section(
        {
          allow: z
            .array(addressBlock, { error: 'must be a list of IP addresses or blocks, such as [10.2.0.0/16]' })
            .nullish(),
          show_private_bodies: z.boolean({ error: 'must be true or false' }).optional(),
        },
        'may contain allow and show_private_bodies, such as allow: [10.2.0.0/16]',
      ).nullish(),
      // Providers and names are parsed separately; otherwise, faults in this schema would hide faults in their settings.
      // Their keys are listed here so that they can be suggested for a misspelt key.
      providers: z.undefined().optional(),
      models: z.undefined().optional(),
      default_model: defaultModel.optional(),
    },
    'must be a mapping of keys',
  )
}

const addressBlock = z
  .string({ error: 'must be an IP address or a block in quotes' })
  .refine(isAddressBlock, { error: 'must be an IP address, or a block such as 10.0.0.0/8 or "fd00::/8"' })

const probability = z
  .number({ error: 'must be a probability, such as 0.5' })
  .gt(0, { error: 'must be above 0' })
  .lt(1, { error: 'must be below 1' })

const shieldModel = section(
  {
    folder: z
      .string({ error: 'must be the folder of a model in the ONNX format' })
      .min(1, { error: 'must not be empty' }),
    file: z.string({ error: 'must be the name of a file in the folder, such as model.onnx' }).optional(),
    attack_labels: z
      .array(z.string(), { error: 'must be a list of labels of the model, such as [INJECTION]' })
      .min(1, { error: 'must contain at least one label' })
      .optional(),
    examples: z.string({ error: 'must be a file of JSON lines {text, label}' }).optional(),
    max_tokens: z
      .int({ error: 'must be a whole number of tokens' })
      .min(SHIELD_MODEL_TOKENS.min, { error: `must be at least ${SHIELD_MODEL_TOKENS.min}` })
      .max(SHIELD_MODEL_TOKENS.max, { error: `must be at most ${SHIELD_MODEL_TOKENS.max}` })
      .optional(),
    timeout: z
      .string({ error: 'must be a duration, such as 500ms' })
      .transform(valueFrom((duration) => parseDuration(duration, SHIELD_MODEL_MS)))
      .optional(),
    flag_at: probability.optional(),
    block_at: probability.optional(),
    threads: z
      .int({ error: 'must be a whole number of threads' })
      .min(1, { error: 'must be at least 1' })
      .max(SHIELD_MODEL_THREADS_MAX, { error: `must be at most ${SHIELD_MODEL_THREADS_MAX}` })
      .optional(),
  },
  'must contain folder: DIR, and may contain file, attack_labels, examples, max_tokens, timeout, flag_at, block_at and threads',
).superRefine(({ flag_at = DEFAULT_SHIELD_MODEL.flagAt, block_at = DEFAULT_SHIELD_MODEL.blockAt }, context) => {
  if (flag_at >= block_at) context.addIssue(`flag_at (${flag_at}) must be below block_at (${block_at})`)
})

const retries = z
  .int({ error: 'must be a whole number of retries, or 0 for none' })
  .min(0, { error: 'must not be negative; use 0 for none' })
  .max(SAME_MODEL_RETRIES.max, { error: `must be at most ${SAME_MODEL_RETRIES.max}` })

const places = z.int({ error: 'must be a whole number of requests, or 0' }).min(0, { error: 'must not be negative' })

const jsonDepth = z
  .int({ error: 'must be a whole number of levels' })
  .min(COMPAT_JSON_DEPTH.min, { error: `must be at least ${COMPAT_JSON_DEPTH.min}` })
  .max(COMPAT_JSON_DEPTH.max, { error: `must be at most ${COMPAT_JSON_DEPTH.max}` })

const CONTENT_BYTES = { min: CONTENT_BYTES_MIN, max: COMPAT_BODY_BYTES.max } as const

const keepAlive = z.string({ error: 'must be a duration, such as 15s, or 0s for none' }).transform(
  valueFrom((duration) => {
    const ms = parseDuration(duration, { min: 0, max: CLIENT_KEEP_ALIVE_MS.max })
    if (ms > 0 && ms < CLIENT_KEEP_ALIVE_MS.min)
      throw new ValueFault(`${duration} is too short; use at least 1s, or 0s for none`)
    return ms
  }),
)

const origins = z.array(z.string({ error: 'must be an origin in quotes' }).transform(valueFrom(parseOrigin)), {
  error: 'must be a list of origins, such as [https://app.example.com], or ["*"] for every origin',
})

/** Browsers send an origin in exactly this form, so any other text would never match. */
function parseOrigin(text: string): string {
  if (text === '*') return text
  const url = parseUrl(text)
  const isPattern = text.includes('*')
  if (url && /^https?:$/.test(url.protocol) && url.origin === text && !isPattern) return text
  const hint =
    url && url.origin !== 'null' && !isPattern ? `; write "${url.origin}"` : ', such as https://app.example.com'
  throw new ValueFault(`"${text}" is not an origin: a scheme, a host and possibly a port${hint}`)
}

const answerTokens = z
  .int({ error: 'must be a whole number of tokens, or null for no limit' })
  .min(1, { error: 'must be at least 1; use null for no limit' })
  .max(ANSWER_TOKENS_MAX, { error: `must be at most ${ANSWER_TOKENS_MAX}` })

const outputTokens = z
  .int({ error: 'must be a whole number of tokens' })
  .min(1, { error: 'must be at least 1' })
  .max(ANSWER_TOKENS_MAX, { error: `must be at most ${ANSWER_TOKENS_MAX}` })

const countOf = (what: string) =>
  z
    .int({ error: `must be a whole number of ${what}, or null for no limit` })
    .min(1, { error: 'must be at least 1; use null for no limit' })
    .max(COUNT_LIMIT_MAX, { error: `must be at most ${COUNT_LIMIT_MAX}; use null for no limit` })

const modelId = z
  .string({ error: 'must be <provider>/<model>, such as openai/text-embedding-3-small' })
  .regex(/^[^/\s]+\/\S+$/, { error: 'must be <provider>/<model>, such as openai/text-embedding-3-small' })

const dimensions = z
  .int({ error: 'must be a whole number, such as 512' })
  .min(1, { error: 'must be at least 1' })
  .max(EMBEDDING_DIMENSIONS, { error: `must be at most ${EMBEDDING_DIMENSIONS}` })

const batch = z
  .int({ error: 'must be a whole number of passages' })
  .min(1, { error: 'must be at least 1' })
  .max(EMBEDDING_BATCH.max, { error: `must be at most ${EMBEDDING_BATCH.max}` })

const queryTimeout = z
  .int({ error: 'must be a whole number of milliseconds' })
  .min(1, { error: 'must be at least 1' })
  .max(QUERY_VECTOR_MS.max, { error: `must be at most ${QUERY_VECTOR_MS.max}` })

const poolSize = z
  .int({ error: 'must be a whole number of users, or 0 for no limit' })
  .min(0, { error: 'must not be negative; use 0 for no limit' })

const allowance = z
  .int({ error: 'must be a whole number of points, or null for no limit' })
  .min(0, { error: 'must not be negative' })

// The name must not contain spaces or plus signs, because key files (C2SP signed-note) use both characters as
// separators.
const signerName = z
  .string({ error: 'must be a name, such as gateway.example.com' })
  .regex(/^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$/, {
    error: 'must be letters, digits, dots, slashes and hyphens, such as gateway.example.com',
  })

const retentionDays = z
  .int({ error: 'must be a whole number of days, or 0 to keep everything' })
  .min(0, { error: 'must not be negative; use 0 to keep everything' })
  .max(EVIDENCE_RETENTION_DAYS.max, {
    error: `must be at most ${EVIDENCE_RETENTION_DAYS.max}; use 0 to keep everything`,
  })

const checkpointUrl = z.url({ protocol: /^https?$/, error: 'must be a URL, such as https://log.example.com/aigw' })

const witnessTime = z.iso.datetime({ error: 'must be a time in UTC, such as "2026-01-31T12:00:00Z"' })

const witness = section(
  {
    name: z
      .string({ error: 'must be a name, such as witness-1' })
      .regex(/^[\w.-]{1,64}$/, { error: 'must be letters, digits, dots, hyphens and underscores, such as witness-1' }),
    url: z.url({ protocol: /^https?$/, error: 'must be a URL, such as https://witness.example.com' }),
    key: z.string({ error: 'must be the verifier key of the witness in quotes' }).transform(valueFrom(toWitnessKey)),
    valid_from: witnessTime.optional(),
    valid_until: witnessTime.optional(),
  },
  'must contain name, url and key, and may contain valid_from and valid_until',
)

const witnessList = z
  .array(witness, { error: 'must be a list of witnesses, each with name, url and key' })
  .max(WITNESSES_MAX, { error: `must have at most ${WITNESSES_MAX} witnesses` })
  .refine((list) => areUnique(list.map(({ name }) => name)), { error: 'has two witnesses of the same name' })
  .refine((list) => areUnique(list.map(({ key }) => key.slice(key.indexOf('+') + 10))), {
    error: 'has two witnesses with the same key',
  })

const areUnique = (values: readonly string[]): boolean => new Set(values).size === values.length

/** Validates a verifier key. @throws ValueFault */
function toWitnessKey(text: string): string {
  try {
    parseWitnessKey(text)
    return text
  } catch (error) {
    throw error instanceof VerifierKeyError ? new ValueFault(error.message) : error
  }
}

/** Parses a key: `sk-` and 64 lower-case hex characters. Throws a ValueFault that does not contain the key. */
export function parseBootstrapKey(text: string): string {
  if (!API_KEY_PATTERN.test(text)) {
    throw new ValueFault(
      'must be sk- followed by 64 characters 0-9a-f; create one with: echo "sk-$(openssl rand -hex 32)"',
    )
  }
  return text
}

function checkPath(path: string): string {
  if (path === '') throw new ValueFault('is empty; set a path')
  if (path.startsWith('~')) throw new ValueFault('starts with ~, which only shells expand; write the full path')
  return path
}

/** Removes the excerpt of the file from a parser message, because the excerpt may contain a secret. */
const withoutSource = (message: string): string => message.replace(/:? *".*$/s, '')

const TOO_MANY_ALIASES = Symbol()

function toValue(document: Document): unknown {
  try {
    return document.toJS()
  } catch (error) {
    // The parser throws ReferenceError when aliases expand endlessly.
    if (error instanceof ReferenceError) return TOO_MANY_ALIASES
    throw error
  }
}

const isMapping = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/**
 * Returns the line of `key` in the file. If the key does not exist, returns the line of its deepest existing parent.
 */
function lineOf(document: Document, lines: LineCounter, key: readonly PropertyKey[]): number | undefined {
  let node: unknown = document.contents
  let offset: number | undefined
  for (const step of key) {
    if (isAlias(node)) node = node.resolve(document)
    if (isMap(node)) {
      const pair = node.items.find((item) => isScalar(item.key) && String(item.key.value) === String(step))
      if (pair === undefined) break
      if (isNode(pair.key)) offset = pair.key.range?.[0]
      node = pair.value
    } else if (isSeq(node)) {
      node = node.items[Number(step)]
      if (isNode(node)) offset = node.range?.[0]
    }
  }
  return offset === undefined ? undefined : lines.linePos(offset).line
}
