import type { OutputItem, ResponsesEvent } from '../../../../shared/wire/responses.ts'
import type { Reasoning, ToolCall } from '../../../models/conversation.ts'
import { type ChatPart, type OtherPart, ProviderError } from '../../../models/provider.ts'
import { parseObject } from '../../../platform/text/json.ts'
import type { Envelope } from '../../chat/answer-contract.ts'
import { isSealed, withPart } from '../../chat/answer-items.ts'
import { createNativeParts, type TypedObject, toTypedObject } from '../../chat/native-parts.ts'
import type { StreamWording } from '../../chat/streamed-answer.ts'
import type { Annotation } from '../annotations.ts'
import {
  type Asked,
  failedState,
  IN_PROGRESS,
  responseRenderer,
  type State,
  stateOf,
  toCallItem,
  toHostedItem,
  toItemId,
  toLogprobs,
  toMessageItem,
  toReasoningItem,
  toTextPart,
} from './output.ts'

type Place = { item_id: string; output_index: number }
type OpenText = { type: 'text'; place: Place; text: string; logprobs: unknown[]; annotations: Annotation[] }
type OpenReasoning = { type: 'reasoning'; place: Place; step: Reasoning }
type OpenCall = { place: Place; call: ToolCall; isCustom: boolean }

type CallPart = Extract<ChatPart, { type: 'tool_call' }>

type WithoutNumber<Event> = Event extends unknown ? Omit<Event, 'sequence_number'> : never

const NO_INDEX = { content_index: 0, summary_index: 0 } as const
const content = { content_index: NO_INDEX.content_index }
const summary = { summary_index: NO_INDEX.summary_index }

/**
 * Renders parts as the events of the Responses API. Each item is added once and done once. Calls may be open
 * simultaneously, because providers may interleave the pieces of several calls.
 */
