import { describe, expect, test } from 'vitest'
import { toMessages } from '../../../../../src/daemon/gateway/surfaces/gemini/contents.ts'
import { createMarks } from '../../../../../src/daemon/gateway/surfaces/gemini/native.ts'
import { toReasoning, toThoughtSignature } from '../../../../../src/daemon/gateway/surfaces/gemini/reasoning.ts'
import { GeminiContent } from '../../../../../src/shared/wire/gemini-content.ts'

const read = (...contents: object[]) =>
  toMessages(
    contents.map((content) => GeminiContent.parse(content)),
    createMarks(),
  )
const called = { role: 'model', parts: [{ functionCall: { name: 'look' } }] }
const inlineData = { mimeType: 'image/png', data: 'aGk=' }
const fileData = { mimeType: 'image/png', fileUri: 'https://example.com/a.png' }

// With a search for each response, this would take very long, and V8 throws a RangeError for so many arguments.
test('200,000 responses in another order than their calls are matched by id and by name', () => {
  const ids = Array.from({ length: 200_000 }, (_, at) => `c${at}`)
  const calls = { role: 'model', parts: ids.map((id) => ({ functionCall: { name: 'look', id } })) }
  for (const byId of [true, false]) {
    const given = byId ? ids.toReversed() : ids
    const parts = given.map((id) => ({ functionResponse: { name: 'look', ...(byId && { id }) } }))
    const matched = read(calls, { role: 'user', parts }).flatMap((message) =>
      message.role === 'tool' ? [message.toolCallId] : [],
    )
    expect(matched.join()).toBe(given.join())
  }
})

test('a signature with too much reasoning in it is not decoded', () => {
  const step = { origin: 'anthropic', text: '' }
  expect(toReasoning(toThoughtSignature([step, step]))).toEqual([step, step])
  expect(toReasoning(toThoughtSignature(Array(10_001).fill(step)))).toBeUndefined()
  expect(toReasoning(toThoughtSignature([{ ...step, text: 'x'.repeat(8_000_000) }]))).toBeUndefined()
})

describe('a part whose content would be lost is rejected with its place', () => {
  test.each([
    [[{ parts: [{ text: 'Hi' }, { text: 'Hi', inlineData }] }], 'contents[0].parts[1] has text and inlineData'],
    [[{ parts: [{ inlineData, fileData }] }], 'contents[0].parts[0] has inlineData and fileData'],
    [[{ parts: [{ text: 'Hi' }] }, { ...called, role: 'user' }], 'contents[1].parts[0] has a functionCall'],
    [
      [called, { role: 'model', parts: [{ functionResponse: { name: 'look' } }] }],
      'contents[1].parts[0] has a functionR',
    ],
    [
      [
        called,
        { parts: [{ functionResponse: { name: 'look', parts: [{ inlineData }, { inlineData, text: 'Hi' }] } }] },
      ],
      'contents[1].parts[0].functionResponse.parts[1] has text',
    ],
  ])('%j', (contents, message) => {
    expect(() => read(...contents)).toThrow(message)
  })

  test('but an empty text beside another kind is no content', () => {
    expect(read({ parts: [{ text: '', inlineData }] })).toMatchObject([{ content: [{ type: 'image' }] }])
  })
})
