import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ToolCall } from '../../../../src/daemon/providers/conversation.ts'
import { profilesOf } from '../../../../src/daemon/providers/openai/profiles.ts'
import { openAiFormat } from '../../../../src/daemon/providers/openai/wire.ts'
import {
  type ChatPart,
  type FailureReason,
  type Outcome,
  type ProviderCall,
  ProviderError,
  type TokenUsage,
} from '../../../../src/daemon/providers/provider.ts'
import { type AnswerFormat, assembleAnswer } from '../../../../src/daemon/providers/stream/assembly.ts'

/** What a call came to, with adjacent texts joined: how they were cut is not part of any promise. */
export type Played =
  | {
      text: string
      reasoning: string
      toolCalls: ToolCall[]
      outcome: Outcome
      nativeFinishReason: string
      usage: TokenUsage | null
    }
  | { reason: FailureReason; outcome: Outcome; message: string }

export type Fixture = {
  file: string
  stream: boolean
  /** Tools had been offered. */
  tools?: boolean
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

const TOOLS = { tools: [{ name: 'any' }] }

/** The format in which OpenAI answers a plain call, or one with these options. */
export const formatFor = (options?: ProviderCall['options'], name = 'any', baseUrl = 'http://127.0.0.1') =>
  openAiFormat({ options }, profilesOf(name, baseUrl)('any'))

const plain = formatFor()
const withTools = formatFor(TOOLS)

/** Feeds a recorded stream to the engine, one network read per piece. */
export const playStream = (pieces: readonly Uint8Array[], { tools = false } = {}): Played =>
  settled(() => readStream(pieces, tools ? withTools : plain))

/** The parts of a recorded stream as they come. */
export function readStream(pieces: readonly Uint8Array[], format: AnswerFormat): ChatPart[] {
  const assembly = assembleAnswer(format)
  const parts: ChatPart[] = []
  // The second end brings out a failure that followed the last parts.
  for (const piece of [...pieces, null, null]) {
    if (assembly.state === 'ended') break
    parts.push(...assembly.take(piece === null ? null : Buffer.from(piece)))
  }
  return parts
}

export const playBody = (bytes: Uint8Array, { tools = false } = {}): Played =>
  settled(() => (tools ? withTools : plain).decodeBody(JSON.parse(Buffer.from(bytes).toString())))

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
    outcome,
    nativeFinishReason,
    usage: usage ?? null,
  }
}

/** Calls put together as a caller would; a piece that does not begin its call and has no call before it is a fault. */
export function toToolCalls(parts: readonly ChatPart[]): ToolCall[] {
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
