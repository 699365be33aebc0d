import type { Message, Reasoning } from '../conversation.ts'
import { isObject, type Json, parseObject } from '../json.ts'
import type { ChatPart } from '../provider.ts'
import type { Profile } from './profiles.ts'

type AssistantMessage = Extract<Message, { role: 'assistant' }>

/** The fields in which a server sees its own earlier reasoning again; that of others is left out. */
export function toReasoningFields(
  { reasoning = [], toolCalls = [] }: AssistantMessage,
  { reasoningField, origin }: Profile,
): object {
  const own = reasoning.filter((step) => step.origin === origin)
  if (reasoningField === 'reasoning_details')
    return own.length === 0 ? {} : { reasoning_details: own.flatMap(toDetails) }
  // DeepSeek and Moonshot refuse a turn with tool calls that lacks it, even when there was none, and want it nowhere else.
  if (reasoningField !== undefined && toolCalls.length > 0) {
    return { [reasoningField]: own.map(({ text }) => text).join('') }
  }
  return {}
}

/**
 * OpenRouter hands on signed and encrypted reasoning of many makers in objects of its own, which have to come back
 * unchanged. Their text streams as text; `data` keeps the rest of the object that carried the signature.
 */
export function addDetails(details: unknown, textSeen: boolean, origin: string, parts: ChatPart[]): void {
  if (!Array.isArray(details)) return
  for (const detail of details.filter(isObject)) {
    const { text, summary, ...rest } = detail
    const words = [text, summary].find((value) => typeof value === 'string' && value !== '')
    if (!textSeen && typeof words === 'string') parts.push({ type: 'reasoning', text: words, origin })
    if (isFilled(rest.signature) || isFilled(rest.data)) {
      parts.push({ type: 'reasoning', text: '', origin, data: JSON.stringify(rest) })
    }
  }
}

function toDetails({ text, data }: Reasoning): Json[] {
  // What is not ours is left out: callers send it, so it may be anything.
  const sealed = data === undefined ? undefined : parseObject(data)
  if (sealed?.type === 'reasoning.text') return [{ ...sealed, text }]
  const open = { type: 'reasoning.text', ...(sealed && { format: sealed.format }), text }
  return [...(text === '' ? [] : [open]), ...(sealed ? [sealed] : [])]
}

const isFilled = (value: unknown) => typeof value === 'string' && value !== ''
