// A baseline: the active policy of a tenant, as the minimum for every request of the tenant.
import { joinPolicies } from '../../../shared/policy-join.ts'
import { type EffectivePolicy, type NamedPolicy, policyHash } from './policies.ts'

/**
 * Returns a function that joins a policy with the tenant's active policy if the active policy is a baseline. Each policy
 * is joined only once.
 */
export function withBaseline(active: NamedPolicy | undefined): (policy: NamedPolicy) => EffectivePolicy {
  if (!active?.document.baseline) return unchanged
  const known = new Map<string, EffectivePolicy>()
  return (policy) => {
    if (policy.id === active.id) return unchanged(policy)
    const joined = known.get(policy.id) ?? join(policy, active)
    known.set(policy.id, joined)
    return joined
  }
}

const unchanged = ({ document, hash }: NamedPolicy): EffectivePolicy => ({ document, hash })

function join(policy: NamedPolicy, active: NamedPolicy): EffectivePolicy {
  const document = joinPolicies(policy.document, active.document)
  const shields = [policy.document.promptShield, active.document.promptShield]
  return { document, hash: policyHash(document), baseline: { id: active.id, shields } }
}
