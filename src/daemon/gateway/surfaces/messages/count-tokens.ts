// The operation that counts the input tokens of a message.
import { MAX_TOKENS_LIMIT } from '../../../../shared/spec-limits.ts'
import {
  COUNT_TOKENS_PATH,
  CountTokensRequest,
  type CountTokensResponse,
  MessagesRequest,
} from '../../../../shared/wire/messages.ts'
import { countingInputTokens } from '../../../metering/usage/input-tokens.ts'
import type { TokenUsage } from '../../../models/provider.ts'
import { createPacer, runInSlices } from '../../../platform/pacing.ts'
import { toEnvelope } from '../../chat/envelope.ts'
import { toExtension } from '../../chat/extension.ts'
import { type Grounded, groundCall } from '../../chat/ground-call.ts'
import type { ChatInput } from '../../chat/input.ts'
import { noticesOf } from '../../chat/notices.ts'
import { toOrder } from '../../chat/output-limit.ts'
import { jsonDelivery } from '../../governed/json-delivery.ts'
import type { Operation } from '../../governed/operation.ts'
import { toChatInput } from './input.ts'
import type { NativeHeaders } from './native.ts'

type Counted = { tokens: number; isEstimated: boolean }

/**
 * Counts the input tokens of the redacted message. Uses the provider's counting API if it has one, otherwise the same
 * estimate as billing. Counting is free and does not affect the breaker.
 */
export const COUNT_TOKENS: Operation<ChatInput, Grounded, Counted> = {
  name: 'token.count',
  path: COUNT_TOKENS_PATH,
  errors: 'anthropic',
  isCompatible: true,
  isFree: true,
  sparesBreaker: true,
  prepare: groundCall,
  orderOf: (screened, { call }, requestId) => toOrder(requestId, screened, call, {}),
  async begin({ context, prepared, signal }, { provider, model }, { timeouts, entitle, onHead, onFirstOutput }) {
    const call = { ...prepared.call, model, isLarge: context.isLarge, timeouts, entitle, onHead }
    const tokens = await (provider.countTokens?.(call, signal) ?? runInSlices(countingInputTokens(call), createPacer()))
    onFirstOutput()
    return { tokens, isEstimated: provider.countTokens === undefined }
  },
  async deliver(running, opened, deps) {
    opened.close(undefined)
    const { tokens, isEstimated } = opened.begun
    const usage: TokenUsage = { ...NO_TOKENS, inputTokens: tokens, estimated: isEstimated }
    const gateway = {
      ...toExtension(toEnvelope(running, opened, deps, noticesOf(running, opened.attempt))),
      estimated: isEstimated,
    }
    return jsonDelivery({ input_tokens: tokens, gateway } satisfies CountTokensResponse, usage)
  },
}

const NO_TOKENS = { outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 }

/** Failover is disabled, because another model would count differently. @throws GatewayError as for a message */
export function toCountInput(request: CountTokensRequest, headers: NativeHeaders): ChatInput {
  // Members that only a message has are not validated here, and have no effect on the count.
  const counted = Object.entries(request).filter(
    ([name]) => Object.hasOwn(CountTokensRequest.shape, name) || !Object.hasOwn(MessagesRequest.shape, name),
  )
  const input = toChatInput(
    { ...(Object.fromEntries(counted) as CountTokensRequest), max_tokens: MAX_TOKENS_LIMIT },
    headers,
  )
  return { ...input, chain: { models: [{ model: request.model as string }] }, isOneModel: true }
}
