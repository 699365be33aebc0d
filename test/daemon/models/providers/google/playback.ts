import type { ToolCall } from '../../../../../src/daemon/models/conversation.ts'
import type { Outcome, TokenUsage } from '../../../../../src/daemon/models/provider.ts'
import { googleFormat } from '../../../../../src/daemon/models/providers/google/answer.ts'
import {
  createPlayback,
  endOf,
  type Failed,
  type FixtureRow,
  readFixtures,
  toSignatures,
  toToolCalls,
  wordsOf,
} from '../../playback.ts'

/** The result of a call. */
export type Played =
  | {
      text: string
      reasoning: string
      toolCalls: ToolCall[]
      /** The data that must be sent back to Google in the next turn. */
      signatures: { signature?: string; data?: string }[]
      outcome: Outcome
      nativeFinishReason: string
      usage: TokenUsage | null
    }
  | Failed

export type Fixture = FixtureRow<Played>

export const fixtures = () => readFixtures<Fixture>('google')

const playback = createPlayback(googleFormat, (parts) => ({
  text: wordsOf(parts, 'text'),
  reasoning: wordsOf(parts, 'reasoning'),
  toolCalls: toToolCalls(parts),
  signatures: toSignatures(parts, 'google'),
  ...endOf(parts),
}))

export const playStream = (pieces: readonly Uint8Array[]): Played => playback.stream(pieces)
export const playBody = (bytes: Uint8Array): Played => playback.body(JSON.parse(Buffer.from(bytes).toString()))
export const playCall = playback.call

/** An SSE body in Google's format: one response per list of parts, the last one with the finish reason. */
export function googleStream(steps: readonly object[][], { finishReason = 'STOP', usage = {} } = {}): string {
  return steps
    .map((parts, at) => {
      const isLast = at === steps.length - 1
      const candidate = { content: { role: 'model', parts }, ...(isLast && { finishReason }), index: 0 }
      return `data: ${JSON.stringify({ candidates: [candidate], ...(isLast && { usageMetadata: usage }) })}\n\n`
    })
    .join('')
}
