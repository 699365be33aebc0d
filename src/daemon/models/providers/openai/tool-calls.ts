// Reads tool calls. Servers send tool calls in several forms.
import { isObject, type Json, parseObject } from '../../../platform/text/json.ts'
import type { ChatPart } from '../../provider.ts'
import { unreadableError } from '../stream/failure.ts'

export type ToolCallReader = {
  /**
   * Reads the `tool_calls` of a delta or a whole message, and adds the calls to `parts`.
   * @throws ProviderError if a call is not a function call
   */
  take(calls: unknown, whole: boolean, parts: ChatPart[]): void
  /** Call this before adding other content and at the end of the answer. Adds the held part. */
  release(parts: ChatPart[]): void
  /** The latest arguments, if they may still be a placeholder. These arguments may also be complete. */
  readonly held: ChatPart | undefined
  /** Whether the answer contains any call. */
  readonly any: boolean
  /** Whether any call has no name. Such a call cannot be executed. */
  readonly unnamed: boolean
}

/**
 * `text` contains the arguments received so far. Arguments may arrive before the name. `name` is empty until the name
 * arrives.
 */
type Call = {
  index: number
  id: string | undefined
  hasOwnId: boolean
  name: string
  text: string
  /** Set for a call of a custom tool until its input is complete, and after that. */
  custom?: 'open' | 'closed'
}

