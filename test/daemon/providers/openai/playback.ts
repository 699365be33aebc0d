import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { openAiFormat } from '../../../../src/daemon/providers/openai/wire.ts'
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

const FIXTURES = join(import.meta.dirname, '../../../fixtures/providers/openai')

/** The recordings of the project, made by hand in the shapes of real servers. */
export function fixtures(): Fixture[] {
  const rows = JSON.parse(readFileSync(join(FIXTURES, 'manifest.json'), 'utf8')) as Omit<Fixture, 'bytes'>[]
  return rows.map((row) => ({ ...row, bytes: readFileSync(join(FIXTURES, row.file)) }))
}

/** Feeds a recorded stream to the engine, one network read per piece. */
export function playStream(pieces: readonly Uint8Array[]): Played {
  return settled(() => {
    const assembly = assembleAnswer(openAiFormat)
    const parts: ChatPart[] = []
    for (const piece of [...pieces, null]) {
      if (assembly.state === 'ended') break
      parts.push(...assembly.take(piece === null ? null : Buffer.from(piece)))
    }
    return parts
  })
}

export const playBody = (bytes: Uint8Array): Played =>
  settled(() => openAiFormat.decodeBody(JSON.parse(Buffer.from(bytes).toString())))

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
  return { text: join('text'), reasoning: join('reasoning'), outcome, nativeFinishReason, usage: usage ?? null }
}
