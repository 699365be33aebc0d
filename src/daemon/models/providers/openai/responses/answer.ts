// Decodes answers of OpenAI's Responses API, from OpenAI, Azure and compatible servers. The file is long, because whole
// answers and streams share the state of their items.
import { isObject, type Json, member } from '../../../../platform/text/json.ts'
import { RESPONSES_ORIGIN } from '../../../conversation.ts'
import type { ChatPart, ProviderCall } from '../../../provider.ts'
import type { AnswerDraft, AnswerFormat } from '../../stream/answer-format.ts'
import type { Ending } from '../../stream/ending.ts'
import { END_MARK, isHeartbeat, objectIn, parseEvent, textIn } from '../../stream/event-json.ts'
import { reportedError, truncatedError, unreadableError } from '../../stream/failure.ts'
import type { SseEvent } from '../../stream/sse-event.ts'
import type { Profile } from '../profiles.ts'
import { toTokenUsage } from './usage.ts'

/** Decodes answers to this call. */
export function responsesFormat({ options }: Pick<ProviderCall, 'options'>, { origin }: Profile): AnswerFormat {
  const tools = (options?.tools?.length ?? 0) > 0 && options?.toolChoice !== 'none'
  const asked = { origin, tools, isNative: options?.native?.origin === RESPONSES_ORIGIN }
  return {
    createEventDecoder: () => createEventDecoder(asked),
    decodeBody: (body) => decodeBody(body, asked),
    hidesCalls: !tools,
  }
}

/**
 * Items of tools that the server runs itself, and of the server's own bookkeeping. Only callers of the Responses API get
 * them.
 */
const NON_ANSWER_ITEM = /^(\w+_call(_output)?|mcp_\w+|tool_search_\w+|compaction|program(_output)?)$/
/** Events of these items. */
const NON_ANSWER_EVENT = /^response\.(\w+_call|mcp_|shell_|code_)/

/** The status of a complete answer. Some servers shorten it. */
const COMPLETE: ReadonlySet<unknown> = new Set(['completed', 'complete'])

/** Why an answer is incomplete. Other reasons are failures. */
const INCOMPLETE = new Map<unknown, Ending['outcome']>([
  ['max_output_tokens', 'length'],
  ['content_filter', 'filtered'],
])

/** An item that has begun. `chars` is how much of its text or arguments has arrived. */
type Item = ({ type: 'message' | 'reasoning' | 'other' } | { type: 'call'; call: number }) & {
  chars: number
  state: ItemState
  /** Where its text begins in the text that the caller reads as one. */
  from: number
  /** The number of its annotations that have arrived. */
  annotations: number
}

/** `implied` items began with a delta. Servers that announce no items need not end them either. */
type ItemState = 'implied' | 'announced' | 'ended'

const TYPES = new Map<unknown, Item['type']>([
  ['message', 'message'],
  ['reasoning', 'reasoning'],
  ['function_call', 'call'],
  ['custom_tool_call', 'call'],
])
const typeOf = (item: Json): Item['type'] => TYPES.get(item.type) ?? 'other'

const EMPTY = { chars: 0, from: 0, annotations: 0 } as const

type Asked = {
  origin: string
  /** Whether calls are passed on. */
  tools: boolean
  /** Whether the steps of the server's own tools are passed on. */
  isNative: boolean
}

type Reading = Asked & {
  items: Item[]
  /** The items by index and by id. */
  itemsByKey: Map<unknown, Item>
  calls: number
  annotations: number
  /** The number of web searches. */
  searches: number
  /** The characters of text since the last part of another kind, or of the whole answer if texts are joined. */
  said: number
  /** Whether the model refused to answer. */
  refused: boolean
}

const beginReading = (asked: Asked): Reading => ({
  ...asked,
  items: [],
  itemsByKey: new Map(),
  calls: 0,
  annotations: 0,
  searches: 0,
  said: 0,
  refused: false,
})

