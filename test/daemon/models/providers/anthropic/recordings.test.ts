import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { ToolCall } from '../../../../../src/daemon/models/conversation.ts'
import { statusError } from '../../../../../src/daemon/models/providers/stream/failure.ts'
import { splitAt } from '../../../../upstream.ts'
import { fixtures, type Played, playBody, playStream } from './playback.ts'

type Expected = {
  text: string
  toolCalls: ToolCall[]
  finish: string | null
  inputTokens: number | undefined
  outputTokens: number | undefined
  cacheReadTokens: number
  cacheWriteTokens: number
  isFailure: boolean
}

/** The result that other code produced from a recording. */
type Recording = { id: string; bytes: Buffer; stream: boolean; status: number; expected: Expected }

type Usage = {
  input_tokens?: number | null
  output_tokens?: number | null
  cache_read_input_tokens?: number | null
  cache_creation_input_tokens?: number | null
}

type ManifestRow = Omit<Recording, 'expected' | 'bytes'> & {
  provider: string
  api: string
  file: string
  expected: {
    text: string
    tool_calls: ToolCall[]
    finish: string | null
    error: unknown
    usage: Usage | null
  } | null
}

/** Recordings of the real server. They are not part of the project; without the folder only our own are played. */
const evalDir = process.env.AIGW_EVAL_DIR ?? join(import.meta.dirname, '../../../../../../shared/eval')

const severalAnswers = 'the recording holds several answers one after the other; ours is the first of them'
const moreIterations = 'the totals omit a compaction or the calls of an advisor model, which are billed'
/** Intended differences from the manifest, with our values. */
const EXCEPTIONS: Record<string, { why: string; ours: Partial<Expected> }> = {
  'anthropic-messages-json-250549a906fb': {
    why: 'pause_turn asks to be continued, so it is no answer',
    ours: { isFailure: true },
  },
  'anthropic-messages-sse-2ac79bd2b512': {
    why: 'a second answer begins inside the first, of which the caller has already read a part',
    ours: { isFailure: true },
  },
  'anthropic-messages-sse-be11e7440096': {
    why: severalAnswers,
    ours: {
      text: "I'll help you simulate this game between two players where one is using a loaded die. Let me play out the game round by round until one player wins 3 rounds.",
      toolCalls: [{ id: 'toolu_019jKkXz4jAdwHweHBw92CVY', name: 'rollDie', arguments: '{"player":"player1"}' }],
      finish: 'tool_use',
      inputTokens: 3369,
      outputTokens: 725,
    },
  },
  'anthropic-messages-sse-cdaf96a8539a': {
    why: severalAnswers,
    ours: {
      text: 'Great! I found a weather tool. Let me get the current weather data for San Francisco.',
      finish: 'tool_use',
      inputTokens: 1681,
      outputTokens: 163,
    },
  },
  'anthropic-messages-json-86ffa389aa0a': {
    why: moreIterations,
    ours: { inputTokens: 5142, outputTokens: 4074 },
  },
  'anthropic-messages-json-d2e120a3f61c': {
    why: moreIterations,
    ours: { inputTokens: 61067, outputTokens: 1912 },
  },
  'anthropic-messages-json-6c94e0bea882': {
    why: moreIterations,
    ours: { inputTokens: 4946, outputTokens: 171 },
  },
  'anthropic-messages-json-c20c30dbd4d4': {
    why: moreIterations,
    ours: { inputTokens: 55425, outputTokens: 136, cacheWriteTokens: 55096 },
  },
  'anthropic-messages-sse-a509a7745d3c': {
    why: moreIterations,
    ours: { inputTokens: 4954, outputTokens: 163 },
  },
}

function recordings(): Recording[] {
  const manifest = join(evalDir, 'wire/manifest.jsonl')
  if (!existsSync(manifest)) return []
  return readFileSync(manifest, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as ManifestRow)
    .filter(({ provider, api }) => provider === 'anthropic' && api === 'messages')
    .map(({ id, file, stream, status, expected }) => ({
      id,
      stream,
      status,
      bytes: readFileSync(join(evalDir, file)),
      expected: { ...toExpected(expected), ...EXCEPTIONS[id]?.ours },
    }))
}

function toExpected(row: ManifestRow['expected']): Expected {
  const usage = row?.usage
  const cacheReadTokens = usage?.cache_read_input_tokens ?? 0
  const cacheWriteTokens = usage?.cache_creation_input_tokens ?? 0
  const fresh = usage?.input_tokens
  return {
    text: row?.text ?? '',
    toolCalls: row?.tool_calls ?? [],
    finish: row?.finish ?? null,
    // The provider counts cached tokens separately; our count includes them.
    inputTokens: typeof fresh === 'number' ? fresh + cacheReadTokens + cacheWriteTokens : undefined,
    outputTokens: usage?.output_tokens ?? undefined,
    cacheReadTokens,
    cacheWriteTokens,
    isFailure: !row || row.error !== null || row.finish === null,
  }
}

