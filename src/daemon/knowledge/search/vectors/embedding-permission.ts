import type { ProviderRegistry } from '../../../models/registry.ts'
import { mayCallUnder } from '../../../safety/policies/enforce.ts'
import type { PolicyCatalogue } from '../../../safety/policies/policies.ts'

/**
 * Whether a policy of a tenant allows a model to read the passages of a document. `policyId` is the default policy of the
 * key that trained the document. Null, or a policy that was deleted: the default policy of the tenant.
 */
export type MayEmbed = (modelId: string, tenantId: string, policyId: string | null) => Promise<boolean>

export function createEmbeddingPermission({
  providers,
  policies,
}: {
  providers: Pick<ProviderRegistry, 'find'>
  policies: PolicyCatalogue
}): MayEmbed {
  return async (modelId, tenantId, policyId) => {
    const { location } = providers.find(modelId) ?? {}
    // Without a provider there is no call that a policy could forbid.
    if (!location) return true
    const own = await policies.of(tenantId)
    const defaultSMLTPPolicy = policyId !== null && own.find(policyId) ? policyId : null
    return mayCallUnder(own.defaultFor({ defaultSMLTPPolicy }))({ modelId, location })
  }
}
