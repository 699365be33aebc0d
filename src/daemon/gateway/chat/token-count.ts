// The operation that counts the input tokens of a request, on each interface.
import type { GatewayExtension } from '../../../shared/wire/chat.ts'
import { countingInputTokens } from '../../metering/usage/input-tokens.ts'
import type { TokenUsage } from '../../models/provider.ts'
import { createPacer, runInSlices } from '../../platform/pacing.ts'
import { jsonDelivery } from '../governed/json-delivery.ts'
import type { Operation } from '../governed/operation.ts'
import { adaptedTo } from './adapted-call.ts'
import { toEnvelope } from './envelope.ts'
import { toExtension } from './extension.ts'
import { type Grounded, groundCall } from './ground-call.ts'
import type { ChatInput } from './input.ts'
import { noticesOf } from './notices.ts'
import { toOrder } from './output-limit.ts'

type Counted = { tokens: number; isEstimated: boolean }
type CountOperation = Operation<ChatInput, Grounded, Counted>

/**
 * Counts the input tokens of the redacted request. Uses the provider's counting API if it has one, otherwise the same
 * estimate as billing. Counting is free and does not affect the breaker.
 */
export const countTokensOperation = ({
  path,
  errors,
  toBody,
}: Pick<CountOperation, 'path' | 'errors'> & {
  toBody(tokens: number, gateway: GatewayExtension & { estimated: boolean }): object
}): CountOperation => ({
  name: 'token.count',
  path,
  errors,
  isCompatible: true,
  isFree: true,
  sparesBreaker: true,
  prepare: groundCall,
  orderOf: (screened, { call }, requestId) => toOrder(requestId, screened, call, {}),
  async begin({ context, prepared, signal }, attempt, { timeouts, entitle, onHead, onFirstOutput }) {
    const { provider, model } = attempt
    const call = {
      ...prepared.call,
      ...adaptedTo(attempt, prepared.call),
      model,
      isLarge: context.isLarge,
      timeouts,
      entitle,
      onHead,
    }
    const tokens = await (provider.countTokens?.(call, signal) ?? runInSlices(countingInputTokens(call), createPacer()))
    onFirstOutput()
    return { tokens, isEstimated: provider.countTokens === undefined }
  },
  async deliver(running, opened, deps) {
    opened.close(undefined)
    const { tokens, isEstimated } = opened.begun
    const usage: TokenUsage = { ...NO_TOKENS, inputTokens: tokens, estimated: isEstimated }
    const gateway = toExtension(toEnvelope(running, opened, deps, noticesOf(running, opened.attempt)))
    return jsonDelivery(toBody(tokens, { ...gateway, estimated: isEstimated }), usage)
  },
})

const NO_TOKENS = { outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 }
