import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { anthropicFormat } from '../../../../src/daemon/providers/anthropic/wire.ts'
import type { Reasoning, ToolCall } from '../../../../src/daemon/providers/conversation.ts'
import {
  type ChatPart,
  type FailureReason,
  type Outcome,
  ProviderError,
  type TokenUsage,
} from '../../../../src/daemon/providers/provider.ts'
import { assembleAnswer } from '../../../../src/daemon/providers/stream/assembly.ts'

/** What a call came to, with its pieces joined: how they were cut is not part of any promise. */
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
  | { reason: FailureReason; outcome: Outcome; message: string }

export type Fixture = {
  file: string
  stream: boolean
  bytes: Buffer
  answer?: Played
  failure?: { reason: FailureReason; outcome: Outcome }
}

const FIXTURES = join(import.meta.dirname, '../../../fixtures/providers/anthropic')

/** The recordings of the project, made by hand in the shapes of real servers. */
export function fixtures(): Fixture[] {
  const rows = JSON.parse(readFileSync(join(FIXTURES, 'manifest.json'), 'utf8')) as Omit<Fixture, 'bytes'>[]
  return rows.map((row) => ({ ...row, bytes: readFileSync(join(FIXTURES, row.file)) }))
}

/** Feeds a recorded stream to the engine, one network read per piece. */
export function playStream(pieces: readonly Uint8Array[]): Played {
  return settled(() => {
    const assembly = assembleAnswer(anthropicFormat)
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
  settled(() => anthropicFormat.decodeBody(JSON.parse(Buffer.from(bytes).toString())))

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
  const end = parts.at(-1)
  if (end?.type !== 'end') throw new Error('an answer ends with its end')
  let text = ''
  const reasoning: Reasoning[] = []
  const toolCalls: ToolCall[] = []
  for (const part of parts.slice(0, -1)) {
    if (part.type === 'text') text += part.text
    else if (part.type === 'tool_call') addCall(toolCalls, part)
    else if (part.type === 'reasoning') addStep(reasoning, part)
    else throw new Error('an answer has one end only')
    if (JSON.stringify(part).includes('"text":""') && !('signature' in part) && !('data' in part)) {
      throw new Error('a part says something')
    }
  }
  const { outcome, nativeFinishReason, usage } = end
  return { text, reasoning, toolCalls, outcome, nativeFinishReason, usage: usage ?? null }
}

function addCall(calls: ToolCall[], { index, id, name, arguments: piece }: Extract<ChatPart, { type: 'tool_call' }>) {
  const call = calls[index]
  if (call) {
    if (id !== undefined || name !== undefined) throw new Error('only the first piece of a call names it')
    call.arguments += piece
    return
  }
  if (index !== calls.length || id === undefined || name === undefined) throw new Error('a call begins with its name')
  calls.push({ id, name, arguments: piece })
}

function addStep(steps: Reasoning[], { text, origin, signature, data }: Extract<ChatPart, { type: 'reasoning' }>) {
  if (origin === undefined) throw new Error('reasoning tells where it may go back')
  const last = steps.at(-1)
  const isOpen = last !== undefined && last.signature === undefined && last.data === undefined && data === undefined
  if (!isOpen) {
    steps.push({ text, origin, ...(signature !== undefined && { signature }), ...(data !== undefined && { data }) })
    return
  }
  last.text += text
  if (signature !== undefined) last.signature = signature
}
