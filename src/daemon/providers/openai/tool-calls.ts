import type { ChatPart } from '../provider.ts'
import { unreadableError } from '../stream/failure.ts'
import { isObject, type Json } from './json.ts'

export type ToolCallReader = {
  /**
   * Takes `tool_calls` of a delta, or of a whole message, and adds the pieces they are to `parts`.
   * @throws ProviderError for what is not a call of a function.
   */
  take(calls: unknown, whole: boolean, parts: ChatPart[]): void
  /** Whether there was any call. */
  readonly any: boolean
  /** Whether one has come without a name, so that nobody can run it. */
  readonly unnamed: boolean
}

/** `held` are arguments that came before the name. */
type Call = { index: number; id: string | undefined; isNamed: boolean; held: string }

/**
 * Puts the pieces of tool calls together as servers send them: by `index`, or in order where there is none; id and name
 * once, or with every piece, or the name after the id; several calls under one index, each with an id of its own.
 */
export function createToolCallReader(): ToolCallReader {
  const calls: Call[] = []
  const latest = new Map<number, Call>()

  function callOf(key: number, id: string | undefined, name: string | undefined): Call {
    const known = latest.get(key)
    // Some servers give every piece a new id; only together with a name does it begin another call.
    const isOther = id !== undefined && name !== undefined && known?.id !== undefined && known.id !== id
    if (known && !isOther) return known
    const call: Call = { index: calls.length, id, isNamed: false, held: '' }
    calls.push(call)
    latest.set(key, call)
    return call
  }

  function takeOne(piece: unknown, key: number, parts: ChatPart[]): void {
    if (!isObject(piece) || !isObject(piece.function) || (isFilled(piece.type) && piece.type !== 'function')) {
      throw unreadableError('a tool call of an unknown kind')
    }
    const id = isFilled(piece.id) ? piece.id : undefined
    const name = isFilled(piece.function.name) ? piece.function.name : undefined
    const text = toText(piece.function)
    const call = callOf(key, id, name)
    call.id ??= id
    if (call.isNamed) {
      if (text !== '') parts.push({ type: 'tool_call', index: call.index, arguments: text })
      return
    }
    if (name === undefined) {
      call.held += text
      return
    }
    call.isNamed = true
    call.id ??= `call_${call.index}`
    parts.push({ type: 'tool_call', index: call.index, id: call.id, name, arguments: call.held + text })
  }

  return {
    take(pieces, whole, parts) {
      if (pieces === undefined || pieces === null) return
      if (!Array.isArray(pieces)) throw unreadableError('tool calls of an unknown kind')
      pieces.forEach((piece, position) => {
        const index = isObject(piece) && !whole ? piece.index : undefined
        takeOne(piece, typeof index === 'number' ? index : position, parts)
      })
    },
    get any() {
      return calls.length > 0
    },
    get unnamed() {
      return calls.some(({ isNamed }) => !isNamed)
    },
  }
}

/** The arguments as the model wrote them; some servers have parsed them already. */
function toText({ arguments: text }: Json): string {
  if (typeof text === 'string') return text
  return text === undefined || text === null ? '' : JSON.stringify(text)
}

const isFilled = (value: unknown): value is string => typeof value === 'string' && value !== ''
