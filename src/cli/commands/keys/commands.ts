/** Manages API keys. */
import type { ZERO_KNOWLEDGE } from '../../../shared/wire/indexes.ts'
import type { ApiKey } from '../../../shared/wire/keys.ts'
import type { CliContext } from '../../context.ts'
import { usageError } from '../../errors.ts'
import { type Field, field } from '../../input/fields.ts'
import { isObject, withFlags } from '../../input/from-file.ts'
import { findOne } from '../../resources/listing.ts'
import { createVerb, deleteVerb, idOf, listVerb, secretVerb, showVerb, updateVerb } from '../../resources/verbs.ts'
import type { Whoami } from '../account/whoami.ts'
import { getIndexName } from '../indexes/name.ts'
import { USERS } from '../users/resource.ts'
import { toExpiry } from './expiry.ts'
import { KEY_MEMBERS, KEYS } from './resource.ts'

const BILLING_MODES: Record<ApiKey['billingMode'], true> = { 'user-completions': true, 'usage-by-model': true }
const INDEX_ACCESS: Record<ApiKey['indexAccess'], true> = { read: true, write: true }
const STATUSES: Record<ApiKey['status'], true> = { active: true, expired: true, revoked: true }

/** A repeatable flag replaces the whole list. `--any-…` empties the list and so removes the restriction. */
const models = { member: 'allowedModels', conflicts: 'model', sets: { allowedModels: [] } }
const indexes = { member: 'allowedIndexes', conflicts: 'index', sets: { allowedIndexes: [] } }
const policies = { member: 'allowedSMLTPPolicies', conflicts: 'policy', sets: { allowedSMLTPPolicies: [] } }
const addresses = { member: 'allowedIPs', conflicts: 'allowIp', sets: { allowedIPs: [] } }
const count = { parse: toCount }
const list = { isList: true } as const

const name: Field = { member: 'name', flag: '--name <text>', help: 'its name' }
const admin = { member: 'adminAccess', flag: '--admin', help: "with its owner's administrator rights" }
const user = { member: 'userId', flag: '--user <user>', resolve: idOf(USERS) }

/** The fields of create and update. */
const FIELDS: Field[] = [
  { member: 'enablePromptShield', flag: '--shield', help: 'its prompts go through the prompt shield' },
  { member: 'enablePromptShield', flag: '--no-shield', help: 'they do not, unless a policy requires it' },
  field('allowedModels', '--model <model>', "it may use PROVIDER/MODEL, 'PROVIDER/*' or a name; repeatable", list),
  { ...models, flag: '--any-model', help: 'it may use every model' },
  field('allowedIndexes', '--index <name>', "it may query this knowledge base, or 'none'; repeatable", {
    ...list,
    parse: toIndex,
  }),
  { ...indexes, flag: '--any-index', help: 'it may query every knowledge base' },
  field('indexAccess', '--index-access <level>', 'whether it may change documents', {
    choices: Object.keys(INDEX_ACCESS),
  }),
  field('allowedSMLTPPolicies', '--policy <name>', 'it may request this SMLTP policy; repeatable', list),
  { ...policies, flag: '--any-policy', help: 'it may request every policy' },
  field('defaultSMLTPPolicy', '--default-policy <name>', "SMLTP policy of requests that name none, or 'none'", {
    parse: orNull,
  }),
  { member: 'dailyLimit', flag: '--daily <n>', help: "requests a UTC day, or 'none' for no limit", ...count },
  { member: 'monthlyLimit', flag: '--monthly <n>', help: "requests a UTC month, or 'none'", ...count },
  { member: 'rateLimit.requestsPerMinute', flag: '--rpm <n>', help: "requests a minute, or 'none'", ...count },
  { member: 'rateLimit.requestsPerHour', flag: '--rph <n>', help: "requests an hour, or 'none'", ...count },
  { member: 'limits.messages', flag: '--limit-messages <n>', help: "messages in a request, or 'none'", ...count },
  { member: 'limits.contentBytes', flag: '--limit-content <bytes>', help: "text in a request, or 'none'", ...count },
  { member: 'limits.bodyBytes', flag: '--limit-body <bytes>', help: "body of a request, or 'none'", ...count },
  { member: 'limits.jsonDepth', flag: '--limit-depth <n>', help: "nesting of a request's JSON, or 'none'", ...count },
  { member: 'limits.tools', flag: '--limit-tools <n>', help: "tools in a request, or 'none'", ...count },
  { member: 'limits.maxTokens', flag: '--limit-tokens <n>', help: "tokens of an answer, or 'none'", ...count },
  {
    member: 'limits.defaultMaxTokens',
    flag: '--default-tokens <n>',
    help: "tokens of an answer whose request sets no limit, or 'none'",
    ...count,
  },
  field('allowedIPs', '--allow-ip <cidr>', 'accepted from this address or block; repeatable', list),
  { ...addresses, flag: '--any-ip', help: 'accepted from every address' },
  field('expiresAt', '--expires <when>', '90d, 12h or 4w from now on, 2030-01-31, 2030-01-31T12:00:00Z, or never', {
    parse: toExpiresAt,
  }),
  field('failoverDefaults', '--failover <a,b,c>', "models to try in turn for requests that name no chain, or 'none'", {
    parse: toFailover,
  }),
  { member: 'cacheAnswers', flag: '--cache', help: 'its requests use the answer cache' },
  { member: 'cacheAnswers', flag: '--no-cache', help: 'they use it only if they ask for it, or their policy does' },
  field('billingMode', '--billing-mode <mode>', 'how its requests are billed', { choices: Object.keys(BILLING_MODES) }),
]

