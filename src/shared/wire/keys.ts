// The settings of a key in requests, in responses and in the store. The file is long because each setting has one place.
import { z } from 'zod'
import { isAddressBlock } from '../address-block.ts'
import { toIndexName } from '../index-name.ts'
import { INDEX_ACCESS } from '../permissions.ts'
import {
  ANSWER_TOKENS_MAX,
  COMPAT_BODY_BYTES,
  COMPAT_JSON_DEPTH,
  COUNT_LIMIT_MAX,
  KEY_LIST_ENTRIES,
  KEY_RATE,
  KEY_RATE_MAX,
  MODELS_PER_CHAIN,
  NAME_CHARS,
} from '../spec-limits.ts'
import { BILLING_MODES, IS_USAGE_BY_MODEL, UsageByModel, usageByModelFields } from './billing.ts'
import { attemptTimeouts, FAILOVER_TRIGGERS, RequestedModel } from './chat.ts'
import {
  closedObject,
  flag,
  label,
  listQuery,
  objectId,
  oneOf,
  optional,
  Pagination,
  readableName,
  readOnlyMembers,
  requestBody,
  storableText,
} from './common.ts'
import { UserReference } from './groups.ts'
import { ZERO_KNOWLEDGE } from './indexes.ts'

export const SHIELD_SENSITIVITIES = ['strict', 'balanced', 'permissive'] as const

const listOf = <T extends z.ZodType>(name: string, entry: T) =>
  z
    .array(entry, { error: `${name} must be an array` })
    .max(KEY_LIST_ENTRIES, { error: `${name} may have at most ${KEY_LIST_ENTRIES} entries` })

/** A limit: a whole number, or null for unlimited. */
const count = (name: string, max: number) =>
  z
    .int({ error: `${name} must be a whole number, or null for no limit` })
    .min(0, { error: `${name} must not be negative` })
    .max(max, { error: `${name} may be at most ${max}` })
    .nullable()

const policyName = (name: string) => label(name, NAME_CHARS)

const rateLimit = {
  requestsPerMinute: count('rateLimit.requestsPerMinute', KEY_RATE_MAX.minute),
  requestsPerHour: count('rateLimit.requestsPerHour', KEY_RATE_MAX.hour),
}
const rateLimitWithDefaults = {
  requestsPerMinute: rateLimit.requestsPerMinute.default(KEY_RATE.minute),
  requestsPerHour: rateLimit.requestsPerHour.default(KEY_RATE.hour),
}
const DEFAULT_RATE_LIMIT = { requestsPerMinute: KEY_RATE.minute, requestsPerHour: KEY_RATE.hour }
const IS_RATE_LIMIT = 'rateLimit must be an object {requestsPerMinute, requestsPerHour}'

/** A limit of one request. Null: the gateway's limit applies. */
const requestLimit = (name: string, max: number) =>
  z
    .int({ error: `${name} must be a whole number, or null` })
    .min(1, { error: `${name} must be at least 1` })
    .max(max, { error: `${name} may be at most ${max}` })
    .nullable()

const requestLimits = {
  messages: requestLimit('limits.messages', COUNT_LIMIT_MAX),
  contentBytes: requestLimit('limits.contentBytes', COMPAT_BODY_BYTES.max),
  bodyBytes: requestLimit('limits.bodyBytes', COMPAT_BODY_BYTES.max),
  jsonDepth: requestLimit('limits.jsonDepth', COMPAT_JSON_DEPTH.max),
  tools: requestLimit('limits.tools', COUNT_LIMIT_MAX),
  maxTokens: requestLimit('limits.maxTokens', ANSWER_TOKENS_MAX),
  defaultMaxTokens: requestLimit('limits.defaultMaxTokens', ANSWER_TOKENS_MAX),
}
const requestLimitsWithDefaults = {
  messages: requestLimits.messages.default(null),
  contentBytes: requestLimits.contentBytes.default(null),
  bodyBytes: requestLimits.bodyBytes.default(null),
  jsonDepth: requestLimits.jsonDepth.default(null),
  tools: requestLimits.tools.default(null),
  maxTokens: requestLimits.maxTokens.default(null),
  defaultMaxTokens: requestLimits.defaultMaxTokens.default(null),
}
/** The limits of a key that sets none. */
export const NO_REQUEST_LIMITS = Object.freeze(z.object(requestLimitsWithDefaults).parse({}))
const IS_REQUEST_LIMITS =
  'limits must be an object {messages, contentBytes, bodyBytes, jsonDepth, tools, maxTokens, defaultMaxTokens}'
