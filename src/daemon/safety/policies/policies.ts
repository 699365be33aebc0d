// The SMLTP policies of a tenant, and the policy that applies to a request.
import { hash } from 'node:crypto'
import { toCanonicalJson } from '../../../shared/canonical-json.ts'
import type { KeySettings } from '../../../shared/wire/keys.ts'
import type { PolicyDocument } from '../../../shared/wire/policies.ts'
import type { CallLocation } from '../../models/provider.ts'
import type { FreshCache } from '../../platform/db/fresh-cache.ts'

/** A policy, prepared for requests. */
export type NamedPolicy = {
  id: string
  name: string
  description: string
  type: 'built-in' | 'custom'
  /** The complete document: every field is set. */
  document: PolicyDocument
  /** The `policyHash` of the document. */
  hash: string
  /** ISO 8601. Null for a built-in policy. */
  createdAt: string | null
  updatedAt: string | null
}

/** Returns the value of `smltp_policy_hash`: the SHA-256 of the document's canonical JSON, in hex. */
export const policyHash = (document: PolicyDocument): string => hash('sha256', toCanonicalJson(document), 'hex')

/** A snapshot of one tenant's policies. */
export type PolicyList = {
  /** The policy with the document that applies to requests: joined with the active policy if that is a baseline. */
  effective(policy: NamedPolicy): EffectivePolicy
  /** The built-in policies, then the tenant's own policies. */
  all: readonly NamedPolicy[]
  /** The id of the active policy. Undefined if the tenant has not activated a policy. */
  activeId: string | undefined
  /** Finds a policy by id or name, case-insensitive. */
  find(nameOrId: string): NamedPolicy | undefined
}

export type PolicySource = 'request' | 'key_default' | 'tenant_active' | 'system_default'

/** The policy that applies to a request. Chat metadata reports it as `metadata.smltp_policy_*`. */
export type AppliedPolicy = Pick<NamedPolicy, 'name' | 'document' | 'hash'> & {
  /** The policy's id, even if the caller used the name or another case. */
  canonical: string
  source: PolicySource
  /** Set if the active policy is a baseline: `document` and `hash` then belong to the join of both policies. */
  baseline?: Baseline
}

/** A baseline that was joined with a policy. */
export type Baseline = {
  /** The id of the active policy. */
  id: string
  /** The `promptShield` sections of both policies. Each section selects a shield, and both shields apply. */
  shields: readonly PolicyDocument['promptShield'][]
}

export type EffectivePolicy = Pick<AppliedPolicy, 'document' | 'hash' | 'baseline'>

type Restricted = Pick<KeySettings, 'allowedModels' | 'defaultSMLTPPolicy'>

/** The policies of a tenant, prepared for requests. */
export type TenantPolicies = PolicyList & {
  /** See `resolvePolicy`. @throws VALIDATION_ERROR, INSUFFICIENT_PERMISSIONS, POLICY_UNAVAILABLE */
  resolve(
    requested: string | undefined,
    settings: Pick<KeySettings, 'defaultSMLTPPolicy' | 'allowedSMLTPPolicies'>,
  ): AppliedPolicy
  /** See `getDefaultPolicy`. @throws POLICY_UNAVAILABLE */
  defaultFor(settings: Pick<KeySettings, 'defaultSMLTPPolicy'>): AppliedPolicy
  /** See `offeredModels`. */
  offeredModels(settings: Restricted): string[]
  /** Whether `offeredModels` contains this model, or a `<provider>/*` entry for it. */
  offersModel(modelId: string, settings: Restricted): boolean
}

/** The cache of policies that requests use. */
export type PolicyCatalogue = FreshCache<TenantPolicies>

/** A model, and the location at which the provider processes calls to it. */
export type Destination = { modelId: string; location: CallLocation }

/**
 * What a request uses beyond its text: tools that the provider runs, addresses that the provider fetches, the place of
 * inference that the provider shall use instead of its own, and files that guards cannot read.
 */
export type PolicyUses = {
  serverTools: readonly string[]
  /** Server tools that are left out if the policy forbids them, as the answer reports it. */
  optionalTools?: readonly string[] | undefined
  addresses: boolean
  inferenceGeo?: string | undefined
  /** Files that guards cannot read, by kind. */
  unreadFiles?: readonly string[]
  /** Attachments that `attachments` of the policy forbids, by kind. */
  attachments?: readonly string[]
}

/** Whether the policy allows sending the request's content to a model that the request did not name. */
export type MayCall = (destination: Destination) => boolean
