import { type Command, Option } from 'commander'
import type { ZERO_KNOWLEDGE } from '../../../shared/wire/indexes.ts'
import type { ApiKey } from '../../../shared/wire/keys.ts'
import { usageError } from '../../errors.ts'
import { opposed } from '../../input/exclusive-flags.ts'
import type { Members } from '../../input/from-file.ts'
import { repeatable } from '../../input/repeatable.ts'
import { getIndexName } from '../indexes/name.ts'

export type KeyFlags = {
  admin?: boolean
  shield?: boolean
  model: string[]
  anyModel?: boolean
  index: string[]
  anyIndex?: boolean
  indexAccess?: string
  policy: string[]
  anyPolicy?: boolean
  defaultPolicy?: string
  daily?: string
  monthly?: string
  rpm?: string
  rph?: string
  allowIp: string[]
  anyIp?: boolean
  expires?: string
  failover?: string
  billingMode?: string
  fromFile?: string
}

const BILLING_MODES: Record<ApiKey['billingMode'], true> = { 'user-completions': true, 'usage-by-model': true }
const INDEX_ACCESS: Record<ApiKey['indexAccess'], true> = { read: true, write: true }

const RATE_LIMIT = ['requestsPerMinute', 'requestsPerHour'] as const satisfies (keyof ApiKey['rateLimit'])[]
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
  createdAt: false,
  updatedAt: false,
  expiresAt: true,
  revokedAt: false,
  lastUsedAt: false,
}

/** What may be said about a key, new or old. Flags that repeat replace the whole list. */
export const addKeyOptions = (command: Command): Command =>
  opposed(command, 'shield')
    .option('--shield', 'its prompts go through the prompt shield')
    .option('--no-shield', 'they do not, unless a policy asks for it')
    .addOption(repeatable(new Option('--model <model>', "it may use PROVIDER/MODEL or 'PROVIDER/*'; repeatable")))
    .addOption(new Option('--any-model', 'it may use every model').conflicts('model'))
    .addOption(repeatable(new Option('--index <name>', "it may query this knowledge base, or 'none'; repeatable")))
    .addOption(new Option('--any-index', 'it may query every one').conflicts('index'))
    .addOption(
      new Option('--index-access <level>', 'whether it changes the documents of knowledge bases').choices(
        Object.keys(INDEX_ACCESS),
      ),
    )
    .addOption(repeatable(new Option('--policy <name>', 'it may ask for this SMLTP policy; repeatable')))
    .addOption(new Option('--any-policy', 'it may ask for every one').conflicts('policy'))
    .option('--default-policy <name>', "SMLTP policy of requests that name none, or 'none'")
    .option('--daily <n>', "requests a UTC day, or 'none' for no limit")
    .option('--monthly <n>', "requests a UTC month, or 'none'")
    .option('--rpm <n>', "requests a minute, or 'none'")
    .option('--rph <n>', "requests an hour, or 'none'")
    .addOption(repeatable(new Option('--allow-ip <cidr>', 'accepted from this address or block; repeatable')))
    .addOption(new Option('--any-ip', 'accepted from every address').conflicts('allowIp'))
    .option('--expires <when>', '90d, 12h or 4w from now on, 2030-01-31, 2030-01-31T12:00:00Z, or never')
    .option('--failover <a,b,c>', "models to try in turn for requests that name no chain, or 'none'")
    .addOption(new Option('--billing-mode <mode>', 'what its requests draw on').choices(Object.keys(BILLING_MODES)))

/** The flags as members of a request, undefined for what was not said; `expires` is for the caller. Throws usage errors. */
export function toKeyFields(flags: KeyFlags) {
  const { admin, indexAccess, defaultPolicy, failover, billingMode } = flags
  const perMinute = toCount(flags.rpm, '--rpm')
  const perHour = toCount(flags.rph, '--rph')
  return {
    adminAccess: admin,
    indexAccess,
    billingMode,
    dailyLimit: toCount(flags.daily, '--daily'),
    monthlyLimit: toCount(flags.monthly, '--monthly'),
    rateLimit:
      perMinute === undefined && perHour === undefined
        ? undefined
        : { requestsPerMinute: perMinute, requestsPerHour: perHour },
    allowedModels: toAllowed(flags.model, flags.anyModel),
    allowedIndexes: toAllowed(flags.index.map(toIndex), flags.anyIndex),
    allowedSMLTPPolicies: toAllowed(flags.policy, flags.anyPolicy),
    defaultSMLTPPolicy: orNull(defaultPolicy),
    allowedIPs: toAllowed(flags.allowIp, flags.anyIp),
    enablePromptShield: flags.shield,
    failoverDefaults: failover === undefined ? undefined : toFailover(failover),
  }
}

const NO_INDEX: typeof ZERO_KNOWLEDGE = 'Zero-Knowledge'

/** Every key may ask without a knowledge base, so that one alone in the list shuts out all others. */
const toIndex = (text: string): string => (text === 'none' || text === NO_INDEX ? NO_INDEX : getIndexName(text))

/** An empty list restricts nothing. */
const toAllowed = (list: string[], any: boolean | undefined): string[] | undefined =>
  any === true ? [] : list.length === 0 ? undefined : [...new Set(list)]

const orNull = (text: string | undefined): string | null | undefined => (text === 'none' ? null : text)

/** Bounds are the gateway's to judge. */
function toCount(text: string | undefined, flag: string): number | null | undefined {
  if (text === undefined) return undefined
  if (text === 'none') return null
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw usageError(`${flag} must be a whole number or 'none', not '${text}'`)
}

function toFailover(text: string): { models: string[] } | null {
  if (text === 'none') return null
  return {
    models: text
      .split(',')
      .map((model) => model.trim())
      .filter((model) => model !== ''),
  }
}