function createEventDecoder(asked: Asked): (event: SseEvent, draft: AnswerDraft) => void {
  const reading = beginReading(asked)
  return function decode({ name, data, cut }, draft) {
    const trimmed = data.trim()
    if (trimmed === END_MARK) {
      draft.done = true
      return
    }
    if (isHeartbeat(trimmed)) return
    const event = parseEvent(trimmed, cut)
    // If the last event is incomplete, it is ignored. The assembly checks whether the end was already received.
    if (event === undefined) return
    if (event.type === 'error' || name === 'error') throw reportedError(event.error ?? event)
    if (isObject(event.error)) throw reportedError(event.error)
    decodeEvent(event, reading, draft)
  }
}

function decodeEvent(event: Json, reading: Reading, draft: AnswerDraft): void {
  const { parts } = draft
  const type = textIn(event.type)
  switch (type) {
    case 'response.output_item.added':
      startItem(event, reading, parts)
      return
    case 'response.output_item.done':
      endItem(itemOf(event, reading, parts), objectIn(event, 'item'), reading, parts)
      return
    case 'response.output_text.delta':
    case 'response.refusal.delta':
      reading.refused ||= type === 'response.refusal.delta'
      addText(messageOf(event, reading), textIn(event.delta), reading, parts, event.logprobs)
      return
    case 'response.output_text.annotation.added':
      addAnnotation(messageOf(event, reading), event.annotation, reading, parts)
      return
    case 'response.reasoning_summary_text.delta':
    case 'response.reasoning_text.delta':
      addReasoning(reasoningOf(event, reading), textIn(event.delta), reading, parts)
      return
    case 'response.reasoning_summary_part.added': {
      const item = reasoningOf(event, reading)
      if (item.chars > 0) addReasoning(item, '\n\n', reading, parts)
      return
    }
    case 'response.function_call_arguments.delta': {
      const item = keptItem(event, reading)
      if (item?.type !== 'call') throw unreadableError('arguments outside their call')
      addArguments(item, textIn(event.delta), reading, parts)
      return
    }
    case 'response.completed':
    case 'response.incomplete':
    case 'response.failed':
    case 'response.cancelled': {
      const sent = objectIn(event, 'response')
      const response: Json = { ...sent, status: sent.status ?? type.slice('response.'.length) }
      draft.usage = toTokenUsage(response, reading) ?? draft.usage
      refuseFailed(response)
      addOutput(response.output, reading, parts)
      // The last items may be searches.
      draft.usage = toTokenUsage(response, reading) ?? draft.usage
      draft.ending = toEnding(response, reading)
      draft.done = true
      return
    }
    default:
      // A text of an unknown kind must not be lost. All other unknown events repeat content or report progress.
      if (type.endsWith('.delta') && !NON_ANSWER_EVENT.test(type)) throw unreadableError('content of an unknown kind')
  }
}

function decodeBody(body: unknown, asked: Asked): ChatPart[] {
  if (!isObject(body)) throw unreadableError('an answer that is not an object')
  refuseFailed(body)
  if (!Array.isArray(body.output)) throw unreadableError('an answer without output')
  const reading = beginReading(asked)
  const parts: ChatPart[] = []
  addOutput(body.output, reading, parts)
  parts.push({ type: 'end', ...toEnding(body, reading), usage: toTokenUsage(body, reading) })
  return parts
}

/**
 * Ends all items of the whole answer. Some servers send items, or the rest of an item, only here. Ids and indexes may
 * differ from those of the events, so an item that has begun is found by its type and order.
 */
function addOutput(output: unknown, reading: Reading, parts: ChatPart[]): void {
  if (!Array.isArray(output)) return
  const begun = [...reading.items]
  output.forEach((item: unknown) => {
    if (!isObject(item)) throw unreadableError('an item that is not an object')
    const place = begun.findIndex(({ type }) => type === typeOf(item))
    const [kept] = place < 0 ? [] : begun.splice(place, 1)
    endItem(kept ?? startItem({ item }, reading, parts), item, reading, parts)
  })
}

