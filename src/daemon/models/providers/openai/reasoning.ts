import { isCipher, isSealedName } from '../../../platform/text/cipher.ts'
import { isObject, type Json, parseObject } from '../../../platform/text/json.ts'
import type { Message, Reasoning } from '../../conversation.ts'
import type { ChatPart } from '../../provider.ts'
import type { Profile } from './profiles.ts'

type AssistantMessage = Extract<Message, { role: 'assistant' }>

/**
 * Returns the fields that send a server's earlier reasoning back to it. Reasoning of other origins is dropped. Text of
 * unknown origin is sent as `reasoning_content`: a client that requests a model by name returns it without an origin.
 */
export function toReasoningFields(
  { reasoning = [], toolCalls = [] }: AssistantMessage,
  { reasoningField, origin }: Profile,
): object {
  const own = reasoning.filter((step) => step.origin === origin)
  if (reasoningField === 'reasoning_details')
    return own.length === 0 ? {} : { reasoning_details: own.flatMap(toDetails) }
  // If a turn has tool calls, DeepSeek and Moonshot require this field, even if there was no reasoning. Other turns do
  // not need the field.
  if (reasoningField !== undefined && toolCalls.length > 0) {
    const plain = reasoning.filter((step) => step.origin === origin || step.origin === '')
    return { [reasoningField]: plain.map(({ text }) => text).join('') }
  }
  return {}
}

/**
 * OpenRouter passes on the signed and encrypted reasoning of many vendors as objects. These objects must be sent back
 * unchanged. The text of each object is streamed as reasoning text. `data` contains the rest of the object, including
 * the signature.
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
  // This data comes from the caller, so it may be arbitrary. The data is used only if the gateway created it.
  const sealed = data === undefined ? undefined : toSealed(parseObject(data))
  if (sealed?.type === 'reasoning.text') return [{ ...sealed, text }]
  const open = { type: 'reasoning.text', ...(sealed && { format: sealed.format }), text }
  return [...(text === '' ? [] : [open]), ...(sealed ? [sealed] : [])]
}

/**
 * Returns the members of a detail that are signed, encrypted, or needed to identify the detail. Drops all other
 * members: guards do not inspect this data, so the data must not contain readable text. Returns undefined if no member
 * is signed or encrypted.
 */
function toSealed(detail: Json | undefined): Json | undefined {
  if (detail === undefined) return undefined
  const kept = Object.entries(detail).filter(([name, value]) => SEALED_FIELDS.get(name)?.(value, detail))
  const sealed: Json = Object.fromEntries(kept)
  return 'signature' in sealed || 'data' in sealed ? sealed : undefined
}

const SEALED_FIELDS = new Map<string, (value: unknown, detail: Json) => boolean>([
  ['type', isSealedName],
  ['id', isSealedName],
  ['format', isSealedName],
  ['index', (value) => typeof value === 'number'],
  ['signature', isCipher],
  ['data', (value, { type }) => type === 'reasoning.encrypted' && isCipher(value)],
])
