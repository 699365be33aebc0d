import type { z } from 'zod'
import { GatewayError, invalidField } from '../../../shared/errors.ts'
import { toPolicyId } from '../../../shared/policy-id.ts'
import type { AppliedShieldPolicy, ChatRequest } from '../../../shared/wire/chat.ts'
import type { KeySettings } from '../../../shared/wire/keys.ts'
import type { PolicyDocument } from '../../../shared/wire/policies.ts'
import { SHIELD_LAYERS, type ShieldPolicy, type ShieldPolicyDocument } from '../../../shared/wire/shield.ts'
import type { AppliedPolicy } from '../policies/policies.ts'
import { BUILT_IN_SHIELD_POLICIES } from './built-in.ts'
import { type AppliedShield, joinShields, strictest } from './join.ts'

export type { AppliedShield } from './join.ts'

export type ShieldContext = {
  /** The shield options of the call. */
  request: Partial<NonNullable<ChatRequest['prompt_shield']>> | undefined
  settings: Pick<
    KeySettings,
    | 'enablePromptShield'
    | 'allowPromptShieldOptOut'
    | 'promptShieldPolicyId'
    | 'promptShieldSensitivity'
    | 'allowedPromptShieldPolicies'
  >
  /** The SMLTP policy. */
  policy: Pick<AppliedPolicy, 'canonical' | 'baseline'> & { document: Pick<PolicyDocument, 'mode' | 'promptShield'> }
  /** The shield policies that the tenant created. */
  custom: readonly ShieldPolicy[]
}

/** Returns the shield in the form in which responses report it. */
export const toShownShield = ({ id, name, document }: AppliedShield): z.infer<typeof AppliedShieldPolicy> => ({
  id,
  name,
  mode: document.mode,
  sensitivity: document.sensitivity,
})

/**
 * Resolves the prompt shield of a call. If a baseline was joined with the SMLTP policy, each of the two policies has a
 * shield, and the join of both shields applies. For the errors, see `shieldUnder`.
 */
export function resolveShield(context: ShieldContext): AppliedShield | undefined {
  const { baseline, document } = context.policy
  if (!baseline) return shieldUnder(document.promptShield, context)
  return baseline.shields
    .map((section) => shieldUnder(section, context))
    .reduce((one, other) => (one && other ? joinShields(one, other) : (one ?? other)))
}

/**
 * Resolves the shield under one SMLTP policy. The first shield policy that is set takes precedence: the call's, the SMLTP
 * policy's, the key's, the built-in policy for the key's sensitivity. Returns undefined if no shield applies. Bypassing
 * the shield requires permission from the key, the shield policy and the SMLTP policy.
 * @throws VALIDATION_ERROR if the call has conflicting options or names a missing policy. INSUFFICIENT_PERMISSIONS for
 * a missing permission. SHIELD_UNAVAILABLE if the shield policy of the key or the SMLTP policy was deleted.
 */
function shieldUnder(
  { required, minSensitivity, policyId }: PolicyDocument['promptShield'],
  { request, settings, policy, custom }: ShieldContext,
): AppliedShield | undefined {
  if (request?.enabled === false && request.policy !== undefined) {
    throw invalidField(
      'prompt_shield',
      'prompt_shield may either disable the shield or name a policy, not both.',
      request,
    )
  }
  if (!settings.enablePromptShield && !required) {
    if (request?.enabled === true || request?.policy !== undefined) {
      throw denied('Prompt Shield is not enabled for this key.')
    }
    return undefined
  }
  const bound = bindingOf(policyId ?? settings.promptShieldPolicyId ?? settings.promptShieldSensitivity, custom)
  if (request?.enabled === false) {
    if (required)
      throw denied(`The policy "${policy.canonical}" requires the prompt shield. Omit \`prompt_shield.enabled\`.`)
    if (settings.allowPromptShieldOptOut && bound.policy.allowOptOut) return undefined
    throw denied('This key may not disable the prompt shield. Omit `prompt_shield.enabled`.')
  }
  const named = request?.policy === undefined ? bound : selected(request.policy, bound, settings, custom)
  // If only a policy in monitor mode requires the shield, the shield does not block.
  const onlyWatches = !settings.enablePromptShield && policy.document.mode === 'monitor'
  const isOwn = policyId !== null && named === bound
  const atLeast = required ? noWeaker(named.policy, minSensitivity) : named.policy
  const document = required && policy.document.mode === 'enforce' ? inForce(atLeast, isOwn) : atLeast
  return { id: named.id, name: named.name, document: onlyWatches ? { ...document, mode: 'monitor' } : document }
}

const noWeaker = (
  { sensitivity, thresholds, ...document }: ShieldPolicyDocument,
  minSensitivity: ShieldPolicyDocument['sensitivity'],
): ShieldPolicyDocument => ({
  ...document,
  ...strictest({ sensitivity, thresholds }, { sensitivity: minSensitivity, thresholds: null }),
})

/**
 * Makes a required shield block. A shield policy that the SMLTP policy names keeps its scans, layers and limits. From
 * the shield policy of a key or call, these restrictions are removed: the shield scans all texts, and has no limits by
 * category. All layers run, but `llm` only if the shield policy includes it.
 */
const inForce = (document: ShieldPolicyDocument, isOwn: boolean): ShieldPolicyDocument =>
  isOwn
    ? { ...document, mode: 'blocking' }
    : {
        ...document,
        mode: 'blocking',
        layers: SHIELD_LAYERS.filter((layer) => layer !== 'llm' || document.layers.includes('llm')),
        categories: {},
        scanInput: true,
        scanRetrieved: true,
        scanOutput: true,
      }

const find = (reference: string, custom: readonly ShieldPolicy[]): ShieldPolicy | undefined => {
  const id = toPolicyId(reference)
  return [...BUILT_IN_SHIELD_POLICIES, ...custom].find((policy) => policy.id === id)
}

function bindingOf(reference: string, custom: readonly ShieldPolicy[]): ShieldPolicy {
  const policy = find(reference, custom)
  if (policy) return policy
  throw new GatewayError(
    'SHIELD_UNAVAILABLE',
    `The request was rejected: its prompt shield policy "${reference}" does not exist. Assign an existing policy.`,
  )
}

/** Returns the shield policy that a call names. If this policy would apply anyway, naming it needs no permission. */
function selected(
  reference: string,
  bound: ShieldPolicy,
  { allowedPromptShieldPolicies }: ShieldContext['settings'],
  custom: readonly ShieldPolicy[],
): ShieldPolicy {
  const id = toPolicyId(reference)
  if (id === bound.id) return bound
  if (!allowedPromptShieldPolicies.some((allowed) => toPolicyId(allowed) === id)) {
    throw denied(`This key may not select the prompt shield policy "${reference.slice(0, 100)}".`)
  }
  const policy = find(reference, custom)
  if (!policy) throw invalidField('prompt_shield', `There is no prompt shield policy "${reference.slice(0, 100)}".`)
  return policy
}

const denied = (message: string) => new GatewayError('INSUFFICIENT_PERMISSIONS', message)
