import type { Order } from '../../metering/usage/billing.ts'
import type { Screened } from '../governed/screen.ts'

/** The order of an operation that reads the screened texts and generates none, such as an embedding. */
export const toTextOrder = (
  { caller, payer, chain, conversation, options }: Screened,
  _prepared: unknown,
  requestId: string,
): Order => ({
  requestId,
  caller,
  payer,
  attempts: chain.attempts,
  call: { ...conversation, options, maxTokens: 0 },
})
