import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { EventStreamCodec } from '@smithy/eventstream-codec'
import { bedrockFormat } from '../../../../src/daemon/providers/bedrock/wire.ts'
import type { ToolCall } from '../../../../src/daemon/providers/conversation.ts'
import {
  type ChatPart,
  type FailureReason,
  type Outcome,
  ProviderError,
  type TokenUsage,
} from '../../../../src/daemon/providers/provider.ts'
import { assembleAnswer } from '../../../../src/daemon/providers/stream/assembly.ts'

/** What a call came to, with adjacent texts joined: how they were cut is not part of any promise. */
export type Played =
  | {
      text: string
      reasoning: string
      toolCalls: ToolCall[]
      /** What has to go back to Bedrock on the next turn. */
      signatures: { signature?: string; data?: string }[]
      outcome: Outcome
      nativeFinishReason: string
      usage: TokenUsage | null
    }
  | { reason: FailureReason; outcome: Outcome; message: string }

/** An event by its name with its data, text for data that is not JSON; or what the protocol has for failures. */
export type Event = [name: string, data: object | string] | { exception: string; data: object } | { error: string }

export type StreamFixture = {
  name: string
  events: Event[]
  answer?: Played
  failure?: { reason: FailureReason; outcome: Outcome }
}
export type BodyFixture = Omit<StreamFixture, 'events'> & { body: unknown }

const FIXTURES = join(import.meta.dirname, '../../../fixtures/providers/bedrock')
const readJson = (file: string) => JSON.parse(readFileSync(join(FIXTURES, file), 'utf8'))

/** Streams by their events, and whole answers, made by hand in the shapes of the real API. */
export const streamFixtures = (): StreamFixture[] => readJson('streams.json')
export const bodyFixtures = (): BodyFixture[] => readJson('bodies.json')
/** The first of the streams as bytes, so that the codec is not only held against itself. */
export const plainBytes = (): Buffer => readFileSync(join(FIXTURES, 'plain.eventstream'))

const codec = new EventStreamCodec(
  (bytes) => Buffer.from(bytes as Uint8Array).toString(),
  (text) => Buffer.from(text),
)

export function encode(event: Event): Buffer {
  const [headers, data] = framing(event)
  const typed = Object.entries(headers).map(([name, value]) => [name, { type: 'string', value }] as const)
  const body = Buffer.from(typeof data === 'string' ? data : JSON.stringify(data))
  return Buffer.from(codec.encode({ headers: Object.fromEntries(typed), body }))
}

export const encodeAll = (events: readonly Event[]): Buffer => Buffer.concat(events.map(encode))

function framing(event: Event): [headers: Record<string, string>, data: object | string] {
  if (Array.isArray(event)) {
    const [name, data] = event
    return [{ ':event-type': name, ':content-type': 'application/json', ':message-type': 'event' }, data]
  }
  if ('exception' in event) {
    const { exception, data } = event
    return [{ ':exception-type': exception, ':content-type': 'application/json', ':message-type': 'exception' }, data]
  }
  return [{ ':error-code': event.error, ':error-message': 'Not today.', ':message-type': 'error' }, '']
}

/** The events of an answer that says these texts. */
export const answerEvents = (texts: readonly string[], { usage = {}, stopReason = 'end_turn' } = {}): Event[] => [
  ['messageStart', { role: 'assistant' }],
  ...texts.map((text): Event => ['contentBlockDelta', { contentBlockIndex: 0, delta: { text }, p: 'abc' }]),
  ['contentBlockStop', { contentBlockIndex: 0 }],
  ['messageStop', { stopReason }],
  ['metadata', { usage, metrics: { latencyMs: 5 } }],
]

/** Feeds a stream to the engine, one network read per piece. */
export const playStream = (pieces: readonly Uint8Array[]): Played => settled(() => readStream(pieces))

function readStream(pieces: readonly Uint8Array[]): ChatPart[] {
  const assembly = assembleAnswer(bedrockFormat)
  const parts: ChatPart[] = []
  // The second end brings out a failure that followed the last parts.
  for (const piece of [...pieces, null, null]) {
    if (assembly.state === 'ended') break
    parts.push(...assembly.take(piece === null ? null : Buffer.from(piece)))
  }
  return parts
}

export const playBody = (body: unknown): Played => settled(() => bedrockFormat.decodeBody(body))

/** Reads a call of a provider to its end. */
export async function playCall(batches: AsyncIterable<readonly ChatPart[]>): Promise<Played> {
  const parts: ChatPart[] = []
  try {
    for await (const batch of batches) parts.push(...batch)
  } catch (error) {
    return toFailure(error)
  }
  return toAnswer(parts)
}

function settled(run: () => ChatPart[]): Played {
  let parts: ChatPart[]
  try {
    parts = run()
  } catch (error) {
    return toFailure(error)
  }
  return toAnswer(parts)
}

function toFailure(error: unknown): Played {
  if (!(error instanceof ProviderError)) throw error
  return { reason: error.reason, outcome: error.outcome, message: error.message }
}

function toAnswer(parts: readonly ChatPart[]): Played {
  const ends = parts.filter((part) => part.type === 'end')
  const [end] = ends
  if (!end || ends.length > 1 || parts.at(-1) !== end) throw new Error('an answer ends with exactly one end')
  const join = (type: 'text' | 'reasoning') => parts.map((part) => (part.type === type ? part.text : '')).join('')
  const { outcome, nativeFinishReason, usage } = end
  return {
    text: join('text'),
    reasoning: join('reasoning'),
    toolCalls: toToolCalls(parts),
    signatures: parts.flatMap((part): { signature?: string; data?: string }[] => {
      if (part.type !== 'reasoning') return []
      if (part.origin !== 'bedrock') throw new Error('reasoning names where it may go back to')
      if (part.signature !== undefined) return [{ signature: part.signature }]
      return part.data === undefined ? [] : [{ data: part.data }]
    }),
    outcome,
    nativeFinishReason,
    usage: usage ?? null,
  }
}

/** Calls put together as a caller would; a piece that does not begin its call and has no call before it is a fault. */
function toToolCalls(parts: readonly ChatPart[]): ToolCall[] {
  const calls: ToolCall[] = []
  for (const part of parts) {
    if (part.type !== 'tool_call') continue
    const { index, id, name, arguments: text } = part
    const known = calls[index]
    if (known && id === undefined && name === undefined) known.arguments += text
    else if (!known && index === calls.length && id && name) calls.push({ id, name, arguments: text })
    else throw new Error(`piece of a tool call out of order: ${JSON.stringify(part)}`)
  }
  return calls
}
