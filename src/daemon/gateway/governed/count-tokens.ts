import { type AnswerSoFar, counting } from '../../metering/usage/counts.ts'
import type { TokenUsage } from '../../models/provider.ts'
import { createPacer, runInSlices } from '../../platform/pacing.ts'
import type { GovernedDeps } from './deps.ts'
import type { Opened } from './failover.ts'
import type { GovernedInput } from './input.ts'
import type { Running } from './operation.ts'

/**
 * Returns the tokens to bill. Logs the provider's counts if they are too high to bill.
 * @param maxTokens the limit that was sent to the model
 */
export async function countBilledTokens(
  { order, context }: Running<GovernedInput, unknown>,
  { attempt }: Pick<Opened<unknown>, 'attempt'>,
  maxTokens: number | undefined,
  output: AnswerSoFar,
  { log }: Pick<GovernedDeps, 'log'>,
): Promise<TokenUsage> {
  const { usage, doubts } = await runInSlices(counting(order.call, maxTokens, output), createPacer())
  if (doubts) {
    const facts = { request_id: context.requestId, model: attempt.modelId, reported: doubts, billed: usage }
    log.error(facts, 'a provider reported implausible token counts, which are not billed')
  }
  return usage
}
