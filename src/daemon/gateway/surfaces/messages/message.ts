import type { MessagesStopReason, MessagesUsage } from '../../../../shared/wire/messages.ts'
import type { TokenUsage } from '../../../models/provider.ts'
import type { Envelope, Finish } from '../../chat/answer-contract.ts'

/** The members of a message that are known before its first token. */
export const toMessage = ({ id, model }: Envelope) => ({
  id: `msg_${id.replace(/^req-/, '')}`,
  type: 'message' as const,
  role: 'assistant' as const,
  model,
})

/**
 * Returns the client's stop sequence that the provider names. A text that is not a stop sequence of the request is not
 * shown, because no guard has inspected it.
 */
export function toStopSequence({ stops }: Envelope, named: string | undefined): string | null {
  const at = named === undefined ? -1 : (stops?.sent.indexOf(named) ?? -1)
  return stops?.asked[at] ?? null
}

export function toStopReason(finish: Finish, native: string, called: boolean): MessagesStopReason {
  if (finish === 'content_filter') return 'refusal'
  if (finish === 'length') return native === 'model_context_window_exceeded' ? native : 'max_tokens'
  if (called) return 'tool_use'
  return native === 'stop_sequence' || native === 'pause_turn' ? native : 'end_turn'
}

/** Anthropic's `input_tokens` exclude cached tokens. The gateway's usage includes them. */
export const toUsage = ({
  inputTokens,
  outputTokens,
  cacheReadTokens,
  cacheWriteTokens,
  cacheWriteHourTokens = 0,
}: TokenUsage): MessagesUsage => ({
  input_tokens: Math.max(0, inputTokens - cacheReadTokens - cacheWriteTokens),
  output_tokens: outputTokens,
  cache_creation_input_tokens: cacheWriteTokens,
  cache_read_input_tokens: cacheReadTokens,
  ...(cacheWriteTokens > 0 && {
    cache_creation: {
      ephemeral_5m_input_tokens: cacheWriteTokens - cacheWriteHourTokens,
      ephemeral_1h_input_tokens: cacheWriteHourTokens,
    },
  }),
})
