import { MAX_TOKENS_LIMIT } from '../../../../shared/spec-limits.ts'
import {
  COUNT_TOKENS_PATH,
  type CountTokensRequest,
  type CountTokensResponse,
} from '../../../../shared/wire/messages.ts'
import { unbilled } from '../../../metering/usage/billing.ts'
import { countingInputTokens } from '../../../metering/usage/input-tokens.ts'
import type { Breaker } from '../../../models/breaker.ts'
import type { Provider, TokenUsage } from '../../../models/provider.ts'
import { withProviders } from '../../../models/registry.ts'
import type { Reply, RequestContext } from '../../../platform/http/route.ts'
import { createPacer, runInSlices } from '../../../platform/pacing.ts'
import type { Ledger } from '../../../records/ledger/ledger.ts'
import type { ChatDeps } from '../../chat/deps.ts'
import { toExtension } from '../../chat/extension.ts'
import type { ChatInput } from '../../chat/input.ts'
import { jsonAnswer } from '../../chat/json-answer.ts'
import { runChat } from '../../chat/pipeline.ts'
import type { Surface } from '../../chat/surface.ts'
import { toChatInput } from './input.ts'

/**
 * Counts the input tokens of a message. Runs the same pipeline as a message: admission, screening, entitlement and
 * evidence. The redacted text is counted. Uses the provider's counting API if there is one, otherwise the estimate that
 * billing uses. Counting is free and does not affect the breaker.
 * @throws GatewayError as `runChat` does
 */
export function runCount(
  request: CountTokensRequest,
  context: RequestContext,
  deps: ChatDeps,
): Promise<Reply | undefined> {
  const counted: Counted = { tokens: 0, estimated: true }
  const whole: Surface['whole'] = (envelope) =>
    jsonAnswer(
      (): CountTokensResponse => ({
        input_tokens: counted.tokens,
        gateway: { ...toExtension(envelope), estimated: counted.estimated },
      }),
    )
  return runChat(
    toCountInput(request),
    { path: COUNT_TOKENS_PATH, operation: 'token.count', errors: 'anthropic', whole, streamed: whole },
    context,
    {
      ...deps,
      providers: withProviders(deps.providers, (provider) => countingProvider(provider, counted)),
      billing: unbilled(deps.billing, deps.clock),
      ledger: withoutUsage(deps.ledger),
      failover: { ...deps.failover, breaker: NOTHING_LEARNT },
    },
  )
}

/** Contains the count, which the provider's call sets and the answer renders. */
type Counted = { tokens: number; estimated: boolean }

/** The chain has only one model, because another model would count differently. */
function toCountInput(request: CountTokensRequest): ChatInput {
  const input = toChatInput({ ...request, max_tokens: MAX_TOKENS_LIMIT })
  return { ...input, chain: { models: [{ model: request.model as string }] } }
}

const countingProvider = (provider: Provider, counted: Counted): Provider => ({
  ...provider,
  async *chat(call, signal) {
    counted.estimated = provider.countTokens === undefined
    counted.tokens = provider.countTokens
      ? await provider.countTokens(call, signal)
      : await runInSlices(countingInputTokens(call), createPacer())
    const usage: TokenUsage = { ...NO_TOKENS, inputTokens: counted.tokens, estimated: counted.estimated }
    yield [{ type: 'end', outcome: 'complete', nativeFinishReason: 'stop', usage }]
  },
})

const NO_TOKENS = { outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 }

/** Counting consumes no tokens, so no usage record is written. */
const withoutUsage = (ledger: Ledger): Ledger => ({
  ...ledger,
  commit: ({ usage: _, ...records }) => ledger.commit(records),
})

const NOTHING_LEARNT: Breaker = { skips: () => undefined, firstToken() {}, succeeded() {}, failed() {} }