const NO_USAGE_BY_MODEL = { enabled: false, dollarLimit: null }

const failoverTriggers = z.array(oneOf('each of failoverDefaults.on', FAILOVER_TRIGGERS), {
  error: 'failoverDefaults.on must be an array of triggers',
})

const failoverDefaults = {
  models: z
    .array(RequestedModel, { error: 'failoverDefaults.models must be an array of models' })
    .min(1, { error: 'failoverDefaults.models must not be empty' })
    .transform((models) => [...new Set(models)])
    .refine((models) => models.length <= MODELS_PER_CHAIN, {
      error: `failoverDefaults.models may name at most ${MODELS_PER_CHAIN} distinct models`,
    }),
  ...attemptTimeouts,
  on: optional(failoverTriggers),
}
const IS_FAILOVER = 'failoverDefaults must be an object {models, timeout_ms, first_token_timeout_ms, on}'

/** The restrictions of a key and their bounds. An empty list allows everything. Null means "not set" or "unlimited". */
const fields = {
  adminAccess: flag('adminAccess').meta({
    description:
      'Whether the key has administrator rights. They are those of its owner when they were last granted, as far as the owner still has them',
  }),
  indexAccess: oneOf('indexAccess', INDEX_ACCESS).meta({
    description:
      'Whether the key may add, replace and delete documents of the indexes that it may read. Without it, only the user of a personal index may, or a key with `index-management` at level `admin`',
  }),
  billingMode: oneOf('billingMode', BILLING_MODES),
  usageByModel: UsageByModel.meta({
    description:
      'A monthly budget of the key, within that of the billed account. If enabled, the key spends at most dollarLimit; null is no limit. {enabled: true, dollarLimit: 0} prevents billing in dollars',
  }),
  rateLimit: z.object(rateLimit, { error: IS_RATE_LIMIT }),
  limits: z.object(requestLimits, { error: IS_REQUEST_LIMITS }).meta({
    description: 'Limits of each request. They lower the limits of the gateway and never raise them',
  }),
  dailyLimit: count('dailyLimit', 1_000_000_000),
  monthlyLimit: count('monthlyLimit', 1_000_000_000),
  allowedModels: listOf(
    'allowedModels',
    RequestedModel.meta({
      description:
        '`<provider>/<model>`, `<provider>/*` for all models of a provider, or a name of the configuration for all models that it stands for',
    }),
  ),
  allowedIndexes: listOf(
    'allowedIndexes',
    label('each of allowedIndexes', NAME_CHARS)
      .transform((name) => (name === ZERO_KNOWLEDGE ? name : toIndexName(name)))
      .pipe(
        z.string().min(1, {
          error: 'each of allowedIndexes must have letters a-z, digits or "-", and no letters of other alphabets',
        }),
      ),
  ),
  allowedSMLTPPolicies: listOf('allowedSMLTPPolicies', policyName('each of allowedSMLTPPolicies')),
  defaultSMLTPPolicy: policyName('defaultSMLTPPolicy').nullable(),
  allowedIPs: listOf(
    'allowedIPs',
    storableText('each of allowedIPs').refine(isAddressBlock, {
      error: 'each of allowedIPs must be an address or a block such as 10.0.0.0/8',
    }),
  ),
  enablePromptShield: flag('enablePromptShield'),
  promptShieldSensitivity: oneOf('promptShieldSensitivity', SHIELD_SENSITIVITIES),
  promptShieldPolicyId: policyName('promptShieldPolicyId').nullable(),
  allowedPromptShieldPolicies: listOf('allowedPromptShieldPolicies', policyName('each of allowedPromptShieldPolicies')),
  allowPromptShieldOptOut: flag('allowPromptShieldOptOut'),
  failoverDefaults: z.object(failoverDefaults, { error: IS_FAILOVER }).nullable(),
  cacheAnswers: flag('cacheAnswers').meta({
    description: 'Whether its requests use the answer cache. A request can opt out, and a policy can forbid the cache',
  }),
}

/**
 * The stored settings of a key. If a later version adds a field, reading an older row sets this field to its default.
 */
