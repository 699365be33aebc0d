import { GatewayError, invalidField } from '../../../shared/errors.ts'
import { newConversationId } from '../../../shared/ids.ts'
import { ZERO_KNOWLEDGE } from '../../../shared/wire/indexes.ts'
import { findPayer } from '../../identity/users/store.ts'
import { toUsageByModel } from '../../identity/users/usage-by-model.ts'
import { findReadableIndex } from '../../knowledge/indexes/index-access.ts'
import type { AppliedBudgets } from '../../metering/budgets/applied-budgets.ts'
import type { Payer } from '../../metering/usage/payment.ts'
import type { ModelNames } from '../../models/names.ts'
import type { ProviderRegistry } from '../../models/registry.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Caller } from '../../platform/http/caller.ts'
import type { Guards } from '../../safety/guards/guards.ts'
import { mayCallUnder } from '../../safety/policies/enforce.ts'
import type { AppliedPolicy, PolicyCatalogue } from '../../safety/policies/policies.ts'
import { type AppliedShield, resolveShield } from '../../safety/prompt-shield/resolve.ts'
import type { RequestLimits } from '../config.ts'
import { type Chain, hasPools, planChain } from './chain.ts'
import type { GovernedInput } from './input.ts'
import { stickyTextOf } from './sticky-text.ts'
import type { Facts, Stage } from './trail.ts'

/** The resolved names of a request. Its key is allowed to use all of them. */
export type Admitted = {
  caller: Caller
  /** The account to bill. */
  payer: Payer
  conversationId: string
  chain: Chain
  /** `id` is undefined for Zero-Knowledge requests, because they search no index. */
  index: { name: string; id: string | undefined }
  policy: AppliedPolicy
  /** Undefined if no prompt shield applies. */
  shield: AppliedShield | undefined
}

export type AdmitDeps = {
  db: Db
  /** The budgets of groups, tags and tenants. */
  budgets: Pick<AppliedBudgets, 'of'>
  providers: ProviderRegistry
  names: ModelNames
  policies: PolicyCatalogue
  guards: Pick<Guards, 'shieldPolicies'>
  limits: RequestLimits
  /** Whether this gateway serves receipts. */
  receipts: boolean
}

/**
 * Resolves payer, models, index and policy, and checks that the key may use them. Calls no provider. The refusal is a
 * VALIDATION_ERROR for an invalid request; INSUFFICIENT_PERMISSIONS or USAGE_BY_MODEL_REQUIRED for a forbidden request;
 * POLICY_UNAVAILABLE or SHIELD_UNAVAILABLE if this gateway cannot run the policy or the shield.
 */
export async function admit(
  input: GovernedInput,
  { caller, tag }: { caller: Caller; tag?: string | undefined },
  deps: AdmitDeps,
): Promise<Stage<Admitted>> {
  const facts: { -readonly [Name in keyof Facts]: Facts[Name] } = {}
  try {
    const { db, providers, names, policies, guards, limits, receipts } = deps
    const { settings } = caller
    requireMayChat(caller)
    requireMayUse(input, limits)
    const { stream, isExact, isOneModel } = input
    const stickyText = () => stickyTextOf(input, caller.tenantId)
    const terms = { stream, limits, names, isExact, isOneModel, stickyText }
    let chain = planChain(input.chain, providers, settings, terms)
    const catalogue = await policies.of(caller.tenantId)
    const policy = catalogue.resolve(input.policy, settings)
    facts.policy = policy
    requireReceipts(policy, receipts)
    // The policy is known only now. It may leave out some of the targets of a name.
    if (hasPools(chain))
      chain = planChain(input.chain, providers, settings, { ...terms, mayCall: mayCallUnder(policy) })
    const shield = resolveShield({
      request: input.shield,
      settings,
      policy,
      custom: await guards.shieldPolicies.of(caller.tenantId),
    })
    let payer = await payerOf(input, caller, db)
    facts.payerId = payer.id
    const found = deps.budgets.of({ tenantId: caller.tenantId, payerId: payer.id, tag })
    const budgets = found instanceof Promise ? await found : found
    if (budgets.length > 0) payer = { ...payer, budgets }
    const index = await indexOf(input, caller, db)
    facts.index = index.name
    const conversationId = input.conversationId ?? newConversationId()
    return { facts, value: { caller, payer, conversationId, chain, index, policy, shield } }
  } catch (error) {
    return { facts, refusal: { error } }
  }
}

