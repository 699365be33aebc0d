// Computes the output limit of one attempt, and the changes to the request that are reported to the client.
import type { Change } from '../../../shared/wire/chat.ts'
import { inputOf, type Order } from '../../metering/usage/billing.ts'
import type { GenerationOptions } from '../../models/conversation.ts'
import { type OutputLimit, outputLimit, outputLimitWithInput } from '../../models/output-limits.ts'
import { type ProviderCall, ProviderError } from '../../models/provider.ts'
import type { RequestLimits } from '../config.ts'
import type { Admitted } from '../governed/admit.ts'
import type { Attempt } from '../governed/chain.ts'
import type { GovernedDeps } from '../governed/deps.ts'
import type { Running } from '../governed/operation.ts'
import { answerLimit } from '../governed/request-limits.ts'
import type { Grounded } from './ground-call.ts'
import type { ChatInput } from './input.ts'

/** The output limit of one attempt. `thinks`: whether the limit leaves room for the requested reasoning. */
export type AttemptLimit = OutputLimit & { thinks: boolean }

type Call = Pick<ProviderCall, 'system' | 'messages' | 'options' | 'maxTokens'>

/** The order of a chat: the models of its chain with their output limits. */
export function toOrder(
  requestId: string,
  { caller, payer, chain }: Pick<Admitted, 'caller' | 'payer' | 'chain'>,
  call: Call,
  limits: Partial<Pick<RequestLimits, 'maxTokens' | 'defaultMaxTokens' | 'outputTokens'>>,
): Order {
  const { outputTokens = {} } = limits
  const limit = answerLimit(call.maxTokens, limits, caller.settings.limits)
  const attempts = chain.attempts.map((attempt) => ({
    modelId: attempt.modelId,
    thinkingTokens: thinkingTokensOf(attempt, call),
    outputTokens: () => outputTokens[attempt.modelId] ?? outputLimitWithInput(attempt.model, () => inputOf(order)),
  }))
  const answers = call.options?.choices ?? 1
  const order: Order = { requestId, caller, payer, attempts, call, limit, answers }
  return order
}

/** Returns the output limit of one attempt of a running request. @throws ProviderError if thinking does not fit */
export const limitOf = (
  { order, payment }: Pick<Running<ChatInput, Grounded>, 'order' | 'payment'>,
  attempt: Attempt,
  { billing }: Pick<GovernedDeps, 'billing'>,
): AttemptLimit => limitFor(attempt, order, billing.coveredTokens(order, payment, attempt.modelId))

/** @param covered the output tokens that the payer's budget covers. Undefined if no budget applies. */
export function limitFor(
  attempt: Attempt,
  { attempts, call, limit }: Pick<Order, 'attempts' | 'call' | 'limit'>,
  covered: number | undefined,
): AttemptLimit {
  const { tokens, why } = outputLimit({
    asked: call.maxTokens,
    ofModel: () => attempts.find(({ modelId }) => modelId === attempt.modelId)?.outputTokens?.(),
    limit,
    covered,
    isRequired: attempt.provider.needsMaxTokens === true,
  })
  const thinkingTokens = thinkingTokensOf(attempt, call)
  const budget = call.options?.native?.thinking?.config?.budget_tokens
  const isLimited = why === 'operator' || why === 'key'
  if (budget !== undefined && isLimited && (tokens ?? 0) <= budget) {
    throw new ProviderError(
      'bad_request',
      `${why === 'key' ? 'This key' : 'The operator'} allows at most ${tokens} output tokens. thinking.budget_tokens must be lower; it is ${budget}.`,
    )
  }
  // If the request itself sets a limit that is too low, the limit is sent unchanged, and the provider rejects it.
  const thinks = !isLimited || (tokens ?? 0) > thinkingTokens
  return { tokens, why, thinks }
}

export const withoutThinking = ({
  reasoningEffort: _,
  native,
  ...options
}: GenerationOptions = {}): GenerationOptions =>
  native ? { ...options, native: { ...native, thinking: undefined } } : options

/** Lists what the gateway changed in the request, under the names of the request's own fields. */
export function changesOf(
  { maxTokens: asked, options }: Call,
  { tokens, why, thinks }: AttemptLimit,
  fields: ChatInput['fields'],
): Change[] {
  const changes: Change[] = []
  if (tokens !== undefined && why !== undefined)
    changes.push({ field: fields?.maxTokens ?? 'max_tokens', asked: asked ?? null, used: tokens, why })
  if (!thinks)
    changes.push({
      field: fields?.thinking ?? 'reasoning_effort',
      asked: options?.reasoningEffort ?? null,
      used: null,
      why: why ?? 'operator',
    })
  return changes
}

/**
 * The minimum number of output tokens for the requested reasoning. 0 if no reasoning is requested, or it has no
 * minimum.
 */
function thinkingTokensOf({ provider, model }: Attempt, { options = {} }: Call): number {
  const { reasoningEffort, noReasoning, native } = options
  const budget = native?.thinking?.config?.budget_tokens
  if (budget !== undefined && native?.origin === provider.origin) return budget
  const thinks = reasoningEffort !== undefined && reasoningEffort !== 'none' && !noReasoning
  return thinks ? (provider.leastThinkingTokens?.(model) ?? 0) : 0
}
