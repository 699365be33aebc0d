import fc from 'fast-check'
import { expect, test } from 'vitest'
import { wholeAnswer } from '../../../../src/daemon/gateway/chat/answer-rendering.ts'
import { BILLING_MODES } from '../../../../src/shared/wire/billing.ts'
import { ChatMetadata } from '../../../../src/shared/wire/chat.ts'

const text = fc.string({ unit: 'binary' })
/** What the gateway makes itself. */
const word = fc.stringMatching(/^[0-9a-z_-]{1,64}$/)
const count = fc.nat()
const mode = fc.constantFrom(...BILLING_MODES)
const attempt = fc.record(
  { model: text, status: fc.constantFrom('failed' as const, 'served' as const), reason: text, latency_ms: count },
  { requiredKeys: ['model', 'status', 'latency_ms'] },
)
const members = {
  conversation_id: text,
  index_used: text,
  smltp_policy_used: text,
  smltp_policy_source: word,
  smltp_policy_hash: fc.option(word),
  prompt_shield_policy: fc.option(fc.record({ id: text, name: text, mode: text, sensitivity: text })),
  withheld: fc.record({ tool_results: count, passages: count }),
  served_model: text,
  requested_model: text,
  failover: fc.record({ occurred: fc.boolean(), attempts: fc.array(attempt) }),
  billing_fallback: fc.record({
    original_mode: mode,
    fallback_mode: mode,
    reason: fc.constant('quota_exhausted' as const),
  }),
  smltp: fc.record({ bundle_id: word, receipt_url: text }, { requiredKeys: ['bundle_id'] }),
  rag_enabled: fc.boolean(),
  documents_retrieved: count,
  sources: fc.array(fc.record({ source: text, score: fc.integer({ min: 0, max: 100 }).map((it) => it / 100) }), {
    maxLength: 3,
  }),
}
const optional = new Set(['failover', 'billing_fallback', 'withheld'])
const names = Object.keys(members) as (keyof typeof members)[]
const metadata = fc.record(members, { requiredKeys: names.filter((name) => !optional.has(name)) })

test('an answer says all of its metadata, whatever it holds', () => {
  expect(names.sort()).toEqual(Object.keys(ChatMetadata.shape).sort())
  fc.assert(
    fc.property(metadata, text, text, (said, id, content) => {
      const answer = wholeAnswer({
        id,
        created: 1,
        model: said.served_model,
        metadata: said as ChatMetadata,
        changed: [],
      })
      answer.add([{ type: 'text', text: content }])
      const counts = { inputTokens: 2, outputTokens: 3, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 }
      const { body } = answer.close('stop', { ...counts, estimated: false })
      const whole = {
        success: true,
        id,
        object: 'chat.completion',
        created: 1,
        model: said.served_model,
        choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
        usage: { prompt_tokens: 2, completion_tokens: 3, total_tokens: 5, input_tokens: 2, output_tokens: 3 },
        metadata: said,
      }
      // Objects that fast-check makes have no prototype.
      expect(JSON.parse(body)).toEqual(JSON.parse(JSON.stringify(whole)))
    }),
  )
})
