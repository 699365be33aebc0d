import { expect, test } from 'vitest'
import { readAhead } from '../../../../src/daemon/gateway/chat/read-ahead.ts'
import { type ChatPart, ProviderError } from '../../../../src/daemon/models/provider.ts'

const KIB = 'x'.repeat(1024)

/** The number of further parts of this kind that are read before 10 KiB are buffered. */
async function readsOf(part: ChatPart): Promise<number> {
  async function* endless() {
    for (;;) yield [part]
  }
  const held: ChatPart[] = [part]
  await readAhead(held, endless(), 10 * 1024)
  return held.length
}

test.each<[string, ChatPart]>([
  ['text', { type: 'text', text: KIB }],
  ['log probabilities', { type: 'text', text: '', logprobs: [{ token: KIB }] }],
  ['reasoning', { type: 'reasoning', text: KIB }],
  ['the signature of reasoning', { type: 'reasoning', text: '', signature: KIB }],
  ['encrypted reasoning', { type: 'reasoning', text: '', data: KIB }],
  ['tool calls', { type: 'tool_call', index: 0, arguments: KIB }],
])('the hold-back buffer is bounded for any content: %s', async (_, part) => {
  expect(await readsOf(part)).toBeOneOf([9, 10])
})

test('an answer that breaks before its end keeps its output', async () => {
  const held: ChatPart[] = []
  async function* breaking(): AsyncGenerator<ChatPart[]> {
    yield [{ type: 'text', text: 'half' }]
  }
  await expect(readAhead(held, breaking(), 1024)).rejects.toBeInstanceOf(ProviderError)
  expect(held).toEqual([{ type: 'text', text: 'half' }])
})
