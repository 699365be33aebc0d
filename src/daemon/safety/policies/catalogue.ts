import { toPolicyId } from '../../../shared/policy-id.ts'
import type { Db } from '../../platform/db/db.ts'
import type { FreshCache } from '../../platform/db/fresh-cache.ts'
import { BUILT_IN_POLICIES, findBuiltIn } from './built-in.ts'
import type { NamedPolicy } from './named-policy.ts'
import { findActivation, listPolicies } from './store.ts'

/** A snapshot of one tenant's policies. */
export type TenantPolicies = {
  /** The built-in policies, then the tenant's own. */
  all: readonly NamedPolicy[]
  /** The active policy; undefined if the tenant has not chosen one. */
  activeId: string | undefined
  /** Finds a policy by id or name, case-insensitive. */
  find(nameOrId: string): NamedPolicy | undefined
}

/** The cache by which requests resolve policies. */
export type PolicyCatalogue = FreshCache<TenantPolicies>

export async function loadTenantPolicies(db: Db, tenantId: string): Promise<TenantPolicies> {
  const [activation, custom] = await Promise.all([findActivation(db, tenantId), listPolicies(db, tenantId)])
  const byId = new Map(custom.map((policy) => [policy.id, policy]))
  return {
    all: [...BUILT_IN_POLICIES, ...custom],
    activeId: activation?.policy_id,
    find(nameOrId) {
      const id = toPolicyId(nameOrId)
      return findBuiltIn(id) ?? byId.get(id)
    },
  }
}
