import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { statusError } from '../../../../src/daemon/providers/stream/failure.ts'
import { splitAt } from '../../../upstream.ts'
import { fixtures, type Played, playBody, playStream } from './playback.ts'

/** What other code made of a recording. Undefined members are not compared. */
type Recording = {
  id: string
  bytes: Buffer
  stream: boolean
  status: number
  expected: {
    text: string
    finish: string | null
    isFailure: boolean
    inputTokens?: number | undefined
    outputTokens?: number | undefined
  }
}

type ManifestRow = Omit<Recording, 'expected' | 'bytes'> & {
  api: string
  file: string
  expected: {
    text: string
    finish: string | null
    error: unknown
    usage: { prompt_tokens?: number; completion_tokens?: number } | null
  }
}

/**
 * Recordings of many real servers. They are not part of the project, so without the folder only our own are played.
 */
const evalDir = process.env.AIGW_EVAL_DIR ?? join(import.meta.dirname, '../../../../../shared/eval')

const inclusiveTokens = 'xAI counts reasoning beside the completion; ours is inclusive'
const mixedContent = 'the manifest leaves out content that is a list of parts'
const refusal = 'the manifest leaves refusals out; here they are the text of a filtered answer'
const xGroqUsage = 'the manifest reads usage only at the top; Groq puts it into x_groq'
/** Where we differ from the manifest on purpose, and what is ours. */
const EXCEPTIONS: Record<string, { why: string; ours: Partial<Recording['expected']> }> = {
  'openai-compatible-chat-completions-sse-fded1da442ac': { why: inclusiveTokens, ours: { outputTokens: 342 } },
  'openai-compatible-chat-completions-json-7e1abc5479ae': { why: inclusiveTokens, ours: { outputTokens: 322 } },
  'mistral-chat-completions-sse-d6e3de8dd28e': { why: mixedContent, ours: { text: '2 + 2 = 4' } },
  'mistral-chat-completions-sse-2f0cf4c02e90': { why: mixedContent, ours: { text: 'Partial answer.Final answer.' } },
  'mistral-chat-completions-json-a60398c0bc38': { why: mixedContent, ours: { text: '4' } },
  'openai-chat-completions-json-3c5ec3834eeb': {
    why: refusal,
    ours: { text: "I'm sorry, but I can't assist with that request." },
  },
  'openai-chat-completions-json-c90cdfd6cfaf': {
    why: refusal,
    ours: { text: "I'm sorry, but I can't assist with that request." },
  },
  'openai-chat-completions-json-15fc5b108750': {
    why: refusal,
    ours: { text: "I'm very sorry, but I can't assist with that request." },
  },
  'groq-chat-completions-sse-dea1a9649734': { why: xGroqUsage, ours: { inputTokens: 5003, outputTokens: 359 } },
  'groq-chat-completions-sse-00b25ea2fb20': { why: xGroqUsage, ours: { inputTokens: 18, outputTokens: 73 } },
  'openai-chat-completions-json-00f76b0c55b6': {
    why: 'the body of the older /completions under the name of chat',
    ours: { isFailure: true },
  },
}
/** Its text is a list of parts that is too long to repeat here, so only its length is compared. */
const LONG_MIXED = 'mistral-chat-completions-json-74f247c95f27'
const TOOL_REASONS = ['tool_calls', 'function_call']

function recordings(): Recording[] {
  const manifest = join(evalDir, 'wire/manifest.jsonl')
  if (!existsSync(manifest)) return []
  return readFileSync(manifest, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as ManifestRow)
    .filter(({ api }) => api === 'chat.completions')
    .map(({ id, file, stream, status, expected: { text, finish, error, usage } }) => ({
      id,
      stream,
      status,
      bytes: readFileSync(join(evalDir, file)),
      expected: {
        text,
        finish,
        inputTokens: usage?.prompt_tokens,
        outputTokens: usage?.completion_tokens,
        // Without an offered tool, a tool call without text is no answer.
        isFailure: error !== null || finish === null || (text === '' && TOOL_REASONS.includes(finish)),
        ...EXCEPTIONS[id]?.ours,
      },
    }))
}

function ownRecordings(): Recording[] {
  return fixtures().map(({ file, stream, bytes, answer }) => {
    const expected = answer && 'text' in answer ? answer : undefined
    return {
      id: file,
      stream,
      bytes,
      status: 200,
      expected: {
        text: expected?.text ?? '',
        finish: expected?.nativeFinishReason ?? null,
        isFailure: expected === undefined,
        inputTokens: expected?.usage?.inputTokens,
        outputTokens: expected?.usage?.outputTokens,
      },
    }
  })
}

/** What is wrong with how a recording was read; undefined when all is well. */
function complaint({ id, expected }: Recording, played: Played): string | undefined {
  if (!('text' in played)) return expected.isFailure ? undefined : `${id} failed: ${played.message}`
  if (expected.isFailure) return `${id} passed for an answer`
  const ours = {
    text: played.text,
    finish: played.nativeFinishReason,
    inputTokens: played.usage?.inputTokens,
    outputTokens: played.usage?.outputTokens,
    isFailure: false,
  }
  if (id === LONG_MIXED) return ours.text.length > 1000 ? undefined : `${id} lost its text`
  const differs = JSON.stringify(Object.entries(ours).sort()) !== JSON.stringify(Object.entries(expected).sort())
  return differs ? `${id}: ${JSON.stringify(ours)} is not ${JSON.stringify(expected)}` : undefined
}

const answered = [...ownRecordings(), ...recordings()].filter(({ status }) => status === 200)

test('every recorded body comes to the text, finish and usage that other code found in it', () => {
  const bodies = answered.filter(({ stream }) => !stream)
  expect(bodies.map((recording) => complaint(recording, playBody(recording.bytes))).filter(Boolean)).toEqual([])
})

test('every recorded stream comes to the text, finish and usage that other code found in it, byte by byte too', () => {
  const complaints = answered
    .filter(({ stream }) => stream)
    .flatMap((recording) => [
      complaint(recording, playStream([recording.bytes])),
      complaint(recording, playStream([...recording.bytes].map((byte) => Uint8Array.of(byte)))),
    ])
  expect(complaints.filter(Boolean)).toEqual([])
})

test('every recorded stream comes to the same when cut in two, small ones at every byte', () => {
  const cuts = answered
    .filter(({ stream }) => stream)
    .flatMap(({ id, bytes }) => {
      const whole = JSON.stringify(playStream([bytes]))
      return cutsOf(bytes.length)
        .filter((at) => JSON.stringify(playStream(splitAt(bytes, [at]))) !== whole)
        .map((at) => `${id} at ${at}`)
    })
  expect(cuts).toEqual([])
})

/** A cut costs the length of the recording, so long ones are cut at 24 places and around the last events. */
function cutsOf(length: number): number[] {
  const step = length <= 1500 ? 1 : Math.ceil(length / 24)
  const even = Array.from({ length: Math.ceil(length / step) }, (_, at) => at * step)
  return step === 1 ? even : [...even, ...[1, 2, 3, 12, 13, 14, 15, 16].map((fromEnd) => length - fromEnd)]
}

test('every recorded error body is a failure that keeps the words of the provider to itself', () => {
  const refused = recordings().filter(({ status }) => status !== 200)
  for (const { bytes, status } of refused) {
    const error = statusError(status, {}, bytes.toString(), 0)
    expect(error.reason).toBe(status === 404 ? 'server_error' : 'bad_request')
    expect(error.alarm).toBe(status === 404)
    expect(error.message.length).toBeLessThan(100)
  }
})
