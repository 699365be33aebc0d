import { GatewayError, invalidField } from '../../shared/errors.ts'
import type { KeySettings } from '../../shared/wire/keys.ts'

/** The policy that governs a request, as chat metadata reports it (spec: `metadata.smltp_policy_*`). */
export type AppliedPolicy = {
  name: string
  source: 'request' | 'key_default' | 'system_default'
  /** SHA-256 of the policy document; null while the policy has none. */
  hash: string | null
}

/** The built-in catalogue (named-endpoints §13). */
const BUILT_IN: readonly string[] = [
  'public',
  'internal',
  'internal-strict',
  'confidential',
  'hipaa',
  'gdpr',
  'pci-dss',
]
/** Those that ask for nothing beyond what every request gets. The others promise rules that do not run yet. */
const WITHOUT_OWN_RULES: readonly string[] = ['public', 'internal']
const SYSTEM_DEFAULT = 'internal'

export const isKnownPolicy = (name: string): boolean => BUILT_IN.includes(name)

/**
 * Request → policy: what it names, else the key's default, else `internal`; and whichever it is, the key must be allowed to
 * use it (spec, Authentication; named-endpoints §10, §13).
 * @throws VALIDATION_ERROR for an unknown policy, INSUFFICIENT_PERMISSIONS for one the key may not use,
 * POLICY_UNAVAILABLE for one whose rules do not run.
 */
export function resolvePolicy(
  requested: string | undefined,
  { defaultSMLTPPolicy, allowedSMLTPPolicies }: Pick<KeySettings, 'defaultSMLTPPolicy' | 'allowedSMLTPPolicies'>,
): AppliedPolicy {
  const { name, source } = choose(requested, defaultSMLTPPolicy)
  if (source === 'request' && !isKnownPolicy(name)) {
    throw invalidField('smltp_policy', `There is no policy "${name.slice(0, 100)}".`, name)
  }
  if (allowedSMLTPPolicies.length > 0 && !allowedSMLTPPolicies.includes(name)) {
    const choices = `Name one that it may use in \`smltp_policy\`: ${allowedSMLTPPolicies.join(', ')}.`
    throw new GatewayError(
      'INSUFFICIENT_PERMISSIONS',
      source === 'request'
        ? `This key may not use the policy "${name}". ${choices}`
        : `The request names no policy, and this key may not use the default, "${name}". ${choices}`,
    )
  }
  if (!WITHOUT_OWN_RULES.includes(name)) {
    throw new GatewayError(
      'POLICY_UNAVAILABLE',
      `The policy "${name}" promises rules that this gateway does not run, so no request is answered under it.`,
    )
  }
  return { name, source, hash: null }
}

function choose(requested: string | undefined, keyDefault: string | null): Pick<AppliedPolicy, 'name' | 'source'> {
  if (requested !== undefined) return { name: requested, source: 'request' }
  if (keyDefault !== null) return { name: keyDefault, source: 'key_default' }
  return { name: SYSTEM_DEFAULT, source: 'system_default' }
}
