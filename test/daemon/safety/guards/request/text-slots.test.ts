import { expect, test } from 'vitest'
import type { Message } from '../../../../../src/daemon/models/conversation.ts'
import { toAnthropicMessages } from '../../../../../src/daemon/models/providers/anthropic/messages.ts'
import { toBedrockMessages } from '../../../../../src/daemon/models/providers/bedrock/messages.ts'
import { toContents } from '../../../../../src/daemon/models/providers/google/messages.ts'
import { mapAdjacentTexts, slotsOf } from '../../../../../src/daemon/safety/guards/request/text-slots.ts'

// V8 throws a RangeError if so many items are passed as arguments of one call.
const COUNT = 200_000
const parts = Array.from({ length: COUNT }, (_, at) => ({ type: 'text' as const, text: `part ${at}` }))
const messages: Message[] = [
  { role: 'user', content: 'first' },
  { role: 'user', content: parts },
]

test('adjacent texts of a message with 200,000 parts are rewritten', () => {
  const request = { system: '', messages, tools: [], options: {} }
  const same = mapAdjacentTexts(request, (texts) => texts)
  expect(same).toBe(request)
  const upper = mapAdjacentTexts(request, (texts) => texts.map((text) => text.toUpperCase()))
  const content = upper.messages[1]?.content
  expect(content).toHaveLength(COUNT)
  expect(content?.at(-1)).toEqual({ type: 'text', text: `PART ${COUNT - 1}` })
})

test('a message with 200,000 parts is merged with the message before it, for each kind of provider', () => {
  const turns = toAnthropicMessages(messages)
  expect(turns).toHaveLength(1)
  expect(turns[0]?.content).toHaveLength(COUNT + 1)
  expect(toBedrockMessages(messages, false)[0]?.content).toHaveLength(COUNT + 1)
  expect(toContents(messages, { signedCalls: false })[0]?.parts).toHaveLength(COUNT + 1)
})

const slotsIn = (message: Message) => slotsOf({ system: '', messages: [message], options: undefined })

test('the JSON of a tool result is visited as JSON, with and without files', () => {
  const json = '{"to":"Zo\\u00eb"}'
  const result = { role: 'tool', toolCallId: 'c', isObject: true } as const
  const image = { type: 'image', mediaType: 'image/png', data: 'aGk=' } as const
  const slot = { from: 'tool', format: 'json', text: json }
  expect(slotsIn({ ...result, content: json })).toEqual([slot])
  expect(slotsIn({ ...result, content: [{ type: 'text', text: json }, image] })).toEqual([slot])
})

test("a part of Gemini's API is visited as free JSON, except for its data and its signature", () => {
  const slots = (block: { type: string } & Record<string, unknown>) =>
    slotsIn({ role: 'user', content: [{ type: 'native', origin: 'google', block }] }).map(({ text }) => text)
  const response = {
    id: 'toolu_1',
    type: 'secret',
    name: 'word',
    signature: 'c2ln',
    data: { type: 'base64', data: 'b' },
  }
  const thoughtSignature = 'c2ln'
  const found = slots({ type: 'response', response, thoughtSignature })
  expect(found).toEqual([JSON.stringify({ response })])
  const source = { type: 'base64', media_type: 'application/pdf', data: 'aGk=' }
  expect(slots({ type: 'inline_data', source, thoughtSignature })).toEqual(['base64'])
  expect(slots({ type: 'inline_data', source, more: { signature: 'word' } })).toEqual([
    'base64',
    '{"more":{"signature":"word"}}',
  ])
  expect(slots({ type: 'response', thoughtSignature: 'no signature' })).toEqual(['no signature'])
})
