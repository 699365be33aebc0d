import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { EventStreamCodec } from '@smithy/eventstream-codec'
import type { ToolCall } from '../../../../../src/daemon/models/conversation.ts'
import type { FailureReason, Outcome, TokenUsage } from '../../../../../src/daemon/models/provider.ts'
import { bedrockFormat } from '../../../../../src/daemon/models/providers/bedrock/answer.ts'
import {
  createPlayback,
  endOf,
  type Failed,
  fixtureFolder,
  toSignatures,
  toToolCalls,
  wordsOf,
} from '../../playback.ts'

/** The result of a call with adjacent texts joined, because their boundaries are not part of the contract. */
export type Played =
  | {
      text: string
      reasoning: string
      toolCalls: ToolCall[]
      /** The data that must be sent back to Bedrock in the next turn. */
      signatures: { signature?: string; data?: string }[]
      outcome: Outcome
      nativeFinishReason: string
      usage: TokenUsage | null
    }
  | Failed

/** An event by name with its data (text for data that is not JSON), or the protocol's form of a failure. */
export type Event = [name: string, data: object | string] | { exception: string; data: object } | { error: string }

export type StreamFixture = {
  name: string
  events: Event[]
  answer?: Played
  failure?: { reason: FailureReason; outcome: Outcome }
}
export type BodyFixture = Omit<StreamFixture, 'events'> & { body: unknown }

const FIXTURES = fixtureFolder('bedrock')
const readJson = (file: string) => JSON.parse(readFileSync(join(FIXTURES, file), 'utf8'))

/** Streams as events, and complete answers, hand-written in the format of the real API. */
export const streamFixtures = (): StreamFixture[] => readJson('streams.json')
export const bodyFixtures = (): BodyFixture[] => readJson('bodies.json')
/** The first stream as bytes, so that the codec is checked against independent data. */
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

/** The events of an answer with these texts. */
export const answerEvents = (texts: readonly string[], { usage = {}, stopReason = 'end_turn' } = {}): Event[] => [
  ['messageStart', { role: 'assistant' }],
  ...texts.map((text): Event => ['contentBlockDelta', { contentBlockIndex: 0, delta: { text }, p: 'abc' }]),
  ['contentBlockStop', { contentBlockIndex: 0 }],
  ['messageStop', { stopReason }],
  ['metadata', { usage, metrics: { latencyMs: 5 } }],
]

const playback = createPlayback(bedrockFormat, (parts) => ({
  text: wordsOf(parts, 'text'),
  reasoning: wordsOf(parts, 'reasoning'),
  toolCalls: toToolCalls(parts),
  signatures: toSignatures(parts, 'bedrock'),
  ...endOf(parts),
}))

export const playStream = (pieces: readonly Uint8Array[]): Played => playback.stream(pieces)
export const playBody = (body: unknown): Played => playback.body(body)
export const playCall = playback.call