/** Empty arguments. Some servers send `{}` as a placeholder before the real arguments. Groq writes `null`. */
const NO_ARGUMENTS = '{}'
/** The arguments of a custom tool, around its input. */
const [INPUT_START, INPUT_END] = ['{"input":"', '"}']
const PLACEHOLDER = /^\{\}(?=\{)/

/**
 * Assembles tool calls from chunks. Servers send these chunks in several forms. Chunks of a call have the same `index`.
 * Chunks without an index are matched by id or by order. Id and name arrive once or with every chunk, or the name
 * arrives after the id. Several calls may share an index if each has its own id, or if each is complete.
 */
export function createToolCallReader(): ToolCallReader {
  const calls: Call[] = []
  let latest: Map<number, Call> | undefined
  /** The call whose arguments are held back, because they may be a placeholder. Only the latest call can be held. */
  let held: Call | undefined

  function callOf(key: number | undefined, position: number, piece: Piece): Call {
    const byId = key === undefined && piece.id !== undefined ? calls.find(({ id }) => id === piece.id) : undefined
    const known = byId ?? latest?.get(key ?? position)
    if (known && (byId || !isOther(known, piece, key === undefined))) return known
    const call: Call = { index: calls.length, id: piece.id, hasOwnId: piece.id !== undefined, name: '', text: '' }
    calls.push(call)
    latest ??= new Map()
    latest.set(key ?? position, call)
    return call
  }

  function takeOne(received: unknown, key: number | undefined, position: number, parts: ChatPart[]): void {
    const piece = toPiece(received)
    const { id, name } = piece
    const call = callOf(key, position, piece)
    if (held !== call) release(parts)
    if (piece.isCustom) {
      takeInput(call, piece, parts)
      return
    }
    const text = call.text === '' && piece.text === 'null' ? NO_ARGUMENTS : piece.text
    // Repeated arguments are skipped: some servers send the whole arguments again at the end.
    if (text !== '' && text === call.text && parseObject(text)) return
    call.id ??= id
    call.hasOwnId ||= id !== undefined
    const isUnnamed = call.name === '' || call.text === '' || call === held
    call.text += text
    if (isUnnamed) call.text = call.text.replace(PLACEHOLDER, '')
    // A name in several chunks is an error, because the caller has already received the first chunk of the name.
    if (call.name !== '' && name !== undefined && name !== call.name) {
      throw unreadableError('the name of a tool in pieces')
    }
    if (call.name === '' && name === undefined) return
    held = isUnnamed && call.text === NO_ARGUMENTS ? call : undefined
    // While the arguments are held, a part with empty arguments is added. If the call's first part came only after the
    // finish reason, it would revoke that reason.
    const told = held ? '' : isUnnamed ? call.text : text
    if (name === undefined || call.name !== '') {
      if (text !== '') parts.push({ type: 'tool_call', index: call.index, arguments: told })
      return
    }
    call.name = name
    call.id ??= `call_${call.index}`
    parts.push({ type: 'tool_call', index: call.index, id: call.id, name, arguments: told })
  }

  /** Takes a piece of the input of a custom tool. Its arguments are an object whose end is held until then. */
  function takeInput(call: Call, { id, name, text }: Piece, parts: ChatPart[]): void {
    if (call.custom === 'closed') throw unreadableError('a tool call in pieces that are out of order')
    call.id ??= id
    call.hasOwnId ||= id !== undefined
    call.text += text
    held = call
    if (call.custom === 'open') {
      if (text !== '') parts.push({ type: 'tool_call', index: call.index, arguments: text })
      return
    }
    if (name === undefined) throw unreadableError('a tool call without a name')
    call.name = name
    call.custom = 'open'
    const callId = call.id ?? `call_${call.index}`
    parts.push({ type: 'tool_call', index: call.index, id: callId, name, arguments: INPUT_START + call.text })
  }

  function heldPart(): ChatPart | undefined {
    return held && { type: 'tool_call', index: held.index, arguments: held.custom ? INPUT_END : held.text }
  }

  function release(parts: ChatPart[]): void {
    const part = heldPart()
    if (part) parts.push(part)
    if (held?.custom) held.custom = 'closed'
    held = undefined
  }

  return {
    release,
    get held() {
      return heldPart()
    },
    take(pieces, whole, parts) {
      if (pieces === undefined || pieces === null) return
      // A single object is accepted as well: for a long time, Text Generation Inference sent an object instead of a
      // list.
      const list = isObject(pieces) ? [pieces] : pieces
      if (!Array.isArray(list)) throw unreadableError('tool calls of an unknown kind')
      list.forEach((piece, position) => {
        const index = isObject(piece) && !whole ? piece.index : undefined
        takeOne(piece, typeof index === 'number' ? index : undefined, position, parts)
      })
    },
    get any() {
      return calls.length > 0
    },
    get unnamed() {
      return calls.some(({ name }) => name === '')
    },
  }
}

/** `text` of a custom tool is a part of a JSON string. */
type Piece = { id: string | undefined; name: string | undefined; text: string; isCustom?: true }

/** @throws ProviderError if the value is not a chunk of a call of a function or a custom tool */
function toPiece(piece: unknown): Piece {
  if (isObject(piece) && isObject(piece.custom)) {
    const { name, input } = piece.custom
    const text = typeof input === 'string' ? JSON.stringify(input).slice(1, -1) : ''
    const id = isFilled(piece.id) ? piece.id : undefined
    return { id, name: isFilled(name) ? name : undefined, text, isCustom: true }
  }
  if (!isObject(piece) || (isFilled(piece.type) && piece.type !== 'function')) {
    throw unreadableError('a tool call of an unknown kind')
  }
  // Some servers send a first chunk that contains only an id, or `function: null`.
  const called = piece.function ?? (isFilled(piece.id) || piece.function === null ? {} : undefined)
  if (!isObject(called)) throw unreadableError('a tool call of an unknown kind')
  return {
    id: isFilled(piece.id) ? piece.id : undefined,
    name: isFilled(called.name) ? called.name : undefined,
    text: toText(called),
  }
}

/**
 * Whether a chunk begins a new call instead of continuing the known call at its index. Only a chunk with a name can
 * begin a call: a new id alone does not count, because some servers give every chunk a new id. If a chunk has no id,
 * another name begins a new call, unless the chunk has an index and the known call has an id.
 */
function isOther(known: Call, { id, name, text }: Piece, hasNoIndex: boolean): boolean {
  if (name === undefined) return false
  if (id !== undefined) return known.hasOwnId && known.id !== id
  if (known.name === '') return false
  if (name !== known.name) return hasNoIndex || !known.hasOwnId
  return text.startsWith('{') && parseObject(known.text) !== undefined
}

/** Returns the arguments as the model wrote them. Some servers send the arguments as parsed JSON. */
function toText({ arguments: text }: Json): string {
  if (typeof text === 'string') return text
  return text === undefined || text === null ? '' : JSON.stringify(text)
}

const isFilled = (value: unknown): value is string => typeof value === 'string' && value !== ''
