import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { ToolCall } from '../../../../../src/daemon/models/conversation.ts'
import { toEmbeddings } from '../../../../../src/daemon/models/providers/openai/embeddings.ts'
import { statusError } from '../../../../../src/daemon/models/providers/stream/failure.ts'
import { runToEnd } from '../../../../../src/daemon/platform/pacing.ts'
import { splitAt } from '../../../../upstream.ts'
import { fixtures, type Played, playBody, playStream } from './playback.ts'

/** The result that other code produced from a recording. Undefined members are not compared. */
type Recording = {
  id: string
  bytes: Buffer
  stream: boolean
  status: number
  tools: boolean
  expected: {
    text: string
    toolCalls?: readonly ToolCall[]
    finish: string | null
    isFailure: boolean
    inputTokens?: number | undefined
    outputTokens?: number | undefined
  }
}

type ManifestRow = Omit<Recording, 'expected' | 'bytes' | 'tools'> & {
  api: string
  provider: string
  file: string
  expected: {
    text: string
    tool_calls: ToolCall[]
    finish: string | null
    error: unknown
    usage: { prompt_tokens?: number; completion_tokens?: number } | null
  }
}

/** Recordings of many real servers. They are not part of the project; without the folder only our own are played. */
const evalDir = process.env.AIGW_EVAL_DIR ?? join(import.meta.dirname, '../../../../../../shared/eval')

const inclusiveTokens = 'xAI counts reasoning beside the completion; ours is inclusive'
const mixedContent = 'the manifest leaves out content that is a list of parts'
const refusal = 'the manifest leaves refusals out; here they are the text of a filtered answer'
const xGroqUsage = 'the manifest reads usage only at the top; Groq puts it into x_groq'
/** Intended differences from the manifest, with our values. */
const EXCEPTIONS: Record<string, { why: string; ours: Partial<Recording['expected']> }> = {
  'openai-compatible-chat-completions-sse-fded1da442ac': { why: inclusiveTokens, ours: { outputTokens: 342 } },
  'openai-compatible-chat-completions-json-7e1abc5479ae': { why: inclusiveTokens, ours: { outputTokens: 322 } },
  'xai-chat-completions-json-7edb05537e71': { why: inclusiveTokens, ours: { outputTokens: 215 } },
  'openai-compatible-chat-completions-sse-a9dc72c531d1': {
    why: 'a tool call without a name: nobody can run it',
    ours: { isFailure: true },
  },
  'openai-chat-completions-sse-0dcecd1f7066': {
    why: 'arguments that go on after the end of their object',
    ours: { isFailure: true },
  },
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
  'groq-chat-completions-sse-56615b5d9aaf': { why: xGroqUsage, ours: { inputTokens: 18, outputTokens: 439 } },
  'groq-chat-completions-sse-00b25ea2fb20': { why: xGroqUsage, ours: { inputTokens: 18, outputTokens: 73 } },
  'openai-chat-completions-json-00f76b0c55b6': {
    why: 'the body of the older /completions under the name of chat',
    ours: { isFailure: true },
  },
}
/** Its text is a long list of parts, so only its length is compared. */
const LONG_MIXED = 'mistral-chat-completions-json-74f247c95f27'
/** The form before `tool_calls`, which the manifest does not read. */
const LEGACY = 'function_call'
/** Other interfaces of these providers: we do not use the one before chat, and `responses/` tests the one after it. */
const NOT_SPOKEN = ['completions', 'responses']
const FAMILY = [
  'alibaba',
  'azure-openai',
  'cerebras',
  'deepseek',
  'groq',
  'huggingface',
  'mistral',
  'moonshot',
  'openai',
  'openai-compatible',
  'openrouter',
  'perplexity',
  'xai',
  'zai',
]

const manifest = readManifest()
const recordings = manifest.filter(({ api }) => api === 'chat.completions').map(toRecording)

function readManifest(): ManifestRow[] {
  const file = join(evalDir, 'wire/manifest.jsonl')
  if (!existsSync(file)) return []
  const lines = readFileSync(file, 'utf8').trim().split('\n')
  return lines.map((line) => JSON.parse(line) as ManifestRow)
}

function toRecording({ id, file, stream, status, expected }: ManifestRow): Recording {
  const { text, tool_calls: toolCalls, finish, error, usage } = expected
  return {
    id,
    stream,
    status,
    // Only an answer to a call with tools contains calls.
    tools: toolCalls.length > 0 || finish === LEGACY,
    bytes: readFileSync(join(evalDir, file)),
    expected: {
      text,
      ...(finish !== LEGACY && { toolCalls }),
      finish,
      inputTokens: usage?.prompt_tokens,
      outputTokens: usage?.completion_tokens,
      isFailure: error !== null || finish === null,
      ...EXCEPTIONS[id]?.ours,
    },
  }
}

