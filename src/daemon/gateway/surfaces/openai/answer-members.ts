// Members that whole answers and streams have in common.
import type { OpenAiFinishReason, OpenAiUsage } from '../../../../shared/wire/openai.ts'
import type { Reasoning } from '../../../models/conversation.ts'
import type { TokenUsage } from '../../../models/provider.ts'
import type { Finish } from '../../chat/answer-contract.ts'

/** The id of an answer. */
export const toCompletionId = (requestId: string) => `chatcmpl-${requestId.replace(/^req-/, '')}`

/** Why an answer with calls ended. */
export type CallReason = 'tool_calls' | 'function_call'

/** The finish reason of an answer. */
export const toFinishReason = (finish: Finish, called: CallReason | undefined): OpenAiFinishReason =>
  finish === 'stop' && called ? called : finish

/** A step of reasoning that clients send back unchanged. */
export const toDetail = ({ origin, text, signature, data }: Reasoning) => ({
  origin,
  ...(text !== '' && { text }),
  ...(signature !== undefined && { signature }),
  ...(data !== undefined && { data }),
})

/** The tokens of a response. Tokens of audio are shown only if there are any. */
export const toUsage = ({
  inputTokens,
  outputTokens,
  cacheReadTokens,
  reasoningTokens,
  audioInputTokens,
  audioOutputTokens,
}: TokenUsage): OpenAiUsage => ({
  prompt_tokens: inputTokens,
  completion_tokens: outputTokens,
  total_tokens: inputTokens + outputTokens,
  prompt_tokens_details: {
    cached_tokens: cacheReadTokens,
    ...(audioInputTokens !== undefined && { audio_tokens: audioInputTokens }),
  },
  completion_tokens_details: {
    reasoning_tokens: reasoningTokens,
    ...(audioOutputTokens !== undefined && { audio_tokens: audioOutputTokens }),
  },
})
