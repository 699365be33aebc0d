import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { fitMessages, type Message } from '../../../../src/cli/commands/chat/conversation.ts'
import { MESSAGE_CONTENT_BYTES, MESSAGES_PER_REQUEST } from '../../../../src/shared/spec-limits.ts'

const turns = (sizes: number[]): Message[] =>
  sizes.map((size, at) => ({ role: at % 2 === 0 ? 'user' : 'assistant', content: 'é'.repeat(size) }))

const bytesOf = (messages: Message[]) => messages.reduce((sum, { content }) => sum + Buffer.byteLength(content), 0)

describe('the messages of a long conversation in a request', () => {
  test('is its end, from a question on, as much as is allowed', () => {
    const sizes = fc.array(fc.integer({ min: 0, max: MESSAGE_CONTENT_BYTES / 4 }), { minLength: 1, maxLength: 140 })
    fc.assert(
      fc.property(sizes, (all) => {
        const messages = turns(all.length % 2 === 1 ? all : [...all, 1])
        const fitting = fitMessages(messages)
        expect(messages.slice(messages.length - fitting.length)).toEqual(fitting)
        expect(fitting.at(0)?.role).toBe('user')
        expect(fitting.length).toBeLessThanOrEqual(MESSAGES_PER_REQUEST)
        expect(bytesOf(fitting)).toBeLessThanOrEqual(MESSAGE_CONTENT_BYTES)
        const oneMore = messages.slice(Math.max(0, messages.length - fitting.length - 2))
        const isAll = oneMore.length === fitting.length
        expect(isAll || oneMore.length > MESSAGES_PER_REQUEST || bytesOf(oneMore) > MESSAGE_CONTENT_BYTES).toBe(true)
      }),
    )
  })

  test('leaves room for the system prompt', () => {
    const system = 'x'.repeat(MESSAGE_CONTENT_BYTES - 10)
    expect(fitMessages(turns([4, 1, 1]), system)).toEqual(turns([4, 1, 1]).slice(2))
  })

  test('is at least the question, also when that is too long by itself', () => {
    const messages = turns([1, 1, MESSAGE_CONTENT_BYTES])
    expect(fitMessages(messages)).toEqual(messages.slice(2))
  })
})
