import type { Message, Reasoning } from '../../conversation.ts'
import { isObject, type Json, parseObject } from '../../json.ts'
import type { ChatPart } from '../../provider.ts'
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
    const { text, summary } = detail
    const words = [text, summary].find((value) => typeof value === 'string' && value !== '')
    if (!textSeen && typeof words === 'string') parts.push({ type: 'reasoning', text: words, origin })
    const sealed = toSealed(detail)
    if (sealed) parts.push({ type: 'reasoning', text: '', origin, data: JSON.stringify(sealed) })
  }
}

function toDetails({ text, data }: Reasoning): Json[] {
  // What is not ours is left out: callers send it, so it may be anything.
  const sealed = data === undefined ? undefined : toSealed(parseObject(data))
  if (sealed?.type === 'reasoning.text') return [{ ...sealed, text }]
  const open = { type: 'reasoning.text', ...(sealed && { format: sealed.format }), text }
  return [...(text === '' ? [] : [open]), ...(sealed ? [sealed] : [])]
}

/**
 * What is signed or encrypted of a detail, with what names it. Everything else is left out, whoever sends it: guards do not
 * look into it, so nothing that can be read may be in it. Undefined when nothing is sealed.
 */
function toSealed(detail: Json | undefined): Json | undefined {
  if (detail === undefined) return undefined
  const kept = Object.entries(detail).filter(([name, value]) => SEALED_FIELDS.get(name)?.(value, detail))
  const sealed: Json = Object.fromEntries(kept)
  return 'signature' in sealed || 'data' in sealed ? sealed : undefined
}

const isName = (value: unknown) => typeof value === 'string' && /^[\w.:-]{1,256}$/.test(value)
/** Base64, of either alphabet. */
const isCipher = (value: unknown) => typeof value === 'string' && /^[\w+/-]+={0,2}$/.test(value)

const SEALED_FIELDS = new Map<string, (value: unknown, detail: Json) => boolean>([
  ['type', isName],
  ['id', isName],
  ['format', isName],
  ['index', (value) => typeof value === 'number'],
  ['signature', isCipher],
  ['data', (value, { type }) => type === 'reasoning.encrypted' && isCipher(value)],
])
