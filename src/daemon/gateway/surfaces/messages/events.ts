import type { MessagesBlock, MessagesError, MessagesEvent } from '../../../../shared/wire/messages.ts'
import type { Reasoning } from '../../../models/conversation.ts'
import { type ChatPart, type OtherPart, ProviderError } from '../../../models/provider.ts'
import { parseObject } from '../../../platform/text/json.ts'
import type { Envelope } from '../../chat/answer-contract.ts'
import { isSealed, withPart } from '../../chat/answer-items.ts'
import { toExtension } from '../../chat/extension.ts'
import { createNativeParts, toTypedObject } from '../../chat/native-parts.ts'
import type { StreamWording } from '../../chat/streamed-answer.ts'
import { toWebCitation } from '../annotations.ts'
import { toMessage, toStopReason, toStopSequence, toUsage } from './message.ts'
import { isRedacted, signatureOf } from './reasoning.ts'

/** The open content block. At most one block is open at a time. */
type Open =
  | { type: 'text'; text: string }
  | { type: 'thinking'; step: Reasoning }
  | { type: 'tool_use'; call: number; json: string }

const NO_USAGE = { input_tokens: 0, output_tokens: 0, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }

/** Renders parts as Anthropic's events. Each content block has a start event and a stop event. */
export function messagesWording(envelope: Envelope): StreamWording {
  let begun = false
  let nativeReason = ''
  let stopSequence: string | undefined
  let called = false
  let index = -1
  let open: Open | undefined
  /** Tool calls that began while another call was open. They are sent when the open call ends. */
  const held = new Map<number, { id: string; name: string; json: string }>()
  const natives = createNativeParts()

  function begin(): string {
    if (begun) return ''
    begun = true
    const message = { ...toMessage(envelope), content: [], stop_reason: null, stop_sequence: null, usage: NO_USAGE }
    return eventFrame({ type: 'message_start', message: { ...message, gateway: toExtension(envelope) } })
  }

  function start(block: MessagesBlock, next: Open | undefined): string {
    const frames = begin() + stop()
    index += 1
    open = next
    return frames + eventFrame({ type: 'content_block_start', index, content_block: block })
  }

  function stop(): string {
    let frames = stopOpen()
    const waiting = [...held]
    held.clear()
    for (const [call, { id, name, json }] of waiting) frames += startCall(call, id, name) + sayJson(json)
    return frames + stopOpen()
  }

  function stopOpen(): string {
    if (!open) return ''
    const isUnsigned = open.type === 'thinking' && !isSealed(open.step)
    const signature = open.type === 'thinking' && isUnsigned ? signatureOf(open.step) : ''
    open = undefined
    return (signature === '' ? '' : signatureFrame(signature)) + eventFrame({ type: 'content_block_stop', index })
  }

  const signatureFrame = (signature: string) =>
    eventFrame({ type: 'content_block_delta', index, delta: { type: 'signature_delta', signature } })

  function text(piece: string): string {
    const frames = open?.type === 'text' ? '' : start({ type: 'text', text: '' }, { type: 'text', text: '' })
    if (open?.type === 'text') open.text += piece
    return frames + eventFrame({ type: 'content_block_delta', index, delta: { type: 'text_delta', text: piece } })
  }

  function reasoning(part: Extract<ChatPart, { type: 'reasoning' }>): string {
    const step = withPart(open?.type === 'thinking' ? open.step : undefined, part)
    if (isRedacted(step)) {
      const frames = start({ type: 'redacted_thinking', data: step.data ?? '' }, undefined)
      return frames + eventFrame({ type: 'content_block_stop', index })
    }
    const isNew = open?.type !== 'thinking' || open.step.origin !== step.origin
    let frames = isNew ? start({ type: 'thinking', thinking: '', signature: '' }, { type: 'thinking', step }) : ''
    open = { type: 'thinking', step }
    if (part.text !== '') {
      const delta = { type: 'thinking_delta' as const, thinking: part.text }
      frames += eventFrame({ type: 'content_block_delta', index, delta })
    }
    return isSealed(step) ? frames + signatureFrame(signatureOf(step)) + stop() : frames
  }

  /** Returns undefined if the part belongs to a call. */
  function native(part: Extract<ChatPart, { type: 'tool_call' }>): string | undefined {
    const taken = natives.add(part)
    if (taken === undefined) return undefined
    if (taken === 'partial') return ''
    if (taken.kind === 'break') return open?.type === 'text' ? stop() : ''
    const value = toTypedObject(taken.value)
    if (taken.kind === 'block') {
      return start(value, undefined) + eventFrame({ type: 'content_block_stop', index })
    }
    if (open?.type !== 'text') return ''
    const citation = taken.kind === 'annotation' ? toWebCitation(value, open.text) : value
    if (!citation) return ''
    return eventFrame({ type: 'content_block_delta', index, delta: { type: 'citations_delta', citation } })
  }

  /** Providers may interleave the pieces of several calls. */
  function toolCall({ index: call, id, name, arguments: json }: Extract<ChatPart, { type: 'tool_call' }>): string {
    called = true
    const waiting = held.get(call)
    if (waiting) {
      waiting.json += json
      return ''
    }
    if (open?.type === 'tool_use' && open.call === call) {
      open.json += json
      return sayJson(json)
    }
    // This piece belongs to a block that has ended or never started, so the piece cannot be rendered in order.
    if (id === undefined || name === undefined) {
      if (json.trim() === '') return ''
      throw new ProviderError('server_error', 'The provider sent the pieces of its tool calls out of order.')
    }
    if (open?.type === 'tool_use' && (held.size > 0 || !parseObject(open.json))) {
      held.set(call, { id, name, json })
      return ''
    }
    return startCall(call, id, name, json) + sayJson(json)
  }

  const startCall = (call: number, id: string, name: string, json = '') =>
    start({ type: 'tool_use', id, name, input: {} }, { type: 'tool_use', call, json })

  const sayJson = (json: string) =>
    json === ''
      ? ''
      : eventFrame({ type: 'content_block_delta', index, delta: { type: 'input_json_delta', partial_json: json } })

  return {
    say(parts) {
      let frames = ''
      for (const part of parts) {
        if (part.type === 'text') frames += text(part.text)
        else if (part.type === 'reasoning') frames += reasoning(part)
        else if (part.type === 'tool_call') frames += native(part) ?? toolCall(part)
        else if (part.type === 'end') {
          nativeReason = part.nativeFinishReason
          stopSequence = part.stopSequence
        } else part.type satisfies 'usage' | OtherPart
      }
      return frames
    },
    end(finish, usage) {
      const delta = {
        stop_reason: toStopReason(finish, nativeReason, called),
        stop_sequence: toStopSequence(envelope, stopSequence),
      }
      return (
        begin() +
        stop() +
        eventFrame({ type: 'message_delta', delta, usage: toUsage(usage) }) +
        eventFrame({ type: 'message_stop' })
      )
    },
    fail: ({ message, reason, retryable, verdict, attempts }) =>
      eventFrame({
        type: 'error',
        success: false,
        error: { type: toErrorType(reason), message, code: reason },
        retryable,
        request_id: envelope.id,
        reason,
        ...verdict,
        ...(attempts && { attempts }),
      }),
  }
}

const eventFrame = (event: MessagesEvent | MessagesError): string =>
  `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`

/** The event that Anthropic's API sends while a model is silent. */
export const PING = eventFrame({ type: 'ping' })

const ERROR_TYPES = new Map([
  ['rate_limit', 'rate_limit_error'],
  ['timeout', 'timeout_error'],
  ['shutdown', 'overloaded_error'],
])
const toErrorType = (reason: string): string => ERROR_TYPES.get(reason) ?? 'api_error'
