// The SMLTP policies of a tenant, and the one that applies to a request.
import { hash } from 'node:crypto'
import { toCanonicalJson } from '../../../shared/canonical-json.ts'
import type { KeySettings } from '../../../shared/wire/keys.ts'
import type { PolicyDocument } from '../../../shared/wire/policies.ts'
import type { CallLocation } from '../../models/provider.ts'
import type { FreshCache } from '../../platform/db/fresh-cache.ts'

/** A policy as requests resolve it. */
export type NamedPolicy = {
  id: string
  name: string
  description: string
  type: 'built-in' | 'custom'
  /** Complete: every field is set. */
  document: PolicyDocument
  /** `policyHash` of the document. */
  hash: string
  /** ISO 8601; null for a built-in policy. */
  createdAt: string | null
  updatedAt: string | null
}

/** The value of `smltp_policy_hash`: SHA-256 of the canonical JSON of the document, hex. */
export const policyHash = (document: PolicyDocument): string => hash('sha256', toCanonicalJson(document), 'hex')

/** A snapshot of one tenant's policies. */
export type PolicyList = {
  /** The built-in policies, then the tenant's own. */
  all: readonly NamedPolicy[]
  /** The active policy; undefined if the tenant has not chosen one. */
  activeId: string | undefined
  /** Finds a policy by id or name, case-insensitive. */
  find(nameOrId: string): NamedPolicy | undefined
}

export type PolicySource = 'request' | 'key_default' | 'tenant_active' | 'system_default'

/** The policy that applies to a request, as chat metadata reports it (`metadata.smltp_policy_*`). */
export type AppliedPolicy = Pick<NamedPolicy, 'name' | 'document' | 'hash'> & {
  /** Its id, whatever spelling the caller used. */
  canonical: string
  source: PolicySource
}

type Restricted = Pick<KeySettings, 'allowedModels' | 'defaultSMLTPPolicy'>

/** The policies of a tenant as requests use them. */
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
  /** Whether this model is in that list, or matched by a `<provider>/*` entry. */
  offersModel(modelId: string, settings: Restricted): boolean
}

/** The cache by which requests resolve policies. */
export type PolicyCatalogue = FreshCache<TenantPolicies>

/** A model, and the location that a call to it reaches. */
export type Destination = { modelId: string; location: CallLocation }

/** Whether the request's content may be sent to a model that the request did not name. */
export type MayAsk = (destination: Destination) => boolean
