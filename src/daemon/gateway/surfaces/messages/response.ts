import { MESSAGES_PATH, type MessagesBlock, type MessagesResponse } from '../../../../shared/wire/messages.ts'
import { ProviderError } from '../../../models/provider.ts'
import { parseObject } from '../../../platform/text/json.ts'
import { writingJson } from '../../../platform/text/json-writer.ts'
import type { Answer, Envelope } from '../../chat/answer-contract.ts'
import { type AnswerItem, createAnswerItems } from '../../chat/answer-items.ts'
import { JsonBody } from '../../chat/answer-rendering.ts'
import { toExtension } from '../../chat/extension.ts'
import { toTypedObject } from '../../chat/native-parts.ts'
import { streamInWords } from '../../chat/streamed-answer.ts'
import type { Surface } from '../../chat/surface.ts'
import { toAnnotations, toWebCitation } from '../annotations.ts'
import { messagesWording, PING } from './events.ts'
import { toMessage, toStopReason, toStopSequence, toUsage } from './message.ts'
import { toThinkingBlocks } from './reasoning.ts'

/** Renders answers in Anthropic's Messages format. */
export const MESSAGES_SURFACE: Surface = {
  path: MESSAGES_PATH,
  errors: 'anthropic',
  isCompatible: true,
  whole: wholeAnswer,
  streamed: (envelope, stream) => streamInWords(messagesWording(envelope), stream),
  keepAlive: { frame: PING, opens: true },
}

function wholeAnswer(envelope: Envelope): Answer {
  const items = createAnswerItems()
  let content: MessagesResponse['content'] = []
  let native = ''
  let stopSequence: string | undefined
  const json = new JsonBody()
  return {
    add(parts) {
      for (const part of parts) {
        items.add(part)
        if (part.type !== 'end') continue
        native = part.nativeFinishReason
        stopSequence = part.stopSequence
        // The blocks are created before the first byte is sent, so that a provider error can still become the response.
        content = toContent(items.all, part.outcome === 'complete')
      }
      return true
    },
    drained: () => Promise.resolve(),
    close(finish, usage, isLarge) {
      const called = content.some(({ type }) => type === 'tool_use')
      const value = {
        ...toMessage(envelope),
        content,
        stop_reason: toStopReason(finish, native, called),
        stop_sequence: toStopSequence(envelope, stopSequence),
        usage: toUsage(usage),
        gateway: toExtension(envelope),
      } satisfies MessagesResponse
      return isLarge ? json.renderParts(writingJson(value)) : json.render(JSON.stringify(value))
    },
    // No byte has been sent yet, so the error itself becomes the response.
    fail: () => undefined,
    abandon: () => null,
    send: () => json.send(),
  }
}

/** @throws ProviderError if the answer is `complete` and the arguments of a call are not a JSON object */
function toContent(all: readonly AnswerItem[], complete: boolean): MessagesResponse['content'] {
  const content: MessagesResponse['content'] = []
  for (const item of all) {
    const last = content.at(-1)
    const isCitation = item.type === 'native' && item.kind === 'citation'
    // A text that follows a citation is another block.
    if (isCitation && last && isText(last))
      last.citations = [...(last.citations ?? []), toTypedObject(parseObject(item.call.arguments))]
    else content.push(...toBlocks(item, complete))
  }
  return content
}

function toBlocks(item: AnswerItem, complete: boolean): MessagesResponse['content'] {
  if (item.type === 'text') {
    const citations = toAnnotations(item.annotations).flatMap((one) => toWebCitation(one, item.text) ?? [])
    return [{ type: 'text', text: item.text, ...(citations.length > 0 && { citations }) }]
  }
  if (item.type === 'reasoning') return toThinkingBlocks(item.step)
  const { id, name, arguments: text } = item.call
  if (item.type === 'native') return item.kind === 'block' ? [toTypedObject(parseObject(text))] : []
  const input = parseObject(text.trim() === '' ? '{}' : text)
  if (input) return [{ type: 'tool_use', id, name, input }]
  // Omits a call that the token limit cut off, so that clients do not run an incomplete call.
  if (!complete) return []
  throw new ProviderError('server_error', 'The provider called a tool with arguments that are not a JSON object.')
}

const isText = (block: MessagesBlock): block is Extract<MessagesBlock, { text: string }> & { type: 'text' } =>
  block.type === 'text'
