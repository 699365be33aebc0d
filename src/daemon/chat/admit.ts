import { allowsIndex } from '../../shared/allowlists.ts'
import { GatewayError, invalidField } from '../../shared/errors.ts'
import { newConversationId } from '../../shared/ids.ts'
import { ZERO_KNOWLEDGE } from '../../shared/wire/indexes.ts'
import type { Db } from '../db/database.ts'
import type { Caller } from '../http/caller.ts'
import { findIndexByName } from '../knowledge/store.ts'
import { checkPromptShield } from '../policies/prompt-shield.ts'
import { type AppliedPolicy, resolvePolicy } from '../policies/resolve.ts'
import type { ProviderRegistry } from '../providers/registry.ts'
import { findUser } from '../users/store.ts'
import { type Chain, planChain } from './chain.ts'
import type { ChatInput } from './input.ts'

/** A request that may go ahead: everything is checked, defaulted and resolved. */
export type Admitted = Pick<
  ChatInput,
  'conversation' | 'useRag' | 'temperature' | 'maxTokens' | 'stream' | 'options'
> & {
  caller: Caller
  /** The account that pays. */
  payerId: string
  conversationId: string
  chain: Chain
  /** `id` is undefined for Zero-Knowledge. */
  index: { name: string; id: string | undefined }
  policy: AppliedPolicy
}

/**
 * Who pays, which models, index and policy; and whether the key may have all that. Nothing has been asked of a provider yet.
 * @throws VALIDATION_ERROR for what is wrong; INSUFFICIENT_PERMISSIONS, USAGE_BY_MODEL_REQUIRED for what the key may not;
 * POLICY_UNAVAILABLE, SHIELD_UNAVAILABLE for what this gateway cannot.
 */
export async function admit(
  input: ChatInput,
  caller: Caller,
  { db, providers }: { db: Db; providers: ProviderRegistry },
): Promise<Admitted> {
  const { settings } = caller
  const { conversation, useRag, temperature, maxTokens, stream, options } = input
  checkMayChat(caller)
  const chain = planChain(input.chain, providers, settings)
  const policy = resolvePolicy(input.policy, settings)
  checkPromptShield(input.shield, settings)
  return {
    caller,
    payerId: input.userId === undefined ? caller.userId : await payer(input.userId, caller, db),
    conversation,
    conversationId: input.conversationId ?? newConversationId(),
    chain,
    index: input.index === ZERO_KNOWLEDGE ? NO_INDEX : await usableIndex(input.index, caller, db),
    useRag,
    policy,
    temperature,
    maxTokens,
    stream,
    options,
  }
}

const NO_INDEX = { name: ZERO_KNOWLEDGE, id: undefined }

/** Architecture §6, named-endpoints §9. Budgets in money are not kept, and a key that must have one is not let go without. */
function checkMayChat({ rights, settings }: Caller): void {
  if (!rights.canInteractWithAI || !rights.canUseChat) {
    throw new GatewayError(
      'INSUFFICIENT_PERMISSIONS',
      'The role of the user who owns this key does not open chat; it needs `canInteractWithAI` and `canUseChat`.',
    )
  }
  if (settings.billingMode === 'usage-by-model') {
    throw new GatewayError(
      'USAGE_BY_MODEL_REQUIRED',
      'This key is billed by model, which is not enabled for its owner; set its billingMode to "user-completions".',
    )
  }
}

/** Spec, billing rule: another account may be named by administrators only. */
async function payer(userId: string, caller: Caller, db: Db): Promise<string> {
  if (!caller.isAdmin) {
    throw new GatewayError('INSUFFICIENT_PERMISSIONS', 'Only an administrator may bill another user with `user_id`.')
  }
  const user = await findUser(db, caller.tenantId, userId.toLowerCase())
  if (!user) throw invalidField('user_id', 'There is no user with this id.', userId)
  return user.id
}

/** An index that does not exist and one that may not be used get the same answer, so names cannot be probed. */
async function usableIndex(name: string, caller: Caller, db: Db): Promise<{ name: string; id: string }> {
  const isAllowed = allowsIndex(caller.settings.allowedIndexes, name)
  const index = isAllowed ? await findIndexByName(db, caller.tenantId, name) : undefined
  if (!index) {
    throw new GatewayError('INSUFFICIENT_PERMISSIONS', 'This index does not exist, or this key may not use it.')
  }
  return { name: index.name, id: index.id }
}
