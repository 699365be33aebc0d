import type { OpenAiDelta } from '../../../../shared/wire/openai.ts'
import type { ToolCall } from '../../../models/conversation.ts'
import { toCustomInput } from '../../../models/custom-tools.ts'
import type { ChatPart } from '../../../models/provider.ts'
import type { CallStyle } from './tools.ts'

type CallPart = Extract<ChatPart, { type: 'tool_call' }>
type CallDelta = NonNullable<OpenAiDelta['tool_calls']>[number]

/**
 * Renders calls of a stream whose request has custom tools or the older `functions`. The input of a custom tool is a
 * JSON string until its call is complete, so it is sent at the end of the answer. The older form has room for one call.
 */
export function createCallChunks({ isOld, custom }: CallStyle): {
  add(part: CallPart): OpenAiDelta[]
  end(): OpenAiDelta[]
} {
  let first: number | undefined
  const open = new Map<number, ToolCall>()

  function addOld({ index, name, arguments: text }: CallPart): OpenAiDelta[] {
    first ??= index
    return index === first ? [{ function_call: { name, arguments: text } }] : []
  }

  const callDelta = (call: CallDelta): OpenAiDelta => ({ tool_calls: [call] })

  return {
    add(part) {
      if (isOld) return addOld(part)
      const { index, id, name, arguments: text } = part
      const known = open.get(index)
      if (known) {
        known.arguments += text
        return []
      }
      if (id !== undefined && name !== undefined && custom.has(name)) {
        open.set(index, { id, name, arguments: text })
        return [callDelta({ index, id, type: 'custom', custom: { name, input: '' } })]
      }
      const start = id === undefined ? {} : { id, type: 'function' as const }
      return [callDelta({ index, ...start, function: { name, arguments: text } })]
    },
    end: () => [...open].map(([index, call]) => callDelta({ index, custom: { input: toCustomInput(call) } })),
  }
}