export const KeySettings = z.object({
  adminAccess: fields.adminAccess.default(true),
  indexAccess: fields.indexAccess.default('read'),
  billingMode: fields.billingMode.default('user-completions'),
  usageByModel: fields.usageByModel.default(NO_USAGE_BY_MODEL),
  dailyLimit: fields.dailyLimit.default(KEY_RATE.day),
  monthlyLimit: fields.monthlyLimit.default(KEY_RATE.month),
  rateLimit: z.object(rateLimitWithDefaults, { error: IS_RATE_LIMIT }).default(DEFAULT_RATE_LIMIT),
  limits: z.object(requestLimitsWithDefaults, { error: IS_REQUEST_LIMITS }).default(NO_REQUEST_LIMITS),
  allowedModels: fields.allowedModels.default([]),
  allowedIndexes: fields.allowedIndexes.default([]),
  allowedSMLTPPolicies: fields.allowedSMLTPPolicies.default(['public', 'internal']),
  defaultSMLTPPolicy: fields.defaultSMLTPPolicy.default(null),
  allowedIPs: fields.allowedIPs.default([]),
  enablePromptShield: fields.enablePromptShield.default(false),
  promptShieldSensitivity: fields.promptShieldSensitivity.default('balanced'),
  promptShieldPolicyId: fields.promptShieldPolicyId.default(null),
  allowedPromptShieldPolicies: fields.allowedPromptShieldPolicies.default([]),
  allowPromptShieldOptOut: fields.allowPromptShieldOptOut.default(false),
  failoverDefaults: fields.failoverDefaults.default(null),
  cacheAnswers: fields.cacheAnswers.default(false),
})
export type KeySettings = z.output<typeof KeySettings>
/** The limits that a key sets for each of its requests. */
export type KeyRequestLimits = KeySettings['limits']

/** The settings of a key that was created without settings. */
export const DEFAULT_KEY_SETTINGS: KeySettings = Object.freeze(KeySettings.parse({}))

/** A key in responses to administrators. Its secret is shown only when it is created or rotated. */
export const ApiKey = z
  .object({
    id: z.string(),
    name: z.string(),
    userId: z.string(),
    user: UserReference,
    status: z.enum(['active', 'expired', 'revoked']),
    isOperator: z.boolean(),
    ...fields,
    failoverDefaults: z
      .object({
        models: z.array(z.string()),
        timeout_ms: z.number().optional(),
        first_token_timeout_ms: z.number().optional(),
        on: z.array(z.enum(FAILOVER_TRIGGERS)).optional(),
      })
      .nullable(),
    createdAt: z.string(),
    updatedAt: z.string(),
    expiresAt: z.string().nullable(),
    revokedAt: z.string().nullable(),
    lastUsedAt: z.string().nullable().meta({ description: 'To the minute' }),
  })
  .meta({ id: 'ApiKey' })
export type ApiKey = z.output<typeof ApiKey>

const expiresAt = z.iso
  .datetime({ offset: true, error: 'expiresAt must be an ISO 8601 time such as 2030-01-31T00:00:00Z, or null' })
  .nullable()

/** In members for which `null` has no other meaning, `null` means "not set". */
const orDefault = <T extends z.ZodType>(schema: z.ZodDefault<T>) =>
  schema.nullable().transform((value) => (value === null ? schema.parse(undefined) : value))

/**
 * Requests must not contain unknown members. Stored rows may contain unknown members, because a later version may have
 * written the row.
 */
const closed = {
  failoverDefaults: closedObject(failoverDefaults, IS_FAILOVER).nullable(),
  enforceSMLTPPolicies: z
    .literal(true, { error: 'enforceSMLTPPolicies can only be true: policies always apply' })
    .nullish()
    .meta({ description: 'A field of the contract without effect: policies always apply' }),
}

