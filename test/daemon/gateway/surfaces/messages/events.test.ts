import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Envelope } from '../../../../../src/daemon/gateway/chat/answer-contract.ts'
import { messagesWording } from '../../../../../src/daemon/gateway/surfaces/messages/events.ts'
import type { ChatPart } from '../../../../../src/daemon/models/provider.ts'
import type { ChatMetadata } from '../../../../../src/shared/wire/chat.ts'

const metadata: ChatMetadata = {
  conversation_id: 'c',
  index_used: 'Zero-Knowledge',
  smltp_policy_used: 'internal',
  smltp_policy_source: 'request',
  smltp_policy_hash: null,
  prompt_shield_policy: null,
  served_model: 'p/m',
  smltp: { bundle_id: 'jti-1', receipt_url: '/api/external/receipts/jti-1' },
  requested_model: 'p/m',
  rag_enabled: false,
  documents_retrieved: 0,
  sources: [],
}
const envelope: Envelope = { id: 'req-1', created: 0, model: 'p/m', metadata, changed: [], dropped: [] }
const usage = {
  ...{ inputTokens: 1, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 },
  estimated: false,
}

/** JSON text of an object, split anywhere; a piece may be empty. */
const inPieces = fc
  .tuple(
    fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 1 }), { maxKeys: 2 }),
    fc.array(fc.nat(), { maxLength: 3 }),
  )
  .map(([value, cuts]) => {
    const text = JSON.stringify(value)
    const at = [0, ...cuts.map((cut) => cut % (text.length + 1)).sort((a, b) => a - b), text.length]
    return at.slice(1).map((end, piece) => text.slice(at[piece], end))
  })

/** The pieces of several calls: each call in order, the calls interleaved. */
const pieces = fc.array(inPieces, { minLength: 1, maxLength: 4 }).chain((calls) => {
  const turns = calls.flatMap((texts, call) => texts.map(() => call))
  return fc.shuffledSubarray(turns, { minLength: turns.length }).map((order) => {
    const left = calls.map((texts) => [...texts])
    const begun = new Set<number>()
    return order.map((call): ChatPart => {
      const first = !begun.has(call)
      begun.add(call)
      const text = left[call]?.shift() ?? ''
      return { type: 'tool_call', index: call, arguments: text, ...(first && { id: `c${call}`, name: 'f' }) }
    })
  })
})

test('interleaved calls give one block each with all pieces, and no two blocks are open at once', () => {
  fc.assert(
    fc.property(pieces, (parts) => {
      const wording = messagesWording(envelope)
      const frames = wording.say(parts) + wording.end('stop', usage)
      const said = new Map<string, string>()
      let open: string | undefined
      for (const frame of frames.split('\n\n').filter((text) => text !== '')) {
        const event = JSON.parse(frame.slice(frame.indexOf('data: ') + 6))
        if (event.type === 'content_block_start') {
          expect([open, said.has(event.content_block.id)]).toEqual([undefined, false])
          open = event.content_block.id as string
          said.set(open, '')
        } else if (event.type === 'content_block_delta') {
          said.set(open as string, said.get(open as string) + event.delta.partial_json)
        } else if (event.type === 'content_block_stop') open = undefined
      }
      const sent = new Map<string, string>()
      for (const part of parts) {
        if (part.type !== 'tool_call') continue
        const id = `c${part.index}`
        sent.set(id, (sent.get(id) ?? '') + part.arguments)
      }
      expect([open, said]).toEqual([undefined, sent])
    }),
  )
})
