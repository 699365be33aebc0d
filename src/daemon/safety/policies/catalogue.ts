import { toPolicyId } from '../../../shared/policy-id.ts'
import type { Db } from '../../platform/db/db.ts'
import type { FreshCache } from '../../platform/db/fresh-cache.ts'
import { BUILT_IN_POLICIES, findBuiltIn } from './built-in.ts'
import type { NamedPolicy } from './named-policy.ts'
import { findActivation, listPolicies } from './store.ts'

/** The policies of one tenant, as they were at one moment. */
export type TenantPolicies = {
  /** The built-in ones, then its own. */
  all: readonly NamedPolicy[]
  /** The one that is active; undefined while the tenant has chosen none. */
  activeId: string | undefined
  /** By id or name, in any case. */
  find(nameOrId: string): NamedPolicy | undefined
}

/** What requests are resolved by. */
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