/** The body of POST /api/admin/api-keys. If `userId` is omitted, the caller owns the key. */
export const CreateKeyRequest = requestBody('CreateKeyRequest', {
  name: readableName('name', NAME_CHARS),
  userId: optional(objectId('userId')),
  expiresAt: expiresAt.optional(),
  ...KeySettings.shape,
  adminAccess: orDefault(KeySettings.shape.adminAccess),
  indexAccess: orDefault(KeySettings.shape.indexAccess),
  billingMode: orDefault(KeySettings.shape.billingMode),
  ...closed,
  failoverDefaults: closed.failoverDefaults.default(null),
  usageByModel: orDefault(closedObject(usageByModelFields, IS_USAGE_BY_MODEL).default(NO_USAGE_BY_MODEL)),
  rateLimit: orDefault(closedObject(rateLimitWithDefaults, IS_RATE_LIMIT).default(DEFAULT_RATE_LIMIT)),
  limits: orDefault(closedObject(requestLimitsWithDefaults, IS_REQUEST_LIMITS).default(NO_REQUEST_LIMITS)),
  allowedModels: orDefault(KeySettings.shape.allowedModels),
  allowedIndexes: orDefault(KeySettings.shape.allowedIndexes),
  allowedSMLTPPolicies: orDefault(KeySettings.shape.allowedSMLTPPolicies),
  allowedIPs: orDefault(KeySettings.shape.allowedIPs),
  enablePromptShield: orDefault(KeySettings.shape.enablePromptShield),
  promptShieldSensitivity: orDefault(KeySettings.shape.promptShieldSensitivity),
  allowedPromptShieldPolicies: orDefault(KeySettings.shape.allowedPromptShieldPolicies),
  allowPromptShieldOptOut: orDefault(KeySettings.shape.allowPromptShieldOptOut),
  cacheAnswers: orDefault(KeySettings.shape.cacheAnswers),
})

/** The members of a key that requests cannot change. */
export const KEY_READ_ONLY = [
  'id',
  'userId',
  'user',
  'status',
  'isOperator',
  'createdAt',
  'updatedAt',
  'revokedAt',
  'lastUsedAt',
] as const satisfies (keyof ApiKey)[]

/**
 * The body of PUT /api/admin/api-keys/{keyId}. Only the members in the body are changed. `rateLimit`, `limits` and
 * `usageByModel` are merged member by member. Null clears a nullable field. For other fields, null means "not set".
 */
export const UpdateKeyRequest = requestBody('UpdateKeyRequest', {
  ...closed,
  name: optional(readableName('name', NAME_CHARS)),
  expiresAt: expiresAt.optional(),
  adminAccess: optional(fields.adminAccess),
  indexAccess: optional(fields.indexAccess),
  billingMode: optional(fields.billingMode),
  usageByModel: optional(
    closedObject({ ...usageByModelFields, enabled: optional(usageByModelFields.enabled) }, IS_USAGE_BY_MODEL).partial(),
  ),
  rateLimit: optional(closedObject(rateLimit, IS_RATE_LIMIT).partial()),
  limits: optional(closedObject(requestLimits, IS_REQUEST_LIMITS).partial()),
  dailyLimit: fields.dailyLimit.optional(),
  monthlyLimit: fields.monthlyLimit.optional(),
  allowedModels: optional(fields.allowedModels),
  allowedIndexes: optional(fields.allowedIndexes),
  allowedSMLTPPolicies: optional(fields.allowedSMLTPPolicies),
  defaultSMLTPPolicy: fields.defaultSMLTPPolicy.optional(),
  allowedIPs: optional(fields.allowedIPs),
  enablePromptShield: optional(fields.enablePromptShield),
  promptShieldSensitivity: optional(fields.promptShieldSensitivity),
  promptShieldPolicyId: fields.promptShieldPolicyId.optional(),
  allowedPromptShieldPolicies: optional(fields.allowedPromptShieldPolicies),
  allowPromptShieldOptOut: optional(fields.allowPromptShieldOptOut),
  failoverDefaults: closed.failoverDefaults.optional(),
  cacheAnswers: optional(fields.cacheAnswers),
  ...readOnlyMembers(KEY_READ_ONLY),
})

export const KEY_SORTS = ['createdAt', 'updatedAt', 'name'] as const

export const ListKeysQuery = listQuery(KEY_SORTS).extend({
  userId: objectId('userId').optional(),
  status: oneOf('status', ['active', 'expired', 'revoked']).optional(),
})

/** The response of create and rotate. Only this response contains the secret. */
export const KeySecretResponse = z.object({
  success: z.literal(true),
  message: z.string(),
  apiKey: ApiKey,
  secret: z.string().meta({ description: '`sk-` and 64 hex characters; only its SHA-256 is stored' }),
})
/** The response of update and revoke. */
export const KeyResponse = z.object({ success: z.literal(true), message: z.string(), apiKey: ApiKey })
export const ShowKeyResponse = z.object({ success: z.literal(true), apiKey: ApiKey })
export const ListKeysResponse = z.object({ success: z.literal(true), apiKeys: z.array(ApiKey), pagination: Pagination })
