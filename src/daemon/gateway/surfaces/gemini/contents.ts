// Converts the contents of a request to a conversation.
import { invalidField } from '../../../../shared/errors.ts'
import { appendTo } from '../../../../shared/lists.ts'
import type { GeminiContent, GeminiPart } from '../../../../shared/wire/gemini-content.ts'
import type {
  Content,
  ContentPart,
  Extra,
  Message,
  NativePart,
  Reasoning,
  ToolCall,
} from '../../../models/conversation.ts'
import { INLINE_DATA, ORIGIN } from '../../../models/part-signature.ts'
import type { Marks } from './native.ts'
import { toReasoning } from './reasoning.ts'

type FunctionCall = NonNullable<GeminiPart['functionCall']>
type FunctionResponse = NonNullable<GeminiPart['functionResponse']>

/**
 * Converts contents. Gemini matches function responses to calls by id, or otherwise by name and order.
 * @throws VALIDATION_ERROR for a function response without its call
 */
export function toMessages(contents: readonly GeminiContent[], marks: Marks): Message[] {
  const messages: Message[] = []
  let calls = 0
  /** The calls of the last turn of the model. */
  let pending = createPending()
  /** Calls without an id get one that the provider for Gemini recognises and leaves out. */
  function toCall(given: FunctionCall): ToolCall {
    const { id, name, args = {} } = given
    marks.dropOthers(given, CALL_MEMBERS, 'contents.parts.functionCall')
    const call = { id: id || `call_${calls}_unnamed`, name, arguments: JSON.stringify(args) }
    calls++
    return call
  }
  for (const [at, content] of contents.entries()) {
    const { role = 'user', parts = [] } = content
    marks.dropOthers(content, CONTENT_MEMBERS, 'contents')
    for (const [index, part] of parts.entries()) requireOneKind(part, role, `contents[${at}].parts[${index}]`)
    if (role === 'model') {
      if (contents[at - 1]?.role !== 'model') pending = createPending()
      const answers = toAnswers(parts, toCall, marks)
      appendTo(messages, answers)
      for (const answer of answers) if (answer.role === 'assistant') answer.toolCalls?.forEach(pending.add)
    } else appendTo(messages, toUserMessages(parts, pending, marks))
  }
  if (messages.length === 0) throw invalidField('contents', 'contents must have at least one part.')
  return messages
}

/**
 * Rejects parts whose content would be lost.
 * @throws VALIDATION_ERROR naming the place of the part
 */
function requireOneKind(part: GeminiPart, role: NonNullable<GeminiContent['role']>, place: string): void {
  const [kind, other] = kindsIn(part)
  if (other) throw invalidField('contents', `${place} has ${kind} and ${other}. Send each in a part of its own.`)
  if (kind === (role === 'model' ? 'functionResponse' : 'functionCall')) {
    throw invalidField('contents', `${place} has a ${kind}, which a content of the role "${role}" cannot have.`)
  }
  for (const [index, file] of (part.functionResponse?.parts ?? []).entries()) {
    const lost = kindsIn(file as GeminiPart).find((one) => one !== 'inlineData')
    if (!lost) continue
    throw invalidField('contents', `${place}.functionResponse.parts[${index}] has ${lost}. Only inlineData is allowed.`)
  }
}

const KINDS = ['text', 'inlineData', 'fileData', 'functionCall', 'functionResponse'] as const

const kindsIn = (part: GeminiPart) =>
  KINDS.filter((kind) => part[kind] !== undefined && part[kind] !== null && part[kind] !== '')

/** Splits a turn of the user. Each function response becomes a separate message, and so does the content between them. */
function toUserMessages(parts: readonly GeminiPart[], pending: Pending, marks: Marks): Message[] {
  const messages: Message[] = []
  let shown: GeminiPart[] = []
  function endShown(): void {
    if (shown.length > 0) messages.push({ role: 'user', content: toContent(shown, marks) })
    shown = []
  }
  for (const part of parts) {
    if (!part.functionResponse) {
      // Only answers of models are signed.
      const { thoughtSignature, ...unsigned } = part
      marks.dropOthers({ thoughtSignature }, NO_MEMBERS, 'contents.parts')
      shown.push(unsigned as GeminiPart)
      continue
    }
    endShown()
    messages.push(toToolMessage(part.functionResponse, pending, marks))
  }
  endShown()
  return messages
}

