import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { ToolCall } from '../../../../../../src/daemon/models/conversation.ts'
import { profilesOf } from '../../../../../../src/daemon/models/providers/openai/profiles.ts'
import { responsesFormat } from '../../../../../../src/daemon/models/providers/openai/responses/answer.ts'
import { statusError } from '../../../../../../src/daemon/models/providers/stream/failure.ts'
import { splitAt } from '../../../../../upstream.ts'
import {
  createPlayback,
  endOf,
  type FixtureRow,
  readFixtures,
  toSignatures,
  toToolCalls,
  wordsOf,
} from '../../../playback.ts'
import type { Played } from '../playback.ts'

const formatFor = (tools: boolean) =>
  responsesFormat({ options: tools ? { tools: [{ name: 'any' }] } : undefined }, profilesOf('any', 'http://a.b')('any'))

const playback = createPlayback(formatFor(false), (parts) => ({
  text: wordsOf(parts, 'text'),
  reasoning: wordsOf(parts, 'reasoning'),
  toolCalls: toToolCalls(parts),
  ...endOf(parts),
}))

const playStream = (pieces: readonly Uint8Array[], tools: boolean): Played => playback.stream(pieces, formatFor(tools))
const playBody = (bytes: Uint8Array, tools: boolean): Played =>
  playback.body(JSON.parse(Buffer.from(bytes).toString()), formatFor(tools))
const play = ({ stream, bytes, tools }: { stream: boolean; bytes: Buffer; tools: boolean }): Played =>
  stream ? playStream([bytes], tools) : playBody(bytes, tools)

type Fixture = FixtureRow<Played> & { tools?: boolean }
const fixtures = readFixtures<Fixture>('responses')

describe('our own recordings', () => {
  test.each(fixtures.map((fixture) => [fixture.file, fixture] as const))('%s', (_, fixture) => {
    const { tools = false, answer, failure } = fixture
    const played = play({ ...fixture, tools })
    if (answer) expect(played).toEqual(answer)
    else expect(played).toMatchObject(failure as object)
    expect(JSON.stringify(played)).not.toContain('secret words')
  })

  test.each(fixtures.filter(({ stream }) => stream).map((one) => [one.file, one] as const))(
    '%s gives the same result when split at any byte',
    (_, { bytes, tools = false }) => {
      const whole = JSON.stringify(playStream([bytes], tools))
      const step = Math.ceil(bytes.length / 200)
      const different = Array.from({ length: Math.floor(bytes.length / step) }, (_, at) => at * step).filter(
        (at) => JSON.stringify(playStream(splitAt(bytes, [at]), tools)) !== whole,
      )
      expect(different).toEqual([])
    },
  )

  test('encrypted reasoning is kept with its origin', () => {
    const body: unknown = JSON.parse(String(fixtures.find(({ file }) => file === 'reasoning.json')?.bytes))
    expect(toSignatures(formatFor(false).decodeBody(body), 'openai')).toEqual([{ data: 'gAAAAABo==' }])
  })
})

const playEvents = (events: readonly object[], tools = false) =>
  playStream([Buffer.from(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(''))], tools)

describe('the end of a stream', () => {
  const ended = (type: string, response: object = {}) => ({
    type: `response.${type}`,
    response: { id: 'r', ...response },
  })
  const delta = (text: string, more = {}) => ({
    type: 'response.output_text.delta',
    output_index: 0,
    delta: text,
    ...more,
  })
  const added = (item: object, index = 0) => ({ type: 'response.output_item.added', output_index: index, item })
  const message = (text: string, id = 'm') => ({ type: 'message', id, content: [{ type: 'output_text', text }] })
  const call = (text: string) => ({ type: 'function_call', id: 'f', call_id: 'c', name: 'look', arguments: text })
  const begun = [added(message('')), delta('Half')]

  test.each(['failed', 'cancelled'])('an answer without a status is a failure if its event is %s', (type) => {
    expect(playEvents([...begun, ended(type, { error: null })])).toMatchObject({ reason: 'server_error' })
  })

  test('an answer without a status is incomplete if its event says so', () => {
    const cut = ended('incomplete', { incomplete_details: { reason: 'max_output_tokens' } })
    expect(playEvents([...begun, cut])).toMatchObject({ text: 'Half', outcome: 'length' })
  })

  test('the whole answer adds what the events lacked', () => {
    const output = [message('Half and whole.'), call('{"at":1}')]
    const played = { text: 'Half and whole.', toolCalls: [{ arguments: '{"at":1}' }], outcome: 'complete' }
    expect(playEvents([...begun, ended('completed', { output })], true)).toMatchObject(played)
    const callBegun = [
      added(call(''), 1),
      { type: 'response.function_call_arguments.delta', output_index: 1, delta: '{' },
    ]
    expect(playEvents([...begun, ...callBegun, ended('completed', { output })], true)).toMatchObject(played)
  })

  test('the whole answer repeats nothing, even if its ids and places differ from those of the events', () => {
    const events = [
      added({ type: 'web_search_call', id: 'w' }),
      added(message(''), 1),
      delta('All', { output_index: 1 }),
    ]
    const done = { type: 'response.output_item.done', output_index: 1, item: message('All.') }
    const whole = ended('completed', { output: [message('All.', 'other')] })
    expect(playEvents([...events, whole])).toMatchObject({ text: 'All.', outcome: 'complete' })
    expect(playEvents([...events, done, whole])).toMatchObject({ text: 'All.', outcome: 'complete' })
  })

  test('a text belongs to its item if its events have only the id', () => {
    const byId = delta('All', { output_index: undefined, item_id: 'm' })
    const whole = ended('completed', { output: [message('All.')] })
    expect(playEvents([added(message('')), byId, whole])).toMatchObject({ text: 'All.', outcome: 'complete' })
  })

  test.each([
    ['text', begun],
    ['tool call', [added(call(''))]],
  ])('a completed answer with a %s that never ended is cut', (_, events) => {
    for (const output of [undefined, []]) {
      expect(playEvents([...events, ended('completed', { output })], true)).toMatchObject({ outcome: 'truncated' })
    }
  })

  test('a server that announces no items need not end them', () => {
    expect(playEvents([delta('All.'), ended('completed')])).toMatchObject({ text: 'All.', outcome: 'complete' })
  })
})