export function responsesWording(envelope: Envelope, asked: Asked): StreamWording {
  const render = responseRenderer(envelope, asked)
  const { tools } = asked
  /** All items so far, by their output index. An open item is replaced when it is done. */
  const output: OutputItem[] = []
  let sequence = 0
  let open: OpenText | OpenReasoning | undefined
  const calls = new Map<number, OpenCall>()
  const natives = createNativeParts()

  function frame(event: WithoutNumber<ResponsesEvent>): string {
    const { type, ...members } = event
    return `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: sequence++, ...members })}\n\n`
  }

  function begin(): string {
    if (sequence > 0) return ''
    const response = render(IN_PROGRESS, [], undefined)
    return frame({ type: 'response.created', response }) + frame({ type: 'response.in_progress', response })
  }

  function add(
    type: Parameters<typeof toItemId>[1],
    toItem: (id: string) => OutputItem,
  ): { place: Place; frames: string } {
    const place = { item_id: toItemId(envelope, type, output.length), output_index: output.length }
    const item = toItem(place.item_id)
    output.push(item)
    const frames = begin() + frame({ type: 'response.output_item.added', output_index: place.output_index, item })
    return { place, frames }
  }

  function done({ output_index }: Place, item: OutputItem): string {
    output[output_index] = item
    return frame({ type: 'response.output_item.done', output_index, item })
  }

  /** @param isCut whether the answer ends within the open item */
  function close(isCut: boolean): string {
    const closing = open
    open = undefined
    if (closing?.type === 'text') return closeText(closing, isCut)
    return closing ? closeReasoning(closing) : ''
  }

  function text(part: Extract<ChatPart, { type: 'text' }>): string {
    let frames = closeCalls()
    if (open?.type !== 'text') {
      frames += close(false)
      const added = add('message', (id) => toMessageItem(id, 'in_progress', []))
      const { place } = added
      open = { type: 'text', place, text: '', logprobs: [], annotations: [] }
      const part = toTextPart('')
      frames += added.frames + frame({ type: 'response.content_part.added', ...place, ...content, part })
    }
    open.text += part.text
    const logprobs = part.logprobs === undefined ? [] : [part.logprobs]
    open.logprobs.push(...logprobs)
    const delta = { delta: part.text, logprobs: toLogprobs(logprobs) }
    return frames + frame({ type: 'response.output_text.delta', ...open.place, ...content, ...delta })
  }

  function annotate(annotation: Annotation): string {
    if (open?.type !== 'text') return ''
    const annotation_index = open.annotations.push(annotation) - 1
    const { place } = open
    return frame({ type: 'response.output_text.annotation.added', ...place, ...content, annotation_index, annotation })
  }

  function closeText({ place, text, logprobs: pieces, annotations }: OpenText, isCut: boolean): string {
    const logprobs = toLogprobs(pieces)
    const part = toTextPart(text, logprobs, annotations)
    return (
      frame({ type: 'response.output_text.done', ...place, ...content, text, logprobs }) +
      frame({ type: 'response.content_part.done', ...place, ...content, part }) +
      done(place, toMessageItem(place.item_id, isCut ? 'incomplete' : 'completed', [part]))
    )
  }

  function reasoning(part: Extract<ChatPart, { type: 'reasoning' }>): string {
    let frames = closeCalls()
    const step = withPart(open?.type === 'reasoning' ? open.step : undefined, part)
    if (open?.type !== 'reasoning' || open.step.origin !== step.origin) {
      frames += close(false)
      const added = add('reasoning', (id) => ({ id, type: 'reasoning', summary: [] }))
      open = { type: 'reasoning', place: added.place, step: { origin: step.origin, text: '' } }
      frames += added.frames
    }
    const { place } = open
    if (part.text !== '') {
      if (open.step.text === '') {
        const empty = { type: 'summary_text' as const, text: '' }
        frames += frame({ type: 'response.reasoning_summary_part.added', ...place, ...summary, part: empty })
      }
      const { text: delta } = part
      frames += frame({ type: 'response.reasoning_summary_text.delta', ...place, ...summary, delta })
    }
    open.step = step
    return isSealed(step) ? frames + close(false) : frames
  }

  function closeReasoning({ place, step }: OpenReasoning): string {
    const { text } = step
    const part = { type: 'summary_text' as const, text }
    const shown =
      text === ''
        ? ''
        : frame({ type: 'response.reasoning_summary_text.done', ...place, ...summary, text }) +
          frame({ type: 'response.reasoning_summary_part.done', ...place, ...summary, part })
    return shown + done(place, toReasoningItem(place.item_id, step))
  }

  /** Returns undefined if the part belongs to a call. */
  function native(part: CallPart): string | undefined {
    const taken = natives.add(part)
    if (taken === undefined) return undefined
    if (taken === 'partial') return ''
    const value = toTypedObject(taken.value)
    return taken.kind === 'annotation' ? annotate(value) : hosted(value)
  }

  /** The steps of the tools that the provider runs are complete when they arrive. */
  function hosted(value: TypedObject): string {
    const frames = closeAll(false)
    const output_index = output.length
    const item = toHostedItem(envelope, value, output_index)
    output.push(item)
    const begun = item.status === 'completed' ? { ...item, status: 'in_progress' } : item
    return (
      frames +
      frame({ type: 'response.output_item.added', output_index, item: begun }) +
      frame({ type: 'response.output_item.done', output_index, item })
    )
  }

  function toolCall({ index, id, name, arguments: json }: CallPart): string {
    const known = calls.get(index)
    if (known) {
      known.call.arguments += json
      return argumentsDelta(known, json)
    }
    // This piece belongs to a call that has ended or never started.
    if (id === undefined || name === undefined) {
      if (json.trim() === '') return ''
      throw new ProviderError('server_error', 'The provider sent the pieces of its tool calls out of order.')
    }
    let frames = close(false)
    for (const [at, call] of calls) if (parseObject(call.call.arguments)) frames += closeCall(at, call)
    const isCustom = tools.describe(name).type === 'custom'
    const call: ToolCall = { id, name, arguments: '' }
    const type = isCustom ? 'custom_tool_call' : 'function_call'
    const added = add(type, (itemId) => toCallItem(itemId, call, tools, 'in_progress'))
    const opened = { place: added.place, call, isCustom }
    calls.set(index, opened)
    call.arguments = json
    return frames + added.frames + argumentsDelta(opened, json)
  }

  /** The input of a custom tool is sent when its call is complete, because it is encoded in JSON until then. */
  const argumentsDelta = ({ place, isCustom }: OpenCall, delta: string): string =>
    delta === '' || isCustom ? '' : frame({ type: 'response.function_call_arguments.delta', ...place, delta })

  function closeCalls(): string {
    let frames = ''
    for (const [index, call] of calls) frames += closeCall(index, call)
    return frames
  }

  function closeCall(index: number, { place, call }: OpenCall): string {
    calls.delete(index)
    const item = toCallItem(place.item_id, call, tools, undefined)
    if (item.type === 'function_call') {
      const { name, arguments: text } = item
      const end = { type: 'response.function_call_arguments.done' as const, ...place, name, arguments: text }
      return frame(end) + done(place, item)
    }
    const { input } = item
    return (
      (input === '' ? '' : frame({ type: 'response.custom_tool_call_input.delta', ...place, delta: input })) +
      frame({ type: 'response.custom_tool_call_input.done', ...place, input }) +
      done(place, item)
    )
  }

  const closeAll = (isCut: boolean): string => begin() + close(isCut) + closeCalls()

  /** An open item of a broken answer never gets a `done` event. */
  function leaveOpen(): void {
    for (const { place, call } of calls.values()) {
      output[place.output_index] = { ...toCallItem(place.item_id, call, tools, undefined), status: 'incomplete' }
    }
    if (open?.type === 'text') {
      const { place, text, logprobs, annotations } = open
      const part = toTextPart(text, toLogprobs(logprobs), annotations)
      output[place.output_index] = toMessageItem(place.item_id, 'incomplete', [part])
    } else if (open) output[open.place.output_index] = toReasoningItem(open.place.item_id, open.step)
  }

  return {
    say(parts) {
      let frames = ''
      for (const part of parts) {
        if (part.type === 'text') frames += text(part)
        else if (part.type === 'reasoning') frames += reasoning(part)
        else if (part.type === 'tool_call') frames += native(part) ?? toolCall(part)
        else part.type satisfies 'usage' | 'end' | OtherPart
      }
      return frames
    },
    end(finish, usage) {
      const state: State = stateOf(finish)
      const type = finish === 'stop' ? 'response.completed' : 'response.incomplete'
      const frames = closeAll(finish !== 'stop')
      const response = render(state, output, usage)
      asked.keep?.(response)
      return frames + frame({ type, response })
    },
    fail(fault) {
      const frames = begin()
      leaveOpen()
      const response = render(failedState(fault), output, undefined)
      // OpenAI's client throws the `error` of an event. Programs that never check the status therefore fail too.
      const { error } = response
      return frames + frame({ type: 'response.failed', response, ...(error && { error }), ...fault.verdict })
    },
  }
}
