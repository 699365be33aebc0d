import type { Reasoning, ToolCall } from '../../../../../src/daemon/models/conversation.ts'
import type { ChatPart, Outcome, TokenUsage } from '../../../../../src/daemon/models/provider.ts'
import { anthropicFormat } from '../../../../../src/daemon/models/providers/anthropic/answer.ts'
import {
  createPlayback,
  endOf,
  type Failed,
  type FixtureRow,
  readFixtures,
  toToolCalls,
  wordsOf,
} from '../../playback.ts'

/** The result of a call. */
export type Played =
  | {
      text: string
      /** A step ends with its signature or its data. */
      reasoning: Reasoning[]
      toolCalls: ToolCall[]
      outcome: Outcome
      nativeFinishReason: string
      usage: TokenUsage | null
    }
  | Failed

export type Fixture = FixtureRow<Played>

export const fixtures = () => readFixtures<Fixture>('anthropic')

const playback = createPlayback(anthropicFormat, (parts) => {
  for (const part of parts) {
    const saysNothing = 'text' in part && part.text === '' && !('signature' in part) && !('data' in part)
    if (saysNothing) throw new Error('a part says something')
  }
  return {
    text: wordsOf(parts, 'text'),
    reasoning: toSteps(parts),
    toolCalls: toToolCalls(parts),
    ...endOf(parts),
  }
})

export const playStream = (pieces: readonly Uint8Array[]): Played => playback.stream(pieces)
export const playBody = (bytes: Uint8Array): Played => playback.body(JSON.parse(Buffer.from(bytes).toString()))
export const playCall = playback.call

function toSteps(parts: readonly ChatPart[]): Reasoning[] {
  const steps: Reasoning[] = []
  for (const part of parts) {
    if (part.type !== 'reasoning') continue
    const { text, origin, signature, data } = part
    if (origin === undefined) throw new Error('reasoning tells where it may go back')
    const last = steps.at(-1)
    const isOpen = last !== undefined && last.signature === undefined && last.data === undefined && data === undefined
    if (!isOpen) {
      steps.push({ text, origin, ...(signature !== undefined && { signature }), ...(data !== undefined && { data }) })
      continue
    }
    last.text += text
    if (signature !== undefined) last.signature = signature
  }
  return steps
}