type ManifestRow = {
  id: string
  api: string
  file: string
  stream: boolean
  status: number
  expected: {
    text: string
    tool_calls: ToolCall[]
    finish: string | null
    error: unknown
    usage: { input_tokens?: number; output_tokens?: number } | null
  }
}

const UNFINISHED = new Set([null, 'in_progress', 'queued'])

/** Recordings of many real servers. They are not part of the project; without the folder only our own are played. */
const evalDir = process.env.AIGW_EVAL_DIR ?? join(import.meta.dirname, '../../../../../../../shared/eval')

function readManifest(): ManifestRow[] {
  const file = join(evalDir, 'wire/manifest.jsonl')
  if (!existsSync(file)) return []
  const lines = readFileSync(file, 'utf8').trim().split('\n')
  return lines.map((line) => JSON.parse(line) as ManifestRow).filter(({ api }) => api === 'responses')
}

const rows = readManifest()

const several = 'several answers in one stream; the stream ends with the first, the manifest has the last'
const edited = 'the pieces were edited by hand and differ from the whole, which the manifest has'
/** Recordings whose result intentionally differs from the manifest. */
const EXCEPTIONS: Record<string, string> = {
  'azure-openai-responses-sse-c2ac1c748471': several,
  'openai-responses-sse-fb7fa6877a97': several,
  'openai-responses-sse-8dc9879e9083': several,
  'openai-responses-sse-e8295026ab32': edited,
  'openai-responses-sse-84dbb456480e': edited,
}

/** What differs between our result and the manifest's. */
function complaint({ id, file, stream, expected }: ManifestRow): object | undefined {
  const bytes = readFileSync(join(evalDir, file))
  const { text, tool_calls: toolCalls, finish, error, usage } = expected
  const custom = bytes.includes('"custom_tool_call"')
  const played = play({ stream, bytes, tools: toolCalls.length > 0 || custom })
  const isFailure = error !== null || UNFINISHED.has(finish)
  if ('reason' in played) return isFailure ? undefined : { id, failed: played }
  if (isFailure) return { id, finish, answered: played }
  const ours = {
    text: played.text,
    toolCalls: custom ? [] : played.toolCalls,
    input: played.usage?.inputTokens ?? 0,
    output: played.usage?.outputTokens ?? 0,
  }
  const theirs = { text, toolCalls, input: usage?.input_tokens ?? 0, output: usage?.output_tokens ?? 0 }
  return JSON.stringify(ours) === JSON.stringify(theirs) ? undefined : { id, ours, theirs }
}

test('every recorded answer gives the text, tool calls and usage of the manifest', () => {
  const answered = rows.filter(({ id, status }) => status === 200 && !EXCEPTIONS[id])
  expect(answered.map(complaint).filter(Boolean)).toEqual([])
})

test("every recorded error body is a failure without the provider's text", () => {
  for (const { file, status } of rows.filter((row) => row.status !== 200)) {
    const error = statusError(status, {}, readFileSync(join(evalDir, file), 'utf8'), 0)
    expect(error.reason).toBe('bad_request')
    expect(error.message.length).toBeLessThan(100)
  }
})
