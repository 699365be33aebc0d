import { GatewayError, invalidField } from '../../shared/errors.ts'

/** The policy that governs a request, as chat metadata reports it (spec: `metadata.smltp_policy_*`). */
export type AppliedPolicy = {
  name: string
  source: 'request' | 'system_default'
  /** SHA-256 of the policy document; null while the policy has none. */
  hash: string | null
}

/** The built-in catalogue (named-endpoints §13). */
const BUILT_IN = ['public', 'internal', 'internal-strict', 'confidential', 'hipaa', 'gdpr', 'pci-dss']
/** What a key may request when nobody said otherwise (named-endpoints §10). The others promise rules that must run. */
const ALLOWED_BY_DEFAULT = ['public', 'internal']

/**
 * Request → policy; `internal` when it names none.
 * @throws VALIDATION_ERROR for an unknown policy, INSUFFICIENT_PERMISSIONS for one the key may not use.
 */
export function resolvePolicy(requested: string | undefined): AppliedPolicy {
  if (requested === undefined) return { name: 'internal', source: 'system_default', hash: null }
  if (ALLOWED_BY_DEFAULT.includes(requested)) return { name: requested, source: 'request', hash: null }
  if (BUILT_IN.includes(requested)) {
    throw new GatewayError('INSUFFICIENT_PERMISSIONS', `This key may not use the policy "${requested}".`)
  }
  throw invalidField('smltp_policy', `There is no policy "${requested.slice(0, 100)}".`, requested)
}

/**
 * A call may not claim a protection that does not run, nor switch two things at once (named-endpoints §20).
 * @throws VALIDATION_ERROR, INSUFFICIENT_PERMISSIONS
 */
export function checkPromptShieldRequest(
  shield: { enabled?: boolean | undefined; policy?: string | undefined } | undefined,
): void {
  if (!shield) return
  if (shield.enabled === false && shield.policy !== undefined) {
    throw invalidField('prompt_shield', 'prompt_shield may opt out or name a policy, not both.', shield)
  }
  if (shield.enabled === true || shield.policy !== undefined) {
    throw new GatewayError('INSUFFICIENT_PERMISSIONS', 'Prompt Shield is not enabled for this key.')
  }
}