const idOf = ({ item_id: id, item }: Json): unknown => id ?? member(item, 'id')

const keptItem = (event: Json, { itemsByKey }: Reading): Item | undefined =>
  itemsByKey.get(event.output_index ?? idOf(event))

function keep<Kept extends Item>(event: Json, item: Kept, { items, itemsByKey }: Reading): Kept {
  items.push(item)
  // Later events may have only one of the two, or neither.
  itemsByKey.set(event.output_index ?? event.item_id, item)
  const id = idOf(event)
  if (id !== undefined) itemsByKey.set(id, item)
  return item
}

function startItem(event: Json, reading: Reading, parts: ChatPart[]): Item {
  const item = objectIn(event, 'item')
  const type = typeOf(item)
  switch (type) {
    case 'message':
    case 'reasoning':
      return keep(event, { type, ...EMPTY, state: 'announced' }, reading)
    case 'call': {
      const { call_id: id, name } = item
      if (typeof id !== 'string' || typeof name !== 'string') throw unreadableError('a tool call without id or name')
      const call = reading.calls++
      if (reading.tools) {
        parts.push({ type: 'tool_call', index: call, id, name, arguments: '' })
        endTexts(reading)
      }
      return keep(event, { type, call, ...EMPTY, state: 'announced' }, reading)
    }
    default:
      // An unknown item may contain text, so skipping it could make a shortened answer look complete.
      if (!NON_ANSWER_ITEM.test(textIn(item.type))) throw unreadableError('content of an unknown kind')
      return keep(event, { type, ...EMPTY, state: 'announced' }, reading)
  }
}

/** Some servers send `done` without `added`. */
const itemOf = (event: Json, reading: Reading, parts: ChatPart[]): Item =>
  keptItem(event, reading) ?? startItem(event, reading, parts)

function messageOf(event: Json, reading: Reading): Item {
  const item = keptItem(event, reading) ?? keep(event, { type: 'message', ...EMPTY, state: 'implied' }, reading)
  if (item.type !== 'message') throw unreadableError('text outside its message')
  return item
}

function reasoningOf(event: Json, reading: Reading): Item {
  const item = keptItem(event, reading) ?? keep(event, { type: 'reasoning', ...EMPTY, state: 'implied' }, reading)
  if (item.type !== 'reasoning') throw unreadableError('reasoning outside its item')
  return item
}

/** Adds the content that no delta contained. */
function endItem(item: Item, done: Json, reading: Reading, parts: ChatPart[]): void {
  if (item.state === 'ended') return
  item.state = 'ended'
  if (item.type === 'message') {
    const pieces = listIn(done.content)
    reading.refused ||= pieces.some(({ type }) => type === 'refusal')
    const text = pieces.map(toText).join('')
    addText(item, text.slice(item.chars), reading, parts, pieces[0]?.logprobs)
    const annotations = pieces.flatMap((piece) => (Array.isArray(piece.annotations) ? piece.annotations : []))
    for (const annotation of annotations.slice(item.annotations)) addAnnotation(item, annotation, reading, parts)
  } else if (item.type === 'reasoning') {
    if (item.chars === 0) addReasoning(item, reasoningText(done), reading, parts)
    const data = textIn(done.encrypted_content)
    if (data !== '') parts.push({ type: 'reasoning', text: '', origin: reading.origin, data })
  } else if (item.type === 'call') {
    const custom = done.type === 'custom_tool_call'
    const text = custom ? JSON.stringify({ input: textIn(done.input) }) : textIn(done.arguments)
    addArguments(item, text.slice(item.chars), reading, parts)
  } else {
    if (isSearch(done)) reading.searches += 1
    if (!reading.isNative) return
    const json = JSON.stringify(done)
    parts.push({ type: 'tool_call', index: reading.calls++, id: '', name: '', native: 'block', arguments: json })
    endTexts(reading)
  }
}

