import { toPolicyId } from '../../../shared/policy-id.ts'
import type { ProviderRegistry } from '../../models/registry.ts'
import type { Db } from '../../platform/db/db.ts'
import { withBaseline } from './baseline.ts'
import { BUILT_IN_POLICIES, findBuiltIn } from './built-in.ts'
import { offeredModels, offersModel } from './offered-models.ts'
import type { PolicyList, TenantPolicies } from './policies.ts'
import { getDefaultPolicy, resolvePolicy } from './resolve.ts'
import { findActivation, listPolicies } from './store.ts'

/** Reads a tenant's policies. @param providers determine which models a key may request */
export async function loadTenantPolicies(
  db: Db,
  providers: ProviderRegistry,
  tenantId: string,
): Promise<TenantPolicies> {
  const [activation, custom] = await Promise.all([findActivation(db, tenantId), listPolicies(db, tenantId)])
  const byId = new Map(custom.map((policy) => [policy.id, policy]))
  const find = (nameOrId: string) => {
    const id = toPolicyId(nameOrId)
    return findBuiltIn(id) ?? byId.get(id)
  }
  const list: PolicyList = {
    all: [...BUILT_IN_POLICIES, ...custom],
    activeId: activation?.policy_id,
    find,
    effective: withBaseline(activation && find(activation.policy_id)),
  }
  return {
    ...list,
    resolve: (requested, settings) => resolvePolicy(requested, settings, list),
    defaultFor: (settings) => getDefaultPolicy(settings, list),
    offeredModels: (settings) => offeredModels(providers, settings, list),
    offersModel: (modelId, settings) => offersModel(modelId, providers, settings, list),
  }
}