const NO_MEMBERS: ReadonlySet<string> = new Set()
const CONTENT_MEMBERS = new Set(['role', 'parts'])
const CALL_MEMBERS = new Set(['id', 'name', 'args'])
const RESPONSE_MEMBERS = new Set(['id', 'name', 'response', 'parts'])

function toToolMessage(given: FunctionResponse, pending: Pending, marks: Marks): Message {
  const { id, name, response = {}, parts } = given
  const call = pending.take(id, name)
  if (!call) {
    const shown = name.slice(0, SHOWN_NAME_CHARS)
    throw invalidField('contents', `The functionResponse "${shown}" must follow a functionCall of the same name.`)
  }
  marks.dropOthers(given, RESPONSE_MEMBERS, 'contents.parts.functionResponse')
  const json = JSON.stringify(response)
  const files = parts?.map((part) => toPart(part as GeminiPart, marks)) ?? []
  return {
    role: 'tool',
    toolCallId: call.id,
    content: files.length === 0 ? json : [{ type: 'text', text: json }, ...files],
    isObject: true,
    ...('error' in response && { isError: true }),
  }
}

const SHOWN_NAME_CHARS = 100

/** Calls that wait for their responses. */
type Pending = {
  add(call: ToolCall): void
  /** Returns and removes the first call with this id, or otherwise with this name. */
  take(id: string | undefined, name: string): ToolCall | undefined
}

function createPending(): Pending {
  const byId = new Map<string, Queue>()
  const byName = new Map<string, Queue>()
  const taken = new Set<ToolCall>()
  function first(queue: Queue | undefined): ToolCall | undefined {
    for (; queue && queue.next < queue.calls.length; queue.next++) {
      const call = queue.calls[queue.next]
      if (call && !taken.has(call)) return call
    }
    return undefined
  }
  return {
    add(call) {
      addTo(byId, call.id, call)
      addTo(byName, call.name, call)
    },
    take(id, name) {
      const call = (id === undefined ? undefined : first(byId.get(id))) ?? first(byName.get(name))
      if (call) taken.add(call)
      return call
    },
  }
}

/** All calls before `next` are taken. The list is not shortened, because this would take time for each call in it. */
type Queue = { calls: ToolCall[]; next: number }

function addTo(queues: Map<string, Queue>, key: string, call: ToolCall): void {
  const queue = queues.get(key)
  if (queue) queue.calls.push(call)
  else queues.set(key, { calls: [call], next: 0 })
}

type ToCall = (call: FunctionCall) => ToolCall

/**
 * Converts a turn of the model. Internally, reasoning precedes the text of a message, so a thought after text begins a
 * new message. A thought after a call does not, because the function response must be the next message.
 */
function toAnswers(parts: readonly GeminiPart[], toCall: ToCall, marks: Marks): Message[] {
  const answers: GeminiPart[][] = []
  let current: GeminiPart[] | undefined
  for (const part of parts) {
    const goesOn = !part.thought || current?.some((one) => one.functionCall) || current?.at(-1)?.thought
    if (current && goesOn) current.push(part)
    else {
      current = [part]
      answers.push(current)
    }
  }
  return answers.map((group) => toAnswer(group, toCall, marks))
}

function toAnswer(parts: readonly GeminiPart[], toCall: ToCall, marks: Marks): Message {
  const shown: GeminiPart[] = []
  const toolCalls: ToolCall[] = []
  const reasoning: Reasoning[] = []
  for (const part of parts) {
    const { text = '', thought, thoughtSignature: signature, functionCall } = part
    const sealed = signature === undefined ? undefined : toReasoning(signature)
    if (sealed) appendTo(reasoning, sealed)
    if (functionCall) {
      const call = toCall(functionCall)
      toolCalls.push(call)
      if (signature && !sealed) reasoning.push(signedPart(call.id, signature))
    } else if (thought && !hasThoughtData(part)) {
      marks.dropOthers(othersIn(part), NO_MEMBERS, 'contents.parts')
      if (!sealed) reasoning.push({ origin: ORIGIN, text, ...(signature && { signature }) })
    } else {
      if (signature && !sealed && isText(part)) reasoning.push(signedPart('', signature))
      // A thought with data stays a part of its own: reasoning is text.
      if (text !== '' || !isText(part)) shown.push(part)
    }
  }
  const content = toContent(shown, marks)
  return {
    role: 'assistant',
    content,
    ...(toolCalls.length > 0 && { toolCalls }),
    ...(reasoning.length > 0 && { reasoning }),
  }
}

