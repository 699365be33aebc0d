import { GatewayError, invalidField } from '../../../shared/errors.ts'
import type { KeySettings } from '../../../shared/wire/keys.ts'
import type { PolicyDocument } from '../../../shared/wire/policies.ts'
import { SYSTEM_DEFAULT } from './built-in.ts'
import type { AppliedPolicy, NamedPolicy, PolicyList, PolicySource } from './policies.ts'

/**
 * Resolves the policy of a request, in this order: the policy that the request names, the key's default, the tenant's
 * active policy, `internal`. The key must be allowed to use the resolved policy (docs/decisions/0016). If the active
 * policy is a baseline, it is joined with the resolved policy.
 * @throws VALIDATION_ERROR for an unknown policy, INSUFFICIENT_PERMISSIONS for a policy that the key is not allowed to
 * use, POLICY_UNAVAILABLE for a deleted policy
 */
export function resolvePolicy(
  requested: string | undefined,
  settings: Pick<KeySettings, 'defaultSMLTPPolicy' | 'allowedSMLTPPolicies'>,
  policies: PolicyList,
): AppliedPolicy {
  const { allowedSMLTPPolicies: allowed, defaultSMLTPPolicy } = settings
  const { nameOrId, source } = choose(requested, defaultSMLTPPolicy, policies.activeId)
  const found = policies.find(nameOrId)
  if (!found) {
    if (source === 'request') {
      throw invalidField(
        'smltp_policy',
        `There is no policy "${nameOrId.slice(0, 100)}". GET /api/external/smltp-policies lists the available policies.`,
        nameOrId,
      )
    }
    throw new GatewayError(
      'POLICY_UNAVAILABLE',
      `The policy "${nameOrId}" was deleted. Name another policy in \`smltp_policy\`.`,
    )
  }
  if (!mayUse(allowed, found.id, source)) throw notAllowed(allowed, found.id, source)
  return toApplied(found, source, policies)
}

const toApplied = (policy: NamedPolicy, source: PolicySource, { effective }: PolicyList): AppliedPolicy => ({
  canonical: policy.id,
  name: policy.name,
  source,
  ...effective(policy),
})

/**
 * Returns the document that applies to requests that do not name a policy. Returns undefined if this policy was deleted.
 */
export function findDefaultDocument(
  { defaultSMLTPPolicy }: Pick<KeySettings, 'defaultSMLTPPolicy'>,
  policies: PolicyList,
): PolicyDocument | undefined {
  const found = policies.find(choose(undefined, defaultSMLTPPolicy, policies.activeId).nameOrId)
  return found && policies.effective(found).document
}

/**
 * Returns the policy of requests that cannot name a policy, such as the training of an index. This policy applies even
 * if the key is not allowed to use it.
 * @throws POLICY_UNAVAILABLE if the policy was deleted
 */
export function getDefaultPolicy(
  { defaultSMLTPPolicy }: Pick<KeySettings, 'defaultSMLTPPolicy'>,
  policies: PolicyList,
): AppliedPolicy {
  const { nameOrId, source } = choose(undefined, defaultSMLTPPolicy, policies.activeId)
  const found = policies.find(nameOrId)
  if (!found)
    throw new GatewayError(
      'POLICY_UNAVAILABLE',
      `The policy "${nameOrId}" was deleted. Assign another policy to the key.`,
    )
  return toApplied(found, source, policies)
}

function choose(
  requested: string | undefined,
  keyDefault: string | null,
  active: string | undefined,
): { nameOrId: string; source: PolicySource } {
  if (requested !== undefined) return { nameOrId: requested, source: 'request' }
  if (keyDefault !== null) return { nameOrId: keyDefault, source: 'key_default' }
  if (active !== undefined) return { nameOrId: active, source: 'tenant_active' }
  return { nameOrId: SYSTEM_DEFAULT, source: 'system_default' }
}

/**
 * Whether a key is allowed to use a policy. The active policy replaces the system default, so a key that is allowed to
 * use the system default may also use the active policy. If a key is limited to other policies, the activation of a
 * policy does not give the key access to that policy.
 */
function mayUse(allowed: readonly string[], id: string, source: PolicySource): boolean {
  if (allowed.length === 0 || allowed.includes(id)) return true
  return source === 'tenant_active' && allowed.includes(SYSTEM_DEFAULT)
}

function notAllowed(allowed: readonly string[], id: string, source: PolicySource): GatewayError {
  const choices = `Send an allowed policy in \`smltp_policy\`: ${allowed.join(', ')}.`
  return new GatewayError(
    'INSUFFICIENT_PERMISSIONS',
    source === 'request'
      ? `This key may not use the policy "${id}". ${choices}`
      : `The request names no policy, and this key may not use the default policy "${id}". ${choices}`,
  )
}
