import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { statusError } from '../../../../../src/daemon/models/providers/stream/failure.ts'
import { splitAt } from '../../../../upstream.ts'
import { type Played, playBody, playStream } from './playback.ts'

type ManifestRow = {
  id: string
  api: string
  file: string
  stream: boolean
  status: number
  expected: {
    text: string
    finish: string | number | null
    error: unknown
    tool_calls: { id: string | null; name: string | null; arguments: string }[]
    usage: Partial<Record<string, number>> | null
  }
}
type Recording = ManifestRow & { bytes: Buffer }

/** Recordings of the real API. They are not part of the project; without the folder nothing is played. */
const evalDir = process.env.AIGW_EVAL_DIR ?? join(import.meta.dirname, '../../../../../../shared/eval')

const picture = 'it holds a picture, which a chat cannot carry and must not pass over'
const pieces = 'its tool calls come in pieces, which has to be asked for and never is'
/** Recordings where we fail intentionally although the manifest has an answer, with the reasons. */
const REFUSED: Record<string, string> = {
  'gemini-generateContent-sse-f773b4182ec0': picture,
  'gemini-generateContent-json-8890215c447f': picture,
  'gemini-generateContent-sse-5206dc28ab57': pieces,
  'gemini-generateContent-sse-f7e5a6754aa4': pieces,
}
/** Finish reasons in the manifest that mean a failure. */
const FAILURES = /^(blocked:.*|OTHER|FAKE_ENUM|UNEXPECTED_TOOL_CALL)$/

function recordings(): Recording[] {
  const manifest = join(evalDir, 'wire/manifest.jsonl')
  if (!existsSync(manifest)) return []
  return readFileSync(manifest, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as ManifestRow)
    .filter(({ api }) => api === 'generateContent')
    .map((row) => ({ ...row, bytes: readFileSync(join(evalDir, row.file)) }))
}

/** The error in reading a recording; undefined if it was read correctly. */
function complaint({ id, expected }: Recording, played: Played): string | undefined {
  const isFailure = id in REFUSED || expected.finish === null || FAILURES.test(String(expected.finish))
  if (!('text' in played)) return isFailure ? undefined : `${id} failed: ${played.message}`
  if (isFailure) return `${id} passed for an answer`
  const { usage } = expected
  const theirs = {
    text: expected.text,
    finish: String(expected.finish),
    toolCalls: expected.tool_calls.map(({ id, name, arguments: text }) => [id, name, JSON.parse(text)]),
    inputTokens: usage ? (usage.promptTokenCount ?? 0) + (usage.toolUsePromptTokenCount ?? 0) : undefined,
    outputTokens: usage ? (usage.candidatesTokenCount ?? 0) + (usage.thoughtsTokenCount ?? 0) : undefined,
  }
  // An answer without an output count has no reliable usage, unless its output is empty.
  if (theirs.outputTokens === 0 && theirs.text !== '') theirs.inputTokens = theirs.outputTokens = undefined
  const ours = {
    text: played.text,
    finish: played.nativeFinishReason,
    // If Google sent no id, ours is not compared.
    toolCalls: played.toolCalls.map((call, at) => [
      theirs.toolCalls[at]?.[0] === null ? null : call.id,
      call.name,
      JSON.parse(call.arguments),
    ]),
    inputTokens: played.usage?.inputTokens,
    outputTokens: played.usage?.outputTokens,
  }
  return JSON.stringify(ours) === JSON.stringify(theirs)
    ? undefined
    : `${id}: ${JSON.stringify(ours)} is not ${JSON.stringify(theirs)}`
}

const all = recordings()
const answered = all.filter(({ status }) => status === 200)
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
    const step = Math.ceil(bytes.length / 1000)
    const offsets = Array.from({ length: Math.ceil(bytes.length / step) }, (_, at) => at * step)
    return offsets
      .filter((at) => JSON.stringify(playStream(splitAt(bytes, [at]))) !== whole)
      .map((at) => `${id} at ${at}`)
  })
  expect(cuts).toEqual([])
})

test('no recorded stream is complete without its last response', () => {
  const cut = streams.filter(({ bytes }) => (bytes.toString().match(/"finishReason"/g) ?? []).length === 1)
  const passed = cut
    .filter(({ bytes }) => playStream([bytes.subarray(0, bytes.indexOf('"finishReason"'))]).outcome !== 'truncated')
    .map(({ id }) => id)
    .filter((id) => !(id in REFUSED))
  expect(passed).toEqual([])
})

test("every recorded error body is a failure without the provider's text", () => {
  for (const { bytes, status } of all.filter((recording) => recording.status !== 200)) {
    const error = statusError(status, {}, bytes.toString(), 0)
    expect(error.reason).toBe(status === 404 ? 'model_not_found' : 'bad_request')
    expect(error.alarm).toBe(status === 404)
    expect(error.message.length).toBeLessThan(100)
  }
})
