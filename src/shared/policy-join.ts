// The join of two policy documents: the document that is at least as strict as both, field by field.
import { DEFAULT_DLP_DETECTORS } from './dlp-detectors.ts'
import { DEFAULT_PII_ENTITIES } from './pii-entities.ts'
import { toPolicyId } from './policy-id.ts'
import { SHIELD_SENSITIVITIES } from './wire/keys.ts'
import {
  CANARY_ACTIONS,
  POLICY_ACTIONS,
  POLICY_ATTACHMENTS,
  POLICY_MODES,
  type PolicyDocument,
  PROMPT_LEAK_ACTIONS,
  URL_ACTIONS,
  URL_LINKS,
} from './wire/policies.ts'

/** Returns the stricter of two values. A join is commutative, associative and idempotent. */
type Join<T> = (one: T, other: T) => T
type Section<Name extends keyof PolicyDocument> = PolicyDocument[Name]
type Joins<T> = { readonly [Field in keyof T]-?: Join<T[Field]> }

/**
 * The entry of a list that allows nothing. An empty list allows everything, so two lists without a common entry cannot
 * become an empty list. No model, provider, region or host has this name.
 */
export const NOTHING = '(none)'

/** @param values in ascending order of strictness */
const strongest =
  <const T>(values: readonly T[]): Join<T> =>
  (one, other) =>
    values.indexOf(one) >= values.indexOf(other) ? one : other

const either: Join<boolean> = (one, other) => one || other
const both: Join<boolean> = (one, other) => one && other

const smallest: Join<number | null> = (one, other) =>
  one === null || other === null ? (one ?? other) : Math.min(one, other)

const sorted = <T extends string>(entries: Iterable<T>): T[] => [...new Set(entries)].sort()

const united = <T extends string>(one: readonly T[], other: readonly T[]): T[] => sorted([...one, ...other])

/** Intersects two lists of patterns. @param covers whether the first pattern includes everything of the second */
const intersected =
  (covers: (pattern: string, other: string) => boolean): Join<string[]> =>
  (one, other) => {
    if (one.length === 0 || other.length === 0) return one.length === 0 ? other : one
    const common = one.flatMap((a) => other.flatMap((b) => (covers(a, b) ? b : covers(b, a) ? a : [])))
    return common.length === 0 ? [NOTHING] : sorted(common)
  }

const isSame = (one: string, other: string): boolean => one === other
const coversModel = (pattern: string, other: string): boolean =>
  pattern === other || (pattern.endsWith('/*') && other.startsWith(pattern.slice(0, -1)))
const coversRegion = (region: string, other: string): boolean => region === other || other.startsWith(`${region}-`)
const coversHost = (pattern: string, other: string): boolean =>
  pattern === other || (pattern.startsWith('*.') && other.endsWith(pattern.slice(1)))

/** Intersects two lists of known hosts. Here an empty list contains no host, so the result may be empty. */
const knownHosts: Join<string[]> = (one, other) =>
  sorted(one.flatMap((a) => other.flatMap((b) => (coversHost(a, b) ? b : coversHost(b, a) ? a : []))))

/** Unites two selections of detectors. */
const selection =
  <T extends string>(byDefault: readonly T[]): Join<'default' | 'all' | T[]> =>
  (one, other) => {
    if (one === 'all' || other === 'all') return 'all'
    if (one === 'default' && other === 'default') return 'default'
    return united(one === 'default' ? byDefault : one, other === 'default' ? byDefault : other)
  }

const fields =
  <T extends object>(joins: Joins<T>): Join<T> =>
  (one, other) =>
    Object.fromEntries(
      (Object.keys(joins) as (keyof T)[]).map((field) => [field, joins[field](one[field], other[field])]),
    ) as T

/**
 * Joins sections that may be off. A section that is off has no effect, so its other fields do not count beside a
 * section that is on.
 */
const switched =
  <T extends object>(isOn: (section: T) => boolean, joins: Joins<T>): Join<T> =>
  (one, other) => {
    if (isOn(one) !== isOn(other)) return isOn(one) ? one : other
    return fields(joins)(one, other)
  }

const isEnabled = ({ enabled }: { enabled: boolean }): boolean => enabled

const direction: Join<Section<'pii'>['direction']> = (one, other) => (one === other ? one : 'both')

const AND = ' + '

/** Names both shield policies. Ids have no spaces, so the names stay distinct. */
const shieldPolicies: Join<string | null> = (one, other) => {
  if (one === null || other === null || one === other) return one ?? other
  return sorted([one, other].flatMap((ids) => ids.split(AND).map(toPolicyId))).join(AND)
}

const shieldStrictness = switched<Pick<Section<'promptShield'>, 'required' | 'minSensitivity'>>(
  ({ required }) => required,
  { required: either, minSensitivity: strongest([...SHIELD_SENSITIVITIES].reverse()) },
)

/** The rule of each field. */
const JOINS: Joins<PolicyDocument> = {
  version: (one) => one,
  mode: strongest(POLICY_MODES),
  baseline: either,
  allowedModels: intersected(coversModel),
  deniedModels: united,
  allowedProviders: intersected(isSame),
  residency: switched<Section<'residency'>>(({ allowedRegions }) => allowedRegions.length > 0, {
    allowedRegions: intersected(coversRegion),
    onUnknown: strongest(['allow', 'deny']),
  }),
  egress: fields<Section<'egress'>>({ allowHosts: intersected(coversHost), denyHosts: united }),
  pii: switched<Section<'pii'>>(isEnabled, {
    enabled: either,
    entities: selection(DEFAULT_PII_ENTITIES),
    action: strongest(POLICY_ACTIONS),
    direction,
    blockThreshold: smallest,
  }),
  dlp: switched<Section<'dlp'>>(isEnabled, {
    enabled: either,
    rules: selection(DEFAULT_DLP_DETECTORS),
    action: strongest(POLICY_ACTIONS),
    direction,
  }),
  promptShield: (one, other) => ({
    ...shieldStrictness(one, other),
    policyId: shieldPolicies(one.policyId, other.policyId),
  }),
  canary: switched<Section<'canary'>>(isEnabled, { enabled: either, action: strongest(CANARY_ACTIONS) }),
  promptLeak: fields<Section<'promptLeak'>>({ action: strongest(PROMPT_LEAK_ACTIONS) }),
  urls: switched<Section<'urls'>>(({ unknownHosts }) => unknownHosts !== 'allow', {
    unknownHosts: strongest(URL_ACTIONS),
    links: strongest(URL_LINKS),
    allowHosts: knownHosts,
  }),
  serverTools: fields<Section<'serverTools'>>({ allowed: both }),
  addresses: fields<Section<'addresses'>>({ allowed: both }),
  unreadFiles: fields<Section<'unreadFiles'>>({ allowed: both }),
  attachments: strongest(POLICY_ATTACHMENTS),
  cache: fields<Section<'cache'>>({ mode: strongest(['on', 'allowed', 'off']) }),
  receipts: fields<Section<'receipts'>>({ required: either }),
  privacyHeaders: fields<Section<'privacyHeaders'>>({ noTraining: either }),
  retentionDays: smallest,
  encryptBundle: either,
}

/** Returns the document that is at least as strict as both documents in every field. */
export const joinPolicies = fields<PolicyDocument>(JOINS)
