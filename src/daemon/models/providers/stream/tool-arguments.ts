import { parseObject } from '../../../platform/text/json.ts'
import { type ChatPart, ProviderError } from '../../provider.ts'
import type { AnswerFormat } from './answer-format.ts'
import type { Ending } from './ending.ts'
import { unreadableError } from './failure.ts'

/** Tool-call finish reasons of OpenAI (`function_call` is the older name), of Anthropic and Amazon, and of Cohere. */
export const TOOL_REASONS: ReadonlySet<string> = new Set(['tool_calls', 'function_call', 'tool_use', 'TOOL_CALL'])

export type CallCheck = {
  /** Takes the parts of the answer in order. */
  add(part: ChatPart): void
  /**
   * @throws ProviderError if the finish reason indicates a tool call but the answer has none, or if arguments are not a
   * JSON object. Does not throw if the token limit or a filter cut the answer.
   */
  check(ending: Ending): void
}

/** Checks that the tool calls of an answer are complete and can be executed. */
export function createCallCheck({ hidesCalls = false }: Pick<AnswerFormat, 'hidesCalls'>): CallCheck {
  let texts: Map<number, string> | undefined
  return {
    add(part) {
      if (part.type !== 'tool_call' || part.native === 'annotation') return
      texts ??= new Map()
      texts.set(part.index, (texts.get(part.index) ?? '') + part.arguments)
    },
    check({ outcome, nativeFinishReason }) {
      if (outcome !== 'complete') return
      if (!texts && !hidesCalls && TOOL_REASONS.has(nativeFinishReason)) {
        throw unreadableError('the end of a tool call without the call')
      }
      if (!texts) return
      for (const text of texts.values()) if (text.trim() !== '' && !parseObject(text)) throw cutArguments()
    },
  }
}

/**
 * Checks the tool calls of a whole answer and returns its parts. The check runs before any part is passed on. If it
 * fails, another model can still answer.
 */
export function withWholeCalls(parts: ChatPart[], format: AnswerFormat): ChatPart[] {
  const calls = createCallCheck(format)
  for (const part of parts) {
    if (part.type === 'end') calls.check(part)
    else calls.add(part)
  }
  return parts
}

const cutArguments = () =>
  new ProviderError('server_error', 'The provider sent arguments of a tool call that are not a JSON object.', {
    outcome: 'truncated',
  })