export const commands = {
  create: createVerb(KEYS, {
    description:
      'Create an API key and print its secret, once: alone on stdout, or as `secret` of the key with -o json.\n' +
      "The key gets its owner's administrator rights only with --admin. Omitted fields have " +
      "the gateway's defaults.",
    fields: [
      { ...name, ask: 'Name of the key:', parse: (text) => text.trim() },
      { ...user, help: 'its owner: id, email, username or name (default: the caller)' },
      admin,
      ...FIELDS,
    ],
    file: KEY_MEMBERS,
    help:
      '--if-not-exists looks for an active key of this name and owner. Names of keys need not be unique, so two runs\n' +
      'at the same moment may create two keys. The secret of an existing key cannot be shown again.\n\nExample:\n' +
      "  aigw keys create --name ci --user ada@example.com --model 'local/*' --daily 500 --save-to ci.key",
    toRequest: (_, input) => ({ adminAccess: false, ...input }),
    // Relative times are not compared: the expiry time of the existing key depends on when the key was created.
    toWanted: (request, { expires }) => (isRelative(expires) ? { ...request, expiresAt: undefined } : request),
    find: (context, called, { userId }) => findActive(context, called, userId),
    useIt: () => 'aigw keys list',
    secret: {
      done: (key) => `Created API key '${key.name}' (${key.id}).`,
      renewal: (key) => `aigw keys rotate ${key.id}`,
    },
  }),
  list: listVerb(KEYS, {
    description: 'List API keys; never their secrets.',
    fields: [
      { ...user, help: `only those of this user: ${USERS.argument}` },
      { member: 'status', flag: '--status <status>', help: 'only these', choices: Object.keys(STATUSES) },
    ],
    searched: 'their name',
  }),
  show: showVerb(KEYS, 'Show an API key and all of its restrictions; never its secret.'),
  update: updateVerb(KEYS, {
    description: 'Change the named fields of an API key; other fields stay. A repeatable flag replaces its list.',
    fields: [name, admin, { member: 'adminAccess', flag: '--no-admin', help: 'without them' }, ...FIELDS],
    file: KEY_MEMBERS,
    toChange(_, changes) {
      const { failoverDefaults: chain } = changes
      if (!isObject(chain)) return { changes }
      // The gateway replaces the whole object, so the request repeats its other members.
      return { changes, complete: (now) => ({ failoverDefaults: withFlags(now.failoverDefaults ?? {}, chain) }) }
    },
  }),
  rotate: secretVerb<ApiKey>(KEYS, {
    name: 'rotate',
    description: 'Give an API key a new secret and print it, once. The old one expires at once.',
    question: (key) => `Rotate the secret of API key '${key}'? The current one stops.`,
    done: (key) => `Rotated API key '${key.name}'.`,
  }),
  revoke: deleteVerb(KEYS, {
    name: 'revoke',
    description: 'Revoke an API key permanently; it stays in the list as revoked.',
    question: (key) => `Revoke API key '${key}'? It cannot be undone.`,
    done: 'revoked',
  }),
}

/** Finds the active key with this name and owner. By default, the owner is the caller. */
async function findActive(context: CliContext, called: string, userId: unknown): Promise<ApiKey | undefined> {
  const owner = typeof userId === 'string' ? userId : await ownId(context)
  const query = { userId: owner, status: 'active', sortOrder: 'asc' }
  const matches = (key: ApiKey) => key.name === called && key.userId === owner && key.status === 'active'
  return findOne<ApiKey>(context, { ...KEYS, query, search: called, matches })
}

async function ownId(context: CliContext): Promise<string> {
  const api = await context.api()
  const { body } = await api.send<Whoami>({ method: 'GET', path: 'whoami' })
  return body.user.id
}

function toExpiresAt(text: string, _flag: string, context: CliContext): string | null {
  return toExpiry(text, context.io.clock.now()).at
}

const isRelative = (expires: unknown): boolean => typeof expires === 'string' && toExpiry(expires, 0).isRelative

const NO_INDEX: typeof ZERO_KNOWLEDGE = 'Zero-Knowledge'

/**
 * `none` means Zero-Knowledge: no retrieval. Every key is allowed to use `none`. If the list contains only `none`, the
 * key is not allowed to use any index.
 */
function toIndex(text: string): string {
  return text === 'none' || text === NO_INDEX ? NO_INDEX : getIndexName(text)
}

function orNull(text: string): string | null {
  return text === 'none' ? null : text
}

/** The gateway validates the range. */
function toCount(text: string, flag: string): number | null {
  if (text === 'none') return null
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw usageError(`${flag} must be a whole number or 'none', not '${text}'`)
}

function toFailover(text: string): { models: string[] } | null {
  if (text === 'none') return null
  return { models: text.split(',').flatMap((model) => model.trim() || []) }
}
