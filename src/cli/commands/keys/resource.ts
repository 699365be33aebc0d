import type { ApiKey } from '../../../shared/wire/keys.ts'
import type { Members } from '../../input/from-file.ts'
import { columns, flexible } from '../../output/formats.ts'
import type { Described } from '../../resources/resolve.ts'

const RATE_LIMIT = ['requestsPerMinute', 'requestsPerHour'] as const satisfies (keyof ApiKey['rateLimit'])[]
const LIMITS = [
  'messages',
  'contentBytes',
  'bodyBytes',
  'jsonDepth',
  'tools',
  'maxTokens',
  'defaultMaxTokens',
] as const satisfies (keyof ApiKey['limits'])[]
const USAGE_BY_MODEL = ['enabled', 'dollarLimit'] as const satisfies (keyof ApiKey['usageByModel'])[]
const FAILOVER = ['models', 'timeout_ms', 'first_token_timeout_ms', 'on'] as const satisfies (keyof NonNullable<
  ApiKey['failoverDefaults']
>)[]

export const KEY_MEMBERS: Members<keyof ApiKey> = {
  id: false,
  name: true,
  userId: false,
  user: false,
  status: false,
  isOperator: false,
  adminAccess: true,
  indexAccess: true,
  billingMode: true,
  usageByModel: USAGE_BY_MODEL,
  dailyLimit: true,
  monthlyLimit: true,
  rateLimit: RATE_LIMIT,
  limits: LIMITS,
  allowedModels: true,
  allowedIndexes: true,
  allowedSMLTPPolicies: true,
  defaultSMLTPPolicy: true,
  allowedIPs: true,
  enablePromptShield: true,
  promptShieldSensitivity: true,
  promptShieldPolicyId: true,
  allowedPromptShieldPolicies: true,
  allowPromptShieldOptOut: true,
  failoverDefaults: FAILOVER,
  cacheAnswers: true,
  createdAt: false,
  updatedAt: false,
  expiresAt: true,
  revokedAt: false,
  lastUsedAt: false,
}

const IN_LISTS = columns(
  { NAME: flexible('name'), USER: 'user.email', STATUS: 'status', ADMIN: 'adminAccess', EXPIRES: 'expiresAt' },
  { 'LAST USED': 'lastUsedAt', ID: 'id' },
)

/** An empty list means "unrestricted". Null means "unlimited". */
const orAny = (value: unknown): unknown => (Array.isArray(value) && value.length === 0 ? 'any' : value)
const orNone = (value: unknown): unknown => value ?? 'none'

/** Lists the limits that are set, such as `maxTokens 500`. */
function toLimits(value: unknown): string {
  const set = Object.entries(value ?? {}).flatMap(([name, limit]) => (limit === null ? [] : `${name} ${limit}`))
  return set.join(', ') || 'none'
}

const RESTRICTIONS = columns(
  { 'PER DAY': ['dailyLimit', orNone], 'PER MONTH': ['monthlyLimit', orNone] },
  { 'PER MINUTE': ['rateLimit.requestsPerMinute', orNone], 'PER HOUR': ['rateLimit.requestsPerHour', orNone] },
  { 'REQUEST LIMITS': ['limits', toLimits] },
  { MODELS: ['allowedModels', orAny], INDEXES: ['allowedIndexes', orAny], 'INDEX ACCESS': 'indexAccess' },
  { POLICIES: ['allowedSMLTPPolicies', orAny], 'DEFAULT POLICY': 'defaultSMLTPPolicy' },
  { ADDRESSES: ['allowedIPs', orAny], FAILOVER: 'failoverDefaults.models', BILLING: 'billingMode' },
)

const shared = { idPath: 'id', members: Object.keys(KEY_MEMBERS), none: 'No keys found.' }

/** Several keys may have the same name. A revoked key is found only by its id. */
export const KEYS: Described<ApiKey> = {
  noun: 'API key',
  command: 'keys',
  path: '/api/admin/api-keys',
  itemsKey: 'apiKeys',
  itemKey: 'apiKey',
  isCalled: ({ name, status }, given) => name === given && status !== 'revoked',
  sharesNames: true,
  argument: 'id, or a unique name',
  listView: { ...shared, columns: IN_LISTS },
  view: { ...shared, columns: [...IN_LISTS, ...RESTRICTIONS] },
}