/** Whether the item is a search. Opening a page and finding a text on it are free. */
const isSearch = ({ type, action }: Json): boolean =>
  type === 'web_search_call' && (member(action, 'type') ?? 'search') === 'search'

function listIn(value: unknown): Json[] {
  if (value === undefined || value === null) return []
  if (!Array.isArray(value) || !value.every(isObject)) throw unreadableError('content of an unknown kind')
  return value
}

function toText(part: Json): string {
  if (part.type === 'output_text') return textIn(part.text)
  if (part.type === 'refusal') return textIn(part.refusal)
  throw unreadableError('content of an unknown kind')
}

function reasoningText({ summary, content }: Json): string {
  const own = listIn(summary)
  return (own.length > 0 ? own : listIn(content)).map(({ text }) => textIn(text)).join('\n\n')
}

function addText(item: Item, text: string, reading: Reading, parts: ChatPart[], logprobs: unknown): void {
  if (text === '') return
  if (item.chars === 0) item.from = reading.said
  item.chars += text.length
  reading.said += text.length
  const asked = Array.isArray(logprobs) && logprobs.length > 0
  parts.push(asked ? { type: 'text', text, logprobs: { content: logprobs } } : { type: 'text', text })
}

/** Adds a source of the item's text. Its positions become those in the text that the caller reads. */
function addAnnotation(item: Item, annotation: unknown, reading: Reading, parts: ChatPart[]): void {
  if (!isObject(annotation) || typeof annotation.type !== 'string') throw unreadableError('content of an unknown kind')
  item.annotations += 1
  reading.annotations += 1
  const moved = Object.entries(annotation).map(([name, value]) =>
    POSITIONS.has(name) && typeof value === 'number' ? [name, value + item.from] : [name, value],
  )
  const json = JSON.stringify(Object.fromEntries(moved))
  const index = -reading.annotations
  parts.push({ type: 'tool_call', index, id: '', name: '', native: 'annotation', arguments: json })
}

const POSITIONS: ReadonlySet<string> = new Set(['start_index', 'end_index', 'index'])

/** The next text is another item for callers that see the part between them. Others read one text. */
function endTexts(reading: Reading): void {
  if (reading.isNative) reading.said = 0
}

function addReasoning(item: Item, text: string, reading: Reading, parts: ChatPart[]): void {
  if (text === '') return
  item.chars += text.length
  parts.push({ type: 'reasoning', text, origin: reading.origin })
  endTexts(reading)
}

function addArguments(
  item: Extract<Item, { type: 'call' }>,
  text: string,
  { tools }: Reading,
  parts: ChatPart[],
): void {
  if (text === '') return
  item.chars += text.length
  if (tools) parts.push({ type: 'tool_call', index: item.call, arguments: text })
}

/** @throws ProviderError if the server reports a failure */
function refuseFailed({ status, error }: Json): void {
  if (isObject(error)) throw reportedError(error)
  if (status === 'failed' || status === 'cancelled') throw reportedError({ code: status })
}

/** @throws ProviderError unless the answer has ended */
function toEnding({ status, incomplete_details: details }: Json, { tools, items, refused }: Reading): Ending {
  if (status === 'incomplete') {
    const reason = textIn(member(details, 'reason'))
    const outcome = INCOMPLETE.get(reason)
    if (!outcome) throw unreadableError('an incomplete answer without a known reason')
    return { outcome, nativeFinishReason: reason }
  }
  if (status !== undefined && status !== null && !COMPLETE.has(status)) throw truncatedError()
  if (items.some(({ type, state }) => type !== 'other' && state === 'announced')) throw truncatedError()
  // If no tools were offered, an answer that consists only of a tool call is an error, because the caller cannot
  // execute the call.
  if (
    !tools &&
    items.some(({ type }) => type === 'call') &&
    !items.some(({ type, chars }) => type === 'message' && chars > 0)
  )
    throw unreadableError('a tool call instead of an answer')
  return { outcome: refused ? 'filtered' : 'complete', nativeFinishReason: refused ? 'refusal' : 'completed' }
}
