// The operation that counts the input tokens of a message.
import { MAX_TOKENS_LIMIT } from '../../../../shared/spec-limits.ts'
import {
  COUNT_TOKENS_PATH,
  CountTokensRequest,
  type CountTokensResponse,
  MessagesRequest,
} from '../../../../shared/wire/messages.ts'
import type { ChatInput } from '../../chat/input.ts'
import { countTokensOperation } from '../../chat/token-count.ts'
import { toChatInput } from './input.ts'
import type { NativeHeaders } from './native.ts'

export const COUNT_TOKENS = countTokensOperation({
  path: COUNT_TOKENS_PATH,
  errors: 'anthropic',
  toBody: (tokens, gateway) => ({ input_tokens: tokens, gateway }) satisfies CountTokensResponse,
})

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
