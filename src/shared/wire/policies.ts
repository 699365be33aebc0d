import { z } from 'zod'
import { DLP_DETECTOR_NAMES } from '../dlp-detectors.ts'
import { findNearestName } from '../nearest-name.ts'
import { isPiiEntity, PII_ENTITIES } from '../pii-entities.ts'
import { POLICY_NAME, toPolicyId } from '../policy-id.ts'
import { NAME_CHARS, POLICY_BLOCK_THRESHOLD, POLICY_LIST_ENTRIES, POLICY_RETENTION_DAYS } from '../spec-limits.ts'
import { CACHE_MODES } from './cache.ts'
import { ModelId } from './chat.ts'
import {
  closedObject,
  description,
  flag,
  label,
  oneOf,
  optional,
  readableName,
  readOnlyMembers,
  requestBody,
  storableText,
  unionError,
} from './common.ts'
import { SHIELD_SENSITIVITIES } from './keys.ts'

export const POLICY_MODES = ['monitor', 'enforce'] as const
/** Actions on a finding, in ascending order of severity. */
export const POLICY_ACTIONS = ['log', 'mask', 'remove', 'tokenize', 'block'] as const
export type PolicyAction = (typeof POLICY_ACTIONS)[number]
export const CANARY_ACTIONS = ['log', 'redact', 'block'] as const
/** What happens to an answer that quotes secret parts of its system prompt. */
export const PROMPT_LEAK_ACTIONS = ['flag', 'redact', 'block'] as const
/** What happens to addresses of unknown hosts in an answer, in ascending order of severity. */
export const URL_ACTIONS = ['allow', 'log', 'neutralise', 'block'] as const
export const URL_LINKS = ['data', 'all'] as const
export const POLICY_DIRECTIONS = ['input', 'output', 'both'] as const
/** The attachments that requests may contain, in ascending order of strictness. */
export const POLICY_ATTACHMENTS = ['allow', 'text-only', 'block'] as const

const section = <Shape extends z.core.$ZodLooseShape>(name: string, shape: Shape) =>
  closedObject(shape, `${name} must be an object`)

/** Removes duplicates and sorts the entries, so that equivalent documents have the same hash. */
const setOf = <T extends z.ZodType<string>>(name: string, entry: T) =>
  z
    .array(entry, { error: `${name} must be an array` })
    .max(POLICY_LIST_ENTRIES, { error: `${name} may have at most ${POLICY_LIST_ENTRIES} entries` })
    .overwrite((entries) => [...new Set(entries)].sort())

const models = (name: string) =>
  setOf(name, ModelId.meta({ description: '`<provider>/<model>`, or `<provider>/*` for all of a provider' })).default(
    [],
  )

const providerName = storableText('a provider').regex(/^[a-z0-9][a-z0-9._-]{0,63}$/, {
  error: 'a provider must be named as in <provider>/<model>',
})

const region = storableText('a region')
  .regex(/^[a-z0-9]+(-[a-z0-9]+)*$/, { error: 'a region must be written in lower case, such as "eu" or "eu-west-1"' })
  .max(NAME_CHARS, { error: `a region may have at most ${NAME_CHARS} characters` })

