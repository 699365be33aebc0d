import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ToolCall } from '../../../src/daemon/models/conversation.ts'
import { type ChatPart, type FailureReason, type Outcome, ProviderError } from '../../../src/daemon/models/provider.ts'
import type { AnswerFormat } from '../../../src/daemon/models/providers/stream/answer-format.ts'
import { assembleAnswer } from '../../../src/daemon/models/providers/stream/assembly.ts'

/** The failure of a call. */
export type Failed = { reason: FailureReason; outcome: Outcome; message: string }

export type FixtureRow<Answer> = {
  file: string
  stream: boolean
  bytes: Buffer
  answer?: Answer | Failed
  failure?: Pick<Failed, 'reason' | 'outcome'>
}

export const fixtureFolder = (provider: string) => join(import.meta.dirname, '../../fixtures/providers', provider)

/** The recordings of the project, hand-written in the format of real servers. */
export function readFixtures<Row extends { file: string; bytes: Buffer }>(provider: string): Row[] {
  const folder = fixtureFolder(provider)
  const rows = JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8')) as Row[]
  return rows.map((row) => ({ ...row, bytes: readFileSync(join(folder, row.file)) }))
}

/** The parts of a recorded stream, with one network read per piece. */
export function readStream(pieces: readonly Uint8Array[], format: AnswerFormat): ChatPart[] {
  const assembly = assembleAnswer(format)
  const parts: ChatPart[] = []
  // The second read of the end raises a failure that follows the last parts.
  for (const piece of [...pieces, null, null]) {
    if (assembly.state() === 'ended') break
    parts.push(...assembly.take(piece === null ? null : Buffer.from(piece)))
  }
  return parts
}

export type Playback<Answer> = {
  /** Feeds a recorded stream to the engine, one network read per piece. */
  stream(pieces: readonly Uint8Array[], format?: AnswerFormat): Answer | Failed
  body(body: unknown, format?: AnswerFormat): Answer | Failed
  /** Reads a call of a provider to its end. */
  call(batches: AsyncIterable<readonly ChatPart[]>): Promise<Answer | Failed>
}

/** Replays a provider's response and returns the result. @param toAnswer combines the relevant parts */
export function createPlayback<Answer>(
  usual: AnswerFormat,
  toAnswer: (parts: readonly ChatPart[]) => Answer,
): Playback<Answer> {
  function settled(run: () => ChatPart[]): Answer | Failed {
    let parts: ChatPart[]
    try {
      parts = run()
    } catch (error) {
      return toFailed(error)
    }
    return toAnswer(parts)
  }
  return {
    stream: (pieces, format = usual) => settled(() => readStream(pieces, format)),
    body: (body, format = usual) => settled(() => format.decodeBody(body)),
    async call(batches) {
      const parts: ChatPart[] = []
      try {
        for await (const batch of batches) parts.push(...batch)
      } catch (error) {
        return toFailed(error)
      }
      return toAnswer(parts)
    },
  }
}

function toFailed(error: unknown): Failed {
  if (!(error instanceof ProviderError)) throw error
  return { reason: error.reason, outcome: error.outcome, message: error.message }
}

type End = Extract<ChatPart, { type: 'end' }>

/** The end of an answer. A missing or repeated end is an error. */
export function endOf(parts: readonly ChatPart[]) {
  const ends = parts.filter((part): part is End => part.type === 'end')
  const [end] = ends
  if (!end || ends.length > 1 || parts.at(-1) !== end) throw new Error('an answer ends with exactly one end')
  const { outcome, nativeFinishReason, usage } = end
  return { outcome, nativeFinishReason, usage: usage ?? null }
}

/** Adjacent texts are joined, because their boundaries are not part of the contract. */
export const wordsOf = (parts: readonly ChatPart[], type: 'text' | 'reasoning'): string =>
  parts.map((part) => (part.type === type ? part.text : '')).join('')

/** Combines the pieces of calls as a caller would. A piece without a preceding call start is an error. */
export function toToolCalls(parts: readonly ChatPart[]): ToolCall[] {
  const calls: ToolCall[] = []
  for (const part of parts) {
    if (part.type !== 'tool_call' || part.native) continue
    const { index, id, name, arguments: text } = part
    const known = calls[index]
    if (known && id === undefined && name === undefined) known.arguments += text
    else if (!known && index === calls.length && id && name) calls.push({ id, name, arguments: text })
    else throw new Error(`piece of a tool call out of order: ${JSON.stringify(part)}`)
  }
  return calls
}

/** The data that must be sent back to this provider in the next turn. */
export const toSignatures = (parts: readonly ChatPart[], provider: string): { signature?: string; data?: string }[] =>
  parts.flatMap((part): { signature?: string; data?: string }[] => {
    if (part.type !== 'reasoning') return []
    if (part.origin !== provider) throw new Error('reasoning names where it may go back to')
    if (part.signature !== undefined) return [{ signature: part.signature }]
    return part.data === undefined ? [] : [{ data: part.data }]
  })
