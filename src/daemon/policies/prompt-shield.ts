import { GatewayError, invalidField } from '../../shared/errors.ts'
import type { ChatRequest } from '../../shared/wire/chat.ts'
import type { KeySettings } from '../../shared/wire/keys.ts'

type ShieldSettings = Pick<
  KeySettings,
  'enablePromptShield' | 'allowPromptShieldOptOut' | 'promptShieldPolicyId' | 'allowedPromptShieldPolicies'
>

/**
 * Whether a call may go ahead as far as the prompt shield is concerned (named-endpoints §20). No shield runs yet, so only
 * calls that need none may: those of a key without one, and those that opt out where the key permits it. A protection that
 * does not run is never pretended.
 * @throws VALIDATION_ERROR when it wants two things at once, INSUFFICIENT_PERMISSIONS for what the key does not permit,
 * SHIELD_UNAVAILABLE for a call that must be shielded.
 */
export function checkPromptShield(request: ChatRequest['prompt_shield'], settings: ShieldSettings): void {
  if (request?.enabled === false && request.policy !== undefined) {
    throw invalidField('prompt_shield', 'prompt_shield may opt out or name a policy, not both.', request)
  }
  if (!settings.enablePromptShield) {
    if (request?.enabled === true || request?.policy !== undefined)
      throw denied('Prompt Shield is not enabled for this key.')
    return
  }
  if (request?.enabled === false) {
    if (settings.allowPromptShieldOptOut) return
    throw denied('This key does not permit to opt out of the prompt shield; leave out `prompt_shield.enabled`.')
  }
  if (request?.policy !== undefined && !selectable(settings).includes(request.policy)) {
    throw denied(`This key may not select the prompt shield policy "${request.policy.slice(0, 100)}".`)
  }
  throw new GatewayError(
    'SHIELD_UNAVAILABLE',
    'This key requires the prompt shield, which this gateway does not run, so the call is not answered without it.',
  )
}

/** Naming the policy that holds anyway takes no permission. */
const selectable = ({ promptShieldPolicyId, allowedPromptShieldPolicies }: ShieldSettings) =>
  promptShieldPolicyId === null ? allowedPromptShieldPolicies : [promptShieldPolicyId, ...allowedPromptShieldPolicies]

const denied = (message: string) => new GatewayError('INSUFFICIENT_PERMISSIONS', message)
