import { GatewayError, invalidField } from '../../shared/errors.ts'
import { newConversationId } from '../../shared/ids.ts'
import { MAX_TOKENS_DEFAULT, TEMPERATURE_DEFAULT } from '../../shared/spec-limits.ts'
import type { ChatRequest } from '../../shared/wire/chat.ts'
import { ZERO_KNOWLEDGE } from '../../shared/wire/indexes.ts'
import type { Db } from '../db/database.ts'
import type { Caller } from '../http/caller.ts'
import { findIndexByName } from '../knowledge/store.ts'
import { type AppliedPolicy, checkPromptShieldRequest, resolvePolicy } from '../policies/resolve.ts'
import type { ProviderRegistry } from '../providers/registry.ts'
import { findUser } from '../users/store.ts'
import { type Chain, planChain } from './chain.ts'
import { type Conversation, toConversation } from './input.ts'

/** A request that may go ahead: everything is checked, defaulted and resolved. */
export type Admitted = {
  caller: Caller
  /** The account that pays. */
  payerId: string
  conversation: Conversation
  conversationId: string
  chain: Chain
  /** `id` is undefined for Zero-Knowledge. */
  index: { name: string; id: string | undefined }
  useRag: boolean
  policy: AppliedPolicy
  temperature: number
  maxTokens: number
  stream: boolean
}

/**
 * Who pays, what was said, which models, index and policy.
 * @throws INDEX_REQUIRED, MODEL_REQUIRED, VALIDATION_ERROR, INSUFFICIENT_PERMISSIONS
 */
export async function admit(
  request: ChatRequest,
  caller: Caller,
  { db, providers }: { db: Db; providers: ProviderRegistry },
): Promise<Admitted> {
  const conversation = toConversation(request)
  const chain = planChain(request, providers)
  const policy = resolvePolicy(request.smltp_policy)
  checkPromptShieldRequest(request.prompt_shield)
  return {
    caller,
    payerId: request.user_id === undefined ? caller.userId : await payer(request.user_id, caller, db),
    conversation,
    conversationId: request.conversation_id ?? newConversationId(),
    chain,
    index: request.index === ZERO_KNOWLEDGE ? NO_INDEX : await usableIndex(request.index as string, caller, db),
    useRag: request.use_rag ?? true,
    policy,
    temperature: request.temperature ?? TEMPERATURE_DEFAULT,
    maxTokens: request.max_tokens ?? MAX_TOKENS_DEFAULT,
    stream: request.stream ?? false,
  }
}

const NO_INDEX = { name: ZERO_KNOWLEDGE, id: undefined }

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
  const index = await findIndexByName(db, caller.tenantId, name)
  if (!index) {
    throw new GatewayError('INSUFFICIENT_PERMISSIONS', 'This index does not exist, or this key may not use it.')
  }
  return { name: index.name, id: index.id }
}
