import fc from 'fast-check'
import { expect, test, vi } from 'vitest'
import { createUsualChunks } from '../../../../../src/daemon/models/providers/openai/usual-chunk.ts'
import type { AnswerDraft } from '../../../../../src/daemon/models/providers/stream/answer-format.ts'
import { chatStream } from '../../../../upstream.ts'
import { formatFor, playStream } from './playback.ts'

const text = fc.oneof(
  fc.constantFrom('Hello', ' world', '', '"', '\\n', '"content":"', 'content', 'é😀', '}]}', '\u0007', '\ud83d'),
  fc.string({ unit: 'binary', maxLength: 5 }),
)

/**
 * Additional members of a delta, a choice and a chunk: those that every chunk has, and those that change its meaning.
 */
const inDelta = fc.constantFrom(
  {},
  { role: 'assistant' },
  { refusal: null },
  { refusal: 'No.' },
  { reasoning_content: 'Hm.' },
  { tool_calls: [{ index: 0, function: { name: 'f', arguments: '{}' } }] },
)
const inChoice = fc.constantFrom<object>(
  {},
  { finish_reason: null },
  { finish_reason: 'stop' },
  { index: 1 },
  { logprobs: { content: [] } },
  { text: 'Hello' },
  { message: { content: 'Hello' } },
  { usage: { prompt_tokens: 1, completion_tokens: 1 } },
)
const inChunk = fc.constantFrom<object>(
  {},
  { usage: null },
  { usage: { prompt_tokens: 1, completion_tokens: 2 } },
  { obfuscation: 'x7' },
  { extra: { content: 'Hello' } },
  { note: '"content":"Hello"' },
  { error: { message: 'down' } },
)

const chunk = fc
  .record({ text, delta: inDelta, choice: inChoice, chunk: inChunk, before: fc.boolean(), spaced: fc.boolean() })
  .map(({ text: content, delta, choice, chunk: rest, before, spaced }) => {
    const choices = [{ index: 0, delta: { ...delta, content }, ...choice }]
    return JSON.stringify(before ? { ...rest, choices } : { choices, ...rest }, null, spaced ? 1 : 0)
  })

/** The complete result of a decoder for these chunks. Chunks of a named event are never usual ones. */
function decodeAll(chunks: readonly string[], name: string | undefined, logprobs: boolean): unknown[] {
  const decode = formatFor({ logprobs }).createEventDecoder()
  const draft: AnswerDraft = { parts: [], ending: undefined, usage: undefined, done: false }
  return chunks.map((data) => {
    draft.parts = []
    try {
      decode({ name, data, cut: false }, draft)
      return structuredClone(draft)
    } catch (error) {
      return { ...structuredClone(draft), failure: String(error) }
    }
  })
}

test('any stream gives the same result as with every chunk parsed', () => {
  // Few shapes and many texts, so that most chunks resemble an earlier one.
  const stream = fc
    .tuple(fc.array(chunk, { minLength: 1, maxLength: 3 }), fc.array(fc.tuple(fc.nat(2), text), { maxLength: 12 }))
    .map(([shapes, texts]) =>
      texts.map(([at, word]) => {
        const shape = shapes[at % shapes.length] as string
        return shape.replace(/("content":\s*")(?:[^"\\]|\\.)*"/, (_, start: string) => {
          return start + JSON.stringify(word).slice(1)
        })
      }),
    )
  fc.assert(
    fc.property(stream, fc.boolean(), (chunks, logprobs) => {
      expect(decodeAll(chunks, undefined, logprobs)).toEqual(decodeAll(chunks, 'message', logprobs))
    }),
    { numRuns: 3000 },
  )
})

test('the chunks of a stream are parsed once, and then only their texts', () => {
  const words = ['One', ' two', ' three\n', ' "four"', ' 😀']
  const body = Buffer.from(chatStream(words))
  const parse = vi.spyOn(JSON, 'parse')
  try {
    expect(playStream([body])).toMatchObject({ text: words.join(''), outcome: 'complete' })
    const ofWords = parse.mock.calls.filter(([json]) => words.some((word) => json.includes(JSON.stringify(word))))
    expect(ofWords.map(([json]) => json).slice(1)).toEqual(words.slice(1).map((word) => JSON.stringify(word)))
  } finally {
    parse.mockRestore()
  }
})

const usual = (content: string) => `{"id":"a","choices":[{"index":0,"delta":{"content":"${content}"}}]}`

test('only a chunk that differs in nothing but its text is recognised', () => {
  const chunks = createUsualChunks()
  expect(chunks.textOf(usual('Hello'))).toBeUndefined()
  chunks.learn(usual('Hello'), 'Hello')
  expect(chunks.textOf(usual(' world'))).toBe(' world')
  expect(chunks.textOf(usual('\\u0041\\n😀'))).toBe('A\n😀')
  for (const other of ['', 'a","b":"c', '\n', '\\', '\\x', '"', '","content":"'])
    expect(chunks.textOf(usual(other))).toBeUndefined()
  for (const other of ['1', 'null', '["a"]', '{"a":"b"}', '"a" "b"', ''])
    expect(chunks.textOf(usual('Hello').replace('"Hello"', other))).toBeUndefined()
  for (const other of ['', '{', usual('Hello').slice(0, -1), usual('Hello').slice(1), usual('Hello').replace('0', '1')])
    expect(chunks.textOf(other)).toBeUndefined()
})

test.each([
  ['the name is there twice', '{"content":"Hi","choices":[{"delta":{"content":"Hi"}}]}'],
  ['the name may be spelled in two ways', '{"z":{"content":"Hi"},"choices":[{"delta":{"c\\u006fntent":"Hi"}}]}'],
  ['the text is another member', '{"choices":[{"delta":{"content":null,"refusal":"Hi"}}]}'],
  ['the text is in a list', '{"choices":[{"delta":{"content":["Hi"]}}]}'],
])('nothing is learned if %s', (_, chunk) => {
  const chunks = createUsualChunks()
  chunks.learn(chunk, 'Hi')
  expect(chunks.textOf(chunk)).toBeUndefined()
})

test('learning stops for a server whose chunks always differ, and restarts for one that changes once', () => {
  const chunks = createUsualChunks()
  const of = (id: number, content: string) => usual(content).replace('"a"', `"${id}"`)
  chunks.learn(of(1, 'Hi'), 'Hi')
  chunks.learn(of(2, 'Hi'), 'Hi')
  expect([chunks.textOf(of(1, 'you')), chunks.textOf(of(2, 'you'))]).toEqual([undefined, 'you'])
  for (let id = 3; id < 20; id++) chunks.learn(of(id, 'Hi'), 'Hi')
  expect(chunks.textOf(of(19, 'you'))).toBeUndefined()
})