/** The signature of a call or of a text, as `signatureOf` describes it. */
const signedPart = (callId: string, signature: string): Reasoning => ({
  origin: ORIGIN,
  text: '',
  data: `${callId}:${signature}`,
})

function toContent(parts: readonly GeminiPart[], marks: Marks): Content {
  const converted = parts.map((part) => toPart(part, marks))
  const [only] = converted
  if (converted.length === 0) return ''
  return converted.length === 1 && only?.type === 'text' && !only.extra ? only.text : converted
}

/** Whether a thought consists of data. Other thoughts are text. */
const hasThoughtData = (part: GeminiPart): boolean => part.thought === true && part.text === undefined && !isText(part)

const isText = (part: GeminiPart): boolean =>
  Object.keys(othersIn(part)).length === 0 && !part.inlineData && !part.fileData

/** The members of a part that the gateway does not interpret. */
function othersIn(part: GeminiPart): Record<string, unknown> {
  const others = Object.entries(part).filter(
    ([name, value]) => value !== undefined && value !== null && !READ_MEMBERS.has(name),
  )
  return Object.fromEntries(others)
}

const READ_MEMBERS = new Set([
  'text',
  'inlineData',
  'fileData',
  'functionCall',
  'functionResponse',
  'thought',
  'thoughtSignature',
])

const FILE_MEMBERS = new Set(['mimeType', 'data', 'fileUri'])

function toPart(part: GeminiPart, marks: Marks): ContentPart {
  const { text, inlineData, fileData, thought, thoughtSignature } = part
  // The signature of a text is reasoning (`toAnswer`). Any other signature stays in its part.
  const { type: _, source: __, ...unknown } = othersIn(part)
  const isThought = hasThoughtData(part)
  const others = {
    ...unknown,
    ...(thoughtSignature && !isText(part) && { thoughtSignature }),
    ...(isThought && { thought }),
  }
  const native = (name: string, block: NativePart['block']) => toNative(name, block, isThought, marks)
  // A block uses these names itself.
  marks.dropOthers({ type: part.type, source: part.source }, NO_MEMBERS, 'contents.parts')
  if (inlineData) {
    const { mimeType, data } = inlineData
    marks.dropOthers(inlineData, FILE_MEMBERS, 'contents.parts.inlineData')
    if (mimeType.startsWith('image/') && !isThought)
      return { type: 'image', mediaType: mimeType, data, ...extraOf(others, marks) }
    const source = { type: 'base64', media_type: mimeType, data }
    return native('inlineData', { type: INLINE_DATA, source, ...others })
  }
  if (fileData) {
    const { mimeType, fileUri } = fileData
    marks.addAddress(fileUri)
    marks.dropOthers(fileData, FILE_MEMBERS, 'contents.parts.fileData')
    if (mimeType?.startsWith('image/') && !isThought)
      return { type: 'image_url', url: fileUri, mediaType: mimeType, ...extraOf(others, marks) }
    return native('fileData', { type: 'fileData', fileData: { mimeType, fileUri }, ...others })
  }
  const [type] = Object.keys(others)
  if (text === undefined && type !== undefined) return native(type, { type, ...others })
  return { type: 'text', text: text ?? '', ...extraOf(others, marks) }
}

/** Members that only providers of this kind receive. */
function extraOf(members: Record<string, unknown>, marks: Marks): { extra?: Extra } {
  const names = Object.keys(members)
  for (const name of names) marks.add(`contents.parts.${name}`)
  return names.length === 0 ? {} : { extra: { origin: ORIGIN, members } }
}

/** @param isOptional whether other providers can do without the part, as without all thoughts of Gemini */
function toNative(name: string, block: NativePart['block'], isOptional: boolean, marks: Marks): NativePart {
  marks.add(`contents.parts.${name}`)
  return { type: 'native', origin: ORIGIN, block, ...(isOptional && { isOptional }) }
}
