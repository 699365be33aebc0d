import { expect, test } from 'vitest'
import type { Message } from '../../../../../src/daemon/models/conversation.ts'
import { toAnthropicMessages } from '../../../../../src/daemon/models/providers/anthropic/messages.ts'
import { toBedrockMessages } from '../../../../../src/daemon/models/providers/bedrock/messages.ts'
import { toContents } from '../../../../../src/daemon/models/providers/google/messages.ts'
import { mapAdjacentTexts } from '../../../../../src/daemon/safety/guards/request/text-slots.ts'

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
