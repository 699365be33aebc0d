import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { googleFormat } from '../../../../src/daemon/providers/google/wire.ts'
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
      toolCalls: { id: string; name: string; arguments: string }[]
      /** What has to go back to Google on the next turn. */
      signatures: { signature?: string; data?: string }[]
      outcome: Outcome
      nativeFinishReason: string
      usage: TokenUsage | null
    }
  | { reason: FailureReason; outcome: Outcome; message: string }

export type Fixture = {
  file: string
  stream: boolean
  bytes: Buffer
  answer?: Played
  failure?: { reason: FailureReason; outcome: Outcome }
}

const FIXTURES = join(import.meta.dirname, '../../../fixtures/providers/google')

/** The recordings of the project, made by hand in the shapes of the real API. */
export function fixtures(): Fixture[] {
  const rows = JSON.parse(readFileSync(join(FIXTURES, 'manifest.json'), 'utf8')) as Omit<Fixture, 'bytes'>[]
  return rows.map((row) => ({ ...row, bytes: readFileSync(join(FIXTURES, row.file)) }))
}

/** Feeds a recorded stream to the engine, one network read per piece. */
export function playStream(pieces: readonly Uint8Array[]): Played {
  return settled(() => {
    const assembly = assembleAnswer(googleFormat)
    const parts: ChatPart[] = []
    // The second end brings out a failure that followed the last parts.
    for (const piece of [...pieces, null, null]) {
      if (assembly.state === 'ended') break
      parts.push(...assembly.take(piece === null ? null : Buffer.from(piece)))
    }
    return parts
  })
}

export const playBody = (bytes: Uint8Array): Played =>
  settled(() => googleFormat.decodeBody(JSON.parse(Buffer.from(bytes).toString())))

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

/** An SSE body in Google's shape: one response per list of parts, the last one with the finish reason. */
export function googleStream(steps: readonly object[][], { finishReason = 'STOP', usage = {} } = {}): string {
  return steps
    .map((parts, at) => {
      const isLast = at === steps.length - 1
      const candidate = { content: { role: 'model', parts }, ...(isLast && { finishReason }), index: 0 }
      return `data: ${JSON.stringify({ candidates: [candidate], ...(isLast && { usageMetadata: usage }) })}\n\n`
    })
    .join('')
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
    toolCalls: toolCalls(parts),
    signatures: parts.flatMap((part): { signature?: string; data?: string }[] => {
      if (part.type !== 'reasoning') return []
      if (part.origin !== 'google') throw new Error('reasoning names where it may go back to')
      if (part.signature !== undefined) return [{ signature: part.signature }]
      return part.data === undefined ? [] : [{ data: part.data }]
    }),
    outcome,
    nativeFinishReason,
    usage: usage ?? null,
  }
}

function toolCalls(parts: readonly ChatPart[]): { id: string; name: string; arguments: string }[] {
  const calls: { id: string; name: string; arguments: string }[] = []
  for (const part of parts) {
    if (part.type !== 'tool_call') continue
    if (part.index !== calls.length || part.id === undefined || part.name === undefined) {
      throw new Error('a call comes whole, and calls are counted')
    }
    calls.push({ id: part.id, name: part.name, arguments: part.arguments })
  }
  return calls
}