/** @throws POLICY_UNAVAILABLE if the policy requires receipts that this gateway does not serve */
export function requireReceipts({ canonical, document }: AppliedPolicy, areServed: boolean): void {
  if (areServed || !document.receipts.required || document.mode === 'monitor') return
  throw new GatewayError(
    'POLICY_UNAVAILABLE',
    `The policy "${canonical}" requires receipts, but this gateway does not serve them (\`evidence.receipts\` is false). Name another policy, or ask the operator to serve receipts.`,
  )
}

const NO_INDEX = { name: ZERO_KNOWLEDGE, id: undefined }

/** Checks whether the role of the key's owner allows chat. @throws INSUFFICIENT_PERMISSIONS */
export function requireMayChat({ rights }: Caller): void {
  if (!rights.canInteractWithAI || !rights.canUseChat) {
    throw new GatewayError(
      'INSUFFICIENT_PERMISSIONS',
      'The role of the owner of this key does not allow chat; it needs `canInteractWithAI` and `canUseChat`.',
    )
  }
}

/** Checks the operator's rule on addresses. @throws INSUFFICIENT_PERMISSIONS */
function requireMayUse({ uses }: Pick<GovernedInput, 'uses'>, { addresses }: Pick<RequestLimits, 'addresses'>): void {
  if (!uses?.addresses || addresses) return
  throw new GatewayError(
    'INSUFFICIENT_PERMISSIONS',
    'The operator forbids addresses of images and documents (`limits.addresses`). Send their content as base64.',
  )
}

/**
 * Returns the account to bill for a request.
 * @throws VALIDATION_ERROR, INSUFFICIENT_PERMISSIONS, USAGE_BY_MODEL_REQUIRED
 */
export function payerOf({ userId }: Pick<GovernedInput, 'userId'>, caller: Caller, db: Db): Payer | Promise<Payer> {
  if (userId !== undefined) return namedPayer(userId, caller, db)
  const payer = ownerOf(caller)
  checkMayPay(payer, caller)
  return payer
}

const ownerOf = ({ userId, userLicense, userUsageByModel }: Caller): Payer => ({
  id: userId,
  license: userLicense,
  usageByModel: userUsageByModel,
})

/** Only accounts with usage-by-model enabled are billed in dollars. @throws USAGE_BY_MODEL_REQUIRED */
function checkMayPay({ id, usageByModel }: Payer, { settings, userId }: Caller): void {
  if (settings.billingMode !== 'usage-by-model' || usageByModel.enabled) return
  const whom = id === userId ? 'its owner' : 'the billed user'
  throw new GatewayError(
    'USAGE_BY_MODEL_REQUIRED',
    `This key is billed by model, which is not enabled for ${whom}. Set usageByModel.enabled of that user, or set the key's ` +
      'billingMode to "user-completions".',
  )
}

/** Only administrators may bill another account. */
async function namedPayer(userId: string, caller: Caller, db: Db): Promise<Payer> {
  if (!caller.isAdmin) {
    throw new GatewayError('INSUFFICIENT_PERMISSIONS', 'Only an administrator may bill another user with `user_id`.')
  }
  const user = await findPayer(db, caller.tenantId, userId.toLowerCase())
  if (!user) throw invalidField('user_id', 'No user has this id.', userId)
  const payer = { id: user.id, license: user.license, usageByModel: toUsageByModel(user) }
  checkMayPay(payer, caller)
  return payer
}

/**
 * Returns the index that a request searches. Unknown and forbidden indexes cause the same error, so that callers cannot
 * probe for names.
 * @throws INSUFFICIENT_PERMISSIONS
 */
export function indexOf(
  { index: name }: Pick<GovernedInput, 'index'>,
  caller: Caller,
  db: Db,
): Admitted['index'] | Promise<Admitted['index']> {
  return name === ZERO_KNOWLEDGE ? NO_INDEX : usableIndex(name, caller, db)
}

async function usableIndex(name: string, caller: Caller, db: Db): Promise<Admitted['index']> {
  const index = await findReadableIndex(db, caller, name)
  if (!index) {
    throw new GatewayError(
      'INSUFFICIENT_PERMISSIONS',
      'This index does not exist, or this key may not use it. GET /indexes lists the allowed ones.',
    )
  }
  return { name: index.name, id: index.id }
}