const host = storableText('a host')
  .regex(/^(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/, {
    error: 'a host must be written in lower case, such as "api.example.com", or "*.example.com" for all its subdomains',
  })
  .max(253, { error: 'a host may have at most 253 characters' })

const entity = storableText('an entity').refine(isPiiEntity, {
  error: ({ input }) => {
    const names = PII_ENTITIES.map(({ name }) => name)
    const nearest = findNearestName(String(input).slice(0, NAME_CHARS), names)
    return `unknown entity; ${nearest === undefined ? `known entities: ${names.join(', ')}` : `did you mean "${nearest}"?`}`
  },
})

/** Selects built-in detectors only. The tenant's own rules apply under every policy. */
const dlpRule = oneOf('each of dlp.rules', DLP_DETECTOR_NAMES)

/**
 * Either a keyword for a predefined set, or a list with at least one entry. To disable the check, use `enabled: false`.
 */
const wordOrSet = <const Words extends readonly [string, ...string[]], T extends z.ZodType<string>>(
  name: string,
  words: Words,
  entry: T,
) =>
  z.union([z.enum(words), setOf(name, entry).min(1, { error: `${name} must not be empty` })], {
    error: (issue) => unionError(issue, `${name} must be ${words.map((word) => `"${word}"`).join(', ')} or a list`),
  })

const direction = (name: string) => oneOf(name, POLICY_DIRECTIONS).default('both')

/**
 * A policy document. Omitted members and empty lists have no effect. The parsed document always has every field, so
 * equivalent documents are equal. The compiler requires that policy-join.ts has a rule for every field.
 */
export const PolicyDocument = section('policy', {
  version: z.literal(1, { error: 'version must be 1' }).default(1),
  mode: oneOf('mode', POLICY_MODES).default('enforce').meta({
    description: '`monitor`: findings are only recorded; nothing is rejected or changed',
  }),
  baseline: flag('baseline').default(false).meta({
    description:
      'While this policy is active, it is joined with the policy of every request; the stricter value applies',
  }),
  allowedModels: models('allowedModels'),
  deniedModels: models('deniedModels'),
  allowedProviders: setOf('allowedProviders', providerName).default([]),
  residency: section('residency', {
    allowedRegions: setOf('residency.allowedRegions', region)
      .default([])
      .meta({ description: '`eu` includes `eu-west-1`' }),
    onUnknown: oneOf('residency.onUnknown', ['deny', 'allow'])
      .default('deny')
      .meta({ description: 'The decision for a provider without a configured region' }),
  }).prefault({}),
  egress: section('egress', {
    allowHosts: setOf('egress.allowHosts', host).default([]),
    denyHosts: setOf('egress.denyHosts', host).default([]),
  }).prefault({}),
  pii: section('pii', {
    enabled: flag('pii.enabled').default(false),
    entities: wordOrSet('pii.entities', ['default', 'all'], entity)
      .default('default')
      .meta({ description: '`default`: the entities that are detected with certainty (docs/pii.md)' }),
    action: oneOf('pii.action', POLICY_ACTIONS).default('log'),
    direction: direction('pii.direction'),
    blockThreshold: z
      .int({ error: 'pii.blockThreshold must be a whole number of findings, or null' })
      .min(POLICY_BLOCK_THRESHOLD.min, { error: `pii.blockThreshold must be at least ${POLICY_BLOCK_THRESHOLD.min}` })
      .max(POLICY_BLOCK_THRESHOLD.max, { error: `pii.blockThreshold may be at most ${POLICY_BLOCK_THRESHOLD.max}` })
      .nullable()
      .default(null)
      .meta({ description: 'The number of findings in one request, answer, document or passage that blocks it' }),
  }).prefault({}),
  dlp: section('dlp', {
    enabled: flag('dlp.enabled').default(false),
    rules: wordOrSet('dlp.rules', ['default', 'all'], dlpRule)
      .default('default')
      .meta({ description: '`default`: all detectors except `source-code` (docs/dlp.md)' }),
    action: oneOf('dlp.action', POLICY_ACTIONS).default('log'),
    direction: direction('dlp.direction'),
  }).prefault({}),
  promptShield: section('promptShield', {
    required: flag('promptShield.required').default(false),
    minSensitivity: oneOf('promptShield.minSensitivity', SHIELD_SENSITIVITIES).default('permissive'),
    policyId: label('promptShield.policyId', NAME_CHARS).nullable().default(null),
  }).prefault({}),
  canary: section('canary', {
    enabled: flag('canary.enabled').default(false),
    action: oneOf('canary.action', CANARY_ACTIONS).default('block'),
  }).prefault({}),
  promptLeak: section('promptLeak', {
    action: oneOf('promptLeak.action', PROMPT_LEAK_ACTIONS).default('flag').meta({
      description:
        'The action on an answer that quotes secret parts of its system prompt, or any part if a user asked for it. `flag`: the prompt shield records an incident',
    }),
  }).prefault({}),
  urls: section('urls', {
    unknownHosts: oneOf('urls.unknownHosts', URL_ACTIONS).default('allow').meta({
      description:
        'The action on addresses in answers and tool arguments that load pictures from, or carry data to, hosts outside of urls.allowHosts',
    }),
    links: oneOf('urls.links', URL_LINKS).default('data').meta({
      description: '`all`: the action applies to every address of an unknown host, also without data',
    }),
    allowHosts: setOf('urls.allowHosts', host).default([]),
  }).prefault({}),
  serverTools: section('serverTools', {
    allowed: flag('serverTools.allowed')
      .default(false)
      .meta({ description: 'Whether requests may use tools that the provider runs, such as a web search' }),
  }).prefault({}),
  addresses: section('addresses', {
    allowed: flag('addresses.allowed').default(true).meta({
      description: 'Whether requests may contain addresses of images and documents, which the provider fetches',
    }),
  }).prefault({}),
  unreadFiles: section('unreadFiles', {
    allowed: flag('unreadFiles.allowed').default(true).meta({
      description:
        'Whether requests may contain files that guards cannot read: scanned or encrypted documents, audio, files by address, and files that the provider stores',
    }),
  }).prefault({}),
  attachments: oneOf('attachments', POLICY_ATTACHMENTS).default('allow').meta({
    description:
      'Images, audio and files in requests. `text-only`: the model gets the text of a file instead of the file, and other attachments are rejected. `block`: all are rejected',
  }),
  cache: section('cache', {
    mode: oneOf('cache.mode', CACHE_MODES).default('allowed').meta({
      description:
        'Whether answers may come from the answer cache. `allowed`: only if the key or the request asks for it. `on`: unless the request opts out',
    }),
  }).prefault({}),
  receipts: section('receipts', {
    required: flag('receipts.required').default(false).meta({
      description: 'Requests are rejected if this gateway does not serve receipts',
    }),
  }).prefault({}),
  privacyHeaders: section('privacyHeaders', { noTraining: flag('privacyHeaders.noTraining').default(false) }).prefault(
    {},
  ),
  retentionDays: z
    .int({ error: 'retentionDays must be a whole number of days, or null' })
    .min(POLICY_RETENTION_DAYS.min, { error: `retentionDays must be at least ${POLICY_RETENTION_DAYS.min}` })
    .max(POLICY_RETENTION_DAYS.max, { error: `retentionDays may be at most ${POLICY_RETENTION_DAYS.max}` })
    .nullable()
    .default(null),
  encryptBundle: flag('encryptBundle').default(false).meta({
    description: 'Whether answers that are stored for an Idempotency-Key are encrypted (AES-256-GCM)',
  }),
}).meta({ id: 'PolicyDocument' })
export type PolicyDocument = z.output<typeof PolicyDocument>
/** The document in a request. Its members are optional. */
export type PolicyDocumentInput = z.input<typeof PolicyDocument>

/** The ids that are not allowed, because they would collide with routes of policies. */
const RESERVED_IDS: readonly string[] = ['all', 'active', 'diff']

const policyName = readableName('name', NAME_CHARS)
  .regex(POLICY_NAME, {
    error: "name must begin with a letter or digit and contain only letters, digits, spaces and ( ) & + ' , . : _ -",
  })
  .overwrite((name) => name.replace(/ +/g, ' '))
  .refine((name) => !RESERVED_IDS.includes(toPolicyId(name)), { error: 'this name is reserved; choose another' })

/** The body of POST /smltp-policies. */
export const CreatePolicyRequest = requestBody('CreatePolicyRequest', {
  name: policyName,
  description,
  policy: PolicyDocument,
  setAsActive: optional(flag('setAsActive')),
})

/** The members of a policy that requests cannot change. */
export const POLICY_READ_ONLY = ['id', 'name', 'type', 'isActive', 'policyHash', 'createdAt', 'updatedAt'] as const

/**
 * The body of PUT /smltp-policies/{policyId}. Only the members in the body are changed. `policy` is replaced as a
 * whole. The policy's name cannot be changed, because keys refer to it.
 */
export const UpdatePolicyRequest = requestBody('UpdatePolicyRequest', {
  description: optional(description),
  policy: optional(PolicyDocument),
  ...readOnlyMembers(POLICY_READ_ONLY),
})

const reference = (name: string) =>
  z.union([label(name, NAME_CHARS), PolicyDocument], {
    error: (issue) => unionError(issue, `${name} must be the name or id of a policy, or a policy document`),
  })

/** The body of POST /smltp-policies/diff. */
export const DiffPoliciesRequest = requestBody('DiffPoliciesRequest', { from: reference('from'), to: reference('to') })

const summary = { id: z.string(), name: z.string(), description: z.string() }

/** A policy in a list for administrators. */
export const PolicySummary = z
  .object({
    ...summary,
    type: z.enum(['built-in', 'custom']),
    isActive: z.boolean(),
    policyHash: z.string().meta({ description: 'SHA-256 of the canonical JSON (RFC 8785) of the document, hex' }),
    createdAt: z.string().optional().meta({ description: 'Present only for custom policies' }),
    updatedAt: z.string().optional().meta({ description: 'Present only for custom policies' }),
  })
  .meta({ id: 'PolicySummary' })
export type PolicySummary = z.infer<typeof PolicySummary>

/** A policy with its complete document. */
export const Policy = PolicySummary.extend({ policy: PolicyDocument }).meta({ id: 'Policy' })
export type Policy = z.output<typeof Policy>

/** GET /smltp-policies */
export const DiscoverPoliciesResponse = z.object({
  success: z.literal(true),
  policies: z.array(z.object(summary)),
  restrictions: z.object({ allowed_policies: z.union([z.literal('all'), z.array(z.string())]) }),
})

export const ListPoliciesResponse = z.object({
  success: z.literal(true),
  data: z.object({
    builtInPolicies: z.array(PolicySummary),
    customPolicies: z.array(PolicySummary),
    activePolicyTemplate: z.string(),
    summary: z.object({ totalPolicies: z.int(), builtInCount: z.int(), customCount: z.int() }),
  }),
})

export const ActivePolicyResponse = z.object({
  success: z.literal(true),
  data: z.object({
    ...{ template: z.string(), policy: PolicyDocument, policyHash: z.string(), lastUpdated: z.string() },
    gaps: z.array(z.string()).meta({ description: 'What requests under this policy are not protected against' }),
  }),
})

/** The response of create, update and activate. */
export const PolicyResponse = z.object({ success: z.literal(true), message: z.string(), policy: Policy })
export const ShowPolicyResponse = z.object({ success: z.literal(true), policy: Policy })

/** GET /smltp-policies/{policyId}/effective. `policy` and `policyHash` are as they apply to requests. */
export const EffectivePolicyResponse = z.object({
  success: z.literal(true),
  policy: Policy,
  baseline: z
    .string()
    .nullable()
    .meta({ description: 'The id of the active policy if it is a baseline that was joined with this policy' }),
})

/** A difference between two documents: the field, such as `pii.action`, and its value in each document. */
export const PolicyDifference = z
  .object({ path: z.string(), from: z.unknown(), to: z.unknown() })
  .meta({ id: 'PolicyDifference' })
export type PolicyDifference = z.infer<typeof PolicyDifference>

const compared = z.object({
  id: z.string().nullable().meta({ description: 'Null for a document in the request' }),
  policyHash: z.string(),
})

export const DiffPoliciesResponse = z.object({
  success: z.literal(true),
  data: z.object({ from: compared, to: compared, equal: z.boolean(), differences: z.array(PolicyDifference) }),
})