/** The error in reading a recording; undefined if it was read correctly. */
function complaint({ id, stream, expected }: Recording, played: Played): string | undefined {
  if (!('text' in played)) return expected.isFailure ? undefined : `${id} failed: ${played.message}`
  if (expected.isFailure) return `${id} passed for an answer`
  const { text, toolCalls, nativeFinishReason, usage } = played
  const ours: Expected = {
    text,
    toolCalls: toolCalls.map((call) => withArguments(call, stream)),
    finish: nativeFinishReason,
    inputTokens: usage?.inputTokens,
    outputTokens: usage?.outputTokens,
    cacheReadTokens: usage?.cacheReadTokens ?? 0,
    cacheWriteTokens: usage?.cacheWriteTokens ?? 0,
    isFailure: false,
  }
  const theirs = { ...expected, toolCalls: expected.toolCalls.map((call) => withArguments(call, stream)) }
  const differs = JSON.stringify(Object.entries(ours).sort()) !== JSON.stringify(Object.entries(theirs).sort())
  return differs ? `${id}: ${JSON.stringify(ours)} is not ${JSON.stringify(theirs)}` : undefined
}

/**
 * Streamed arguments are compared as text, except for tools without parameters: the manifest omits them, we have `{}`.
 * In a body they
 * are an object, so only its value can be compared.
 */
function withArguments(call: ToolCall, stream: boolean): ToolCall {
  const text = call.arguments || '{}'
  return { id: call.id, name: call.name, arguments: stream ? text : JSON.stringify(JSON.parse(text)) }
}

const answered = recordings().filter(({ status }) => status === 200)
const streams = answered.filter(({ stream }) => stream)

test('every recorded body gives the text, tool calls, finish reason and usage of the manifest', () => {
  const bodies = answered.filter(({ stream }) => !stream)
  expect(bodies.map((recording) => complaint(recording, playBody(recording.bytes))).filter(Boolean)).toEqual([])
})

test('every recorded stream gives the text, tool calls, finish reason and usage of the manifest, byte by byte too', () => {
  const complaints = streams.flatMap((recording) => [
    complaint(recording, playStream([recording.bytes])),
    complaint(recording, playStream([...recording.bytes].map((byte) => Uint8Array.of(byte)))),
  ])
  expect(complaints.filter(Boolean)).toEqual([])
})

test('every recorded stream gives the same result when split in two, small ones at every byte', () => {
  const cuts = streams.flatMap(({ id, bytes }) => {
    const whole = JSON.stringify(playStream([bytes]))
    return cutsOf(bytes.length)
      .filter((at) => JSON.stringify(playStream(splitAt(bytes, [at]))) !== whole)
      .map((at) => `${id} at ${at}`)
  })
  expect(cuts).toEqual([])
})

/** Each cut replays the recording, so long ones are cut at 24 places and around the last events. */
function cutsOf(length: number): number[] {
  const step = length <= 1500 ? 1 : Math.ceil(length / 24)
  const even = Array.from({ length: Math.ceil(length / step) }, (_, at) => at * step)
  return step === 1 ? even : [...even, ...[1, 2, 3, 12, 13, 14, 15, 16].map((fromEnd) => length - fromEnd)]
}

test('no recorded stream is complete before its stop reason, wherever it ends', () => {
  const early = streams
    .filter(({ expected }) => !expected.isFailure)
    .flatMap(({ id, bytes }) => {
      const stopAt = bytes.indexOf('"stop_reason":"')
      return cutsOf(stopAt)
        .map((at) => playStream([bytes.subarray(0, at)]))
        .filter(({ outcome }) => outcome !== 'truncated')
        .map(({ outcome }) => `${id}: ${outcome}`)
    })
  expect(early).toEqual([])
})

test("every recorded error body is a failure without the provider's text", () => {
  const refused = recordings().filter(({ status }) => status !== 200)
  for (const { bytes, status } of refused) {
    const error = statusError(status, {}, bytes.toString(), 0)
    expect(error.reason).toBe(status === 404 ? 'model_not_found' : 'bad_request')
    expect(error.alarm).toBe(status === 404)
    expect(error.message.length).toBeLessThan(100)
  }
})

test('each exception belongs to a recording, and none is unused', () => {
  const ids = new Set(recordings().map(({ id }) => id))
  const left = Object.keys(EXCEPTIONS).filter((id) => !ids.has(id))
  expect(left).toEqual(ids.size === 0 ? Object.keys(EXCEPTIONS) : [])
  expect(fixtures().length).toBeGreaterThan(50)
})
