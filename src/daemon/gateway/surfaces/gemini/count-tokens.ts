import { invalidField } from '../../../../shared/errors.ts'
import { MAX_TOKENS_LIMIT } from '../../../../shared/spec-limits.ts'
import {
  GEMINI_COUNT_TOKENS_PATH,
  type GeminiCountTokensRequest,
  type GeminiCountTokensResponse,
} from '../../../../shared/wire/gemini.ts'
import type { ChatInput } from '../../chat/input.ts'
import { countTokensOperation } from '../../chat/token-count.ts'
import { toChatInput } from './input.ts'

export const COUNT_TOKENS = countTokensOperation({
  path: GEMINI_COUNT_TOKENS_PATH,
  errors: 'google',
  toBody: (totalTokens, gateway) => ({ totalTokens, gateway }) satisfies GeminiCountTokensResponse,
})

/** Failover is disabled, because another model would count differently. @throws GatewayError as for an answer */
export function toCountInput(request: GeminiCountTokensRequest, model: string): ChatInput {
  const { generateContentRequest: whole, contents, smltp_policy, prompt_shield, ...others } = request
  if (whole && contents) {
    throw invalidField('contents', 'Send either `contents` or `generateContentRequest`, not both.')
  }
  const counted = whole ?? (contents && { ...others, contents })
  if (!counted) throw invalidField('contents', 'Send `contents` or `generateContentRequest`.')
  // The request has no other extensions, so their names are only unknown members, which nothing has validated.
  const none = { user_id: undefined, fallback_models: undefined, redundancy: undefined }
  const input = toChatInput({ ...counted, ...none, smltp_policy, prompt_shield }, model, false)
  // Some providers require a limit. It has no effect on the count.
  return { ...input, maxTokens: input.maxTokens ?? MAX_TOKENS_LIMIT, chain: { models: [{ model }] }, isOneModel: true }
}
