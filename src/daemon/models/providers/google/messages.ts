// Converts conversations to the contents of Gemini.
import { appendTo } from '../../../../shared/lists.ts'
import { parseObject } from '../../../platform/text/json.ts'
import {
  type Content,
  citedText,
  type Extra,
  type Message,
  type NativePart,
  type ToolCall,
  textOf,
} from '../../conversation.ts'
import { INLINE_DATA, isSynthesised, ORIGIN, toSignature } from '../../part-signature.ts'
import { ProviderError } from '../../provider.ts'

type Part = Record<string, unknown>
export type GoogleContent = { role: 'user' | 'model'; parts: Part[] }
type AssistantMessage = Extract<Message, { role: 'assistant' }>
type ToolMessage = Extract<Message, { role: 'tool' }>
/** A call of the last turn, and its place in the order of these calls. */
type PlacedCall = { call: ToolCall; place: number }

/**
 * Google's documented placeholder for a missing signature. A signature is missing if another model generated the tool
 * call, or if the client lost the signature.
 */
const NO_SIGNATURE = 'skip_thought_signature_validator'

/**
 * Returns the conversation in Gemini's form: user and model alternate, and tool results are user parts in the order of
 * their calls. `signedCalls`: whether the model rejects a turn whose first call is unsigned (Gemini 3 and later).
 * @throws ProviderError `bad_request` for a tool result without its call, for arguments that are not an object, and for
 * an empty conversation
 */
export function toContents(messages: readonly Message[], { signedCalls }: { signedCalls: boolean }): GoogleContent[] {
  const contents: GoogleContent[] = []
  let calls = new Map<string, PlacedCall>()
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at] as Message
    if (message.role === 'tool') {
      const results = toolRun(messages, at)
      at += results.length - 1
      append(contents, 'user', toResultParts(results, calls))
    } else if (message.role === 'user') {
      append(contents, 'user', toParts(message.content))
    } else {
      // Only the calls of the last turn are searched, because ids may recur in later turns.
      if (messages[at - 1]?.role !== 'assistant') calls = new Map()
      for (const call of message.toolCalls ?? []) {
        if (!calls.has(call.id)) calls.set(call.id, { call, place: calls.size })
      }
      append(contents, 'model', toModelParts(message, signedCalls))
    }
  }
  if (contents.length === 0) throw badRequest('The provider requires a message that is not empty.')
  return contents
}

function append(contents: GoogleContent[], role: GoogleContent['role'], parts: Part[]): void {
  const last = contents.at(-1)
  if (last?.role === role) appendTo(last.parts, parts)
  else if (parts.length > 0) contents.push({ role, parts })
}

/** Texts, images and parts of Gemini's own API. Empty text is dropped, because Google rejects it. */
function toParts(content: Content): Part[] {
  const parts = typeof content === 'string' ? [{ type: 'text' as const, text: content }] : content
  return parts.flatMap((part): Part[] => {
    if (part.type === 'image_url') {
      return [{ fileData: { mimeType: part.mediaType, fileUri: part.url }, ...extraOf(part) }]
    }
    if (part.type === 'native') {
      if (part.origin === ORIGIN) return [toNativePart(part)]
      const text = citedText(part)?.text
      if (text === undefined) throw badRequest(`The provider does not support blocks of type ${part.block.type}.`)
      return text === '' ? [] : [{ text }]
    }
    if (part.type === 'file_url') throw badRequest('The provider does not support files by address.')
    if (part.type === 'file') return [{ inlineData: { mimeType: part.mediaType, data: part.data } }]
    if (part.type === 'image') return [{ inlineData: { mimeType: part.mediaType, data: part.data }, ...extraOf(part) }]
    return part.text === '' ? [] : [{ text: part.text, ...extraOf(part) }]
  })
}

const extraOf = ({ extra }: { extra?: Extra | undefined }): Part => (extra?.origin === ORIGIN ? extra.members : {})

/** A part of Gemini's API. Inline data has the form of Anthropic's documents, in which guards recognise base64. */
function toNativePart({ block: { type, source, ...members } }: NativePart): Part {
  if (type !== INLINE_DATA) return members
  const { media_type: mimeType, data } = source as Part
  return { inlineData: { mimeType, data }, ...members }
}

function toModelParts({ content, toolCalls = [], reasoning = [] }: AssistantMessage, signedCalls: boolean): Part[] {
  const own = reasoning.filter(({ origin }) => origin === ORIGIN)
  const signatures = new Map<string, string>()
  for (const { data } of own) {
    if (data === undefined) continue
    const { callId, signature } = toSignature(data)
    signatures.set(callId, signature)
  }

  // Unsigned thoughts are dropped: they are summaries that Google does not need.
  const thoughts = own.flatMap(({ text, signature }) =>
    signature === undefined ? [] : [{ text, thought: true, thoughtSignature: signature }],
  )
  const said = toParts(content)
  const signature = signatures.get('')
  if (signature !== undefined) {
    const last = said.at(-1)
    if (last) last.thoughtSignature = signature
    else said.push({ text: '', thoughtSignature: signature })
  }
  const calls = toolCalls.map((call, index) => ({
    functionCall: { ...callId(call.id), name: call.name, args: toArguments(call) },
    thoughtSignature: signatures.get(call.id) ?? (signedCalls && index === 0 ? NO_SIGNATURE : undefined),
  }))
  return [...thoughts, ...said, ...calls]
}

/** Returns the consecutive tool results that begin at `start`. */
function toolRun(messages: readonly Message[], start: number): ToolMessage[] {
  const run: ToolMessage[] = []
  for (let message = messages[start]; message?.role === 'tool'; message = messages[start + run.length]) {
    run.push(message)
  }
  return run
}

// If results have no ids, Google matches them by position. The results are therefore sorted into the order of the
// calls.
function toResultParts(results: readonly ToolMessage[], calls: ReadonlyMap<string, PlacedCall>): Part[] {
  const placed = results.map((result) => ({ result, ...callOf(result, calls) }))
  placed.sort((left, right) => left.place - right.place)
  const responses = placed.map(({ result, call }) => toFunctionResponse(result, call))
  const files = placed.flatMap(({ result: { content, isObject } }) =>
    // The first text is the object. A guard may have replaced a file by its text.
    isObject && typeof content !== 'string'
      ? toParts(content.slice(1))
      : toParts(content).filter((part) => !('text' in part)),
  )
  return [...responses, ...files]
}

function callOf({ toolCallId }: ToolMessage, calls: ReadonlyMap<string, PlacedCall>): PlacedCall {
  const call = calls.get(toolCallId)
  if (!call) throw badRequest('A tool result does not match any tool call of the previous turn.')
  return call
}

function toFunctionResponse({ content, isObject, isError }: ToolMessage, call: ToolCall): Part {
  const text = textOf(isObject && typeof content !== 'string' ? content.slice(0, 1) : content)
  // A guard may have replaced the object by a notice.
  const response = (isObject && parseObject(text)) || (isError ? { error: text } : { output: text })
  return { functionResponse: { ...callId(call.id), name: call.name, response } }
}

const callId = (id: string) => (isSynthesised(id) ? {} : { id })

function toArguments({ name, arguments: text }: ToolCall): object {
  const value = text.trim() === '' ? {} : parseObject(text)
  if (!value) throw badRequest(`The arguments of a call of the tool "${name}" are not a JSON object.`)
  return value
}

const badRequest = (message: string) => new ProviderError('bad_request', message)
