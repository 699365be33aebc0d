import { type OutputItem, RESPONSES_PATH } from '../../../../shared/wire/responses.ts'
import { SSE_KEEP_ALIVE } from '../../../platform/http/sse.ts'
import { parseObject } from '../../../platform/text/json.ts'
import { writingJson } from '../../../platform/text/json-writer.ts'
import type { Answer, Envelope, Finish } from '../../chat/answer-contract.ts'
import { type AnswerItem, createAnswerItems } from '../../chat/answer-items.ts'
import { JsonBody } from '../../chat/answer-rendering.ts'
import { toTypedObject } from '../../chat/native-parts.ts'
import { streamInWords } from '../../chat/streamed-answer.ts'
import type { Surface } from '../../chat/surface.ts'
import { toAnnotations } from '../annotations.ts'
import { responsesWording } from './events.ts'
import {
  type Asked,
  responseRenderer,
  stateOf,
  toCallItem,
  toHostedItem,
  toItemId,
  toLogprobs,
  toMessageItem,
  toReasoningItem,
  toTextPart,
} from './output.ts'

/** Renders the answer to one request in the format of OpenAI's Responses API. */
export const responsesSurface = (asked: Asked): Surface => ({
  path: RESPONSES_PATH,
  errors: 'openai',
  isCompatible: true,
  whole: (envelope) => wholeAnswer(envelope, asked),
  streamed: (envelope, stream) => streamInWords(responsesWording(envelope, asked), stream),
  keepAlive: { frame: SSE_KEEP_ALIVE, opens: true },
})

function wholeAnswer(envelope: Envelope, asked: Asked): Answer {
  const items = createAnswerItems()
  const json = new JsonBody()
  return {
    add(parts) {
      for (const part of parts) items.add(part)
      return true
    },
    drained: () => Promise.resolve(),
    close(finish, usage, isLarge) {
      const output = toOutput(items.all, finish, envelope, asked)
      const response = responseRenderer(envelope, asked)(stateOf(finish), output, usage)
      asked.keep?.(response)
      return isLarge ? json.renderParts(writingJson(response)) : json.render(JSON.stringify(response))
    },
    // No byte has been sent yet, so the error itself becomes the response.
    fail: () => undefined,
    abandon: () => null,
    send: () => json.send(),
  }
}

function toOutput(all: readonly AnswerItem[], finish: Finish, envelope: Envelope, { tools }: Asked): OutputItem[] {
  return all.map((item, at) => {
    if (item.type === 'native') return toHostedItem(envelope, toTypedObject(parseObject(item.call.arguments)), at)
    if (item.type === 'reasoning') return toReasoningItem(toItemId(envelope, 'reasoning', at), item.step)
    if (item.type === 'tool_call') {
      const { type } = tools.describe(item.call.name)
      const id = toItemId(envelope, type === 'custom' ? 'custom_tool_call' : 'function_call', at)
      return toCallItem(id, item.call, tools, undefined)
    }
    const isCut = finish !== 'stop' && at === all.length - 1
    const part = toTextPart(item.text, toLogprobs(item.logprobs), toAnnotations(item.annotations))
    return toMessageItem(toItemId(envelope, 'message', at), isCut ? 'incomplete' : 'completed', [part])
  })
}