function ownRecordings(): Recording[] {
  return fixtures().map(({ file, stream, bytes, answer, tools = false }) => {
    const expected = answer && 'text' in answer ? answer : undefined
    return {
      id: file,
      stream,
      bytes,
      tools,
      status: 200,
      expected: {
        text: expected?.text ?? '',
        toolCalls: expected?.toolCalls ?? [],
        finish: expected?.nativeFinishReason ?? null,
        isFailure: expected === undefined,
        inputTokens: expected?.usage?.inputTokens,
        outputTokens: expected?.usage?.outputTokens,
      },
    }
  })
}

/** The error in reading a recording; undefined if it was read correctly. */
function complaint({ id, expected }: Recording, played: Played): string | undefined {
  if (!('text' in played)) return expected.isFailure ? undefined : `${id} failed: ${played.message}`
  if (expected.isFailure) return `${id} passed for an answer`
  const ours = {
    text: played.text,
    ...(expected.toolCalls && { toolCalls: played.toolCalls }),
    finish: played.nativeFinishReason,
    inputTokens: played.usage?.inputTokens,
    outputTokens: played.usage?.outputTokens,
    isFailure: false,
  }
  if (id === LONG_MIXED) return ours.text.length > 1000 ? undefined : `${id} lost its text`
  const differs = JSON.stringify(Object.entries(ours).sort()) !== JSON.stringify(Object.entries(expected).sort())
  return differs ? `${id}: ${JSON.stringify(ours)} is not ${JSON.stringify(expected)}` : undefined
}

const answered = [...ownRecordings(), ...recordings].filter(({ status }) => status === 200)

test('every recorded body gives the text, tool calls, finish reason and usage of the manifest', () => {
  const bodies = answered.filter(({ stream }) => !stream)
  expect(bodies.map((recording) => complaint(recording, playBody(recording.bytes, recording))).filter(Boolean)).toEqual(
    [],
  )
})

test('every recorded stream gives the text, tool calls, finish reason and usage of the manifest, byte by byte too', () => {
  const complaints = answered
    .filter(({ stream }) => stream)
    .flatMap((recording) => [
      complaint(recording, playStream([recording.bytes], recording)),
      complaint(
        recording,
        playStream(
          [...recording.bytes].map((byte) => Uint8Array.of(byte)),
          recording,
        ),
      ),
    ])
  expect(complaints.filter(Boolean)).toEqual([])
})

test('every recorded stream gives the same result when split in two, small ones at every byte', () => {
  const cuts = answered
    .filter(({ stream }) => stream)
    .flatMap(({ id, bytes, tools }) => {
      const whole = JSON.stringify(playStream([bytes], { tools }))
      return cutsOf(bytes.length)
        .filter((at) => JSON.stringify(playStream(splitAt(bytes, [at]), { tools })) !== whole)
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

test("every recorded error body is a failure without the provider's text", () => {
  const refused = recordings.filter(({ status }) => status !== 200)
  for (const { bytes, status } of refused) {
    const error = statusError(status, {}, bytes.toString(), 0)
    // A mistake of the model is not an error of the caller.
    const reason = bytes.includes('"tool_use_failed"') ? 'server_error' : 'bad_request'
    expect(error.reason).toBe(status === 404 ? 'model_not_found' : reason)
    expect(error.alarm).toBe(status === 404)
    expect(error.message.length).toBeLessThan(100)
  }
})

test('every recorded embedding answer gives vectors of one length, and its cost', () => {
  const answers = manifest.filter(({ api, provider, status }) => isEmbedding(api, provider) && status === 200)
  for (const { id, file } of answers) {
    const body = JSON.parse(readFileSync(join(evalDir, file), 'utf8')) as { data: unknown[] }
    const { vectors, usage } = runToEnd(toEmbeddings(body, body.data.length))
    expect({ id, lengths: new Set(vectors.map(({ length }) => length)).size }).toEqual({ id, lengths: 1 })
    expect({ id, input: usage?.inputTokens }).toEqual({ id, input: expect.any(Number) })
    expect(usage?.outputTokens).toBe(0)
  }
})

const isEmbedding = (api: string, provider: string) => api === 'embeddings' && FAMILY.includes(provider)

test('every recording of the family is one we read, or of an interface that we do not support', () => {
  const family = manifest.filter(({ provider }) => FAMILY.includes(provider))
  const read = ({ api, provider }: ManifestRow) => api === 'chat.completions' || isEmbedding(api, provider)
  expect(family.filter((row) => !read(row) && !NOT_SPOKEN.includes(row.api))).toEqual([])
  if (manifest.length > 0) expect(new Set(family.map(({ provider }) => provider))).toEqual(new Set(FAMILY))
})
