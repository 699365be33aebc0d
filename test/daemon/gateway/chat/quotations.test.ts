import { describe, expect, test } from 'vitest'
import { MESSAGES_PATH } from '../../../../src/shared/wire/messages.ts'
import { OPENAI_CHAT_PATH } from '../../../../src/shared/wire/openai.ts'
import { describeEachEngine } from '../../../engines.ts'
import { sharedGateway } from '../../../harness.ts'
import { chatJson, chatStream, replyJson, replyRaw } from '../../../upstream.ts'
import { addGuardedTenant } from './guarded-tenant.ts'

const RULE = 'Refunds of up to 200 euros are granted without a question within 30 days of the purchase.'
const SYSTEM = `Answer politely. ${RULE}`
const ANSWER = `Good news. ${RULE} Shall I start one for you?`

const turns = (first?: object) => [...(first ? [first] : []), { role: 'user', content: 'What about refunds?' }]
const SURFACES: [string, string, object][] = [
  [
    'classic',
    '/api/external/chat/completions',
    { prompt: 'What about refunds?', system_message: SYSTEM, index: 'Zero-Knowledge' },
  ],
  ['OpenAI', OPENAI_CHAT_PATH, { messages: turns({ role: 'system', content: SYSTEM }) }],
  ['Anthropic', MESSAGES_PATH, { max_tokens: 99, system: SYSTEM, messages: turns() }],
]
const SHIELDS: [string, object][] = [
  ['strict', { sensitivity: 'strict' }],
  ['lowest thresholds', { thresholds: { log: 1, flag: 1, block: 1 } }],
  ['a category set to BLOCK', { categories: { prompt_leaking: 'BLOCK' } }],
]

describeEachEngine('an answer that quotes its system prompt', (engine) => {
  const shared = sharedGateway({ engine })

  describe.each(SURFACES)('%s', (_, path, body) => {
    test.each(SHIELDS)('arrives completely, with a flagged incident: %s', async (_, shield) => {
      // Only the answer is scanned, because this low threshold would block any question.
      const { tenant, post, incidents } = await addGuardedTenant(shared.current, {
        settings: { enablePromptShield: true, promptShieldPolicyId: 'ours' },
      })
      const policy = { scanInput: false, ...shield }
      expect((await tenant.call('POST', '/api/admin/prompt-shield-policies', { name: 'ours', policy })).status).toBe(
        201,
      )

      shared.current.upstream.script(replyJson(chatJson(ANSWER)))
      const whole = await post(path, { ...body, model: 'test/any' })
      expect(whole.status, whole.text).toBe(200)
      expect(whole.text).toContain(ANSWER)

      shared.current.upstream.script(replyRaw(chatStream(ANSWER.match(/\S+\s*/g) ?? [])))
      const streamed = await post(path, { ...body, model: 'test/any', stream: true })
      expect(saidIn(streamed.text)).toBe(ANSWER)
      expect(streamed.text).toMatch(path === MESSAGES_PATH ? /message_stop/ : /\[DONE\]/)

      const flagged = { kind: 'prompt_shield', category: 'prompt_leaking', direction: 'output', action: 'flag' }
      expect(await incidents()).toMatchObject([flagged, flagged])
    })
  })
})

/** The text of a stream of any surface. */
const saidIn = (stream: string): string =>
  stream
    .split('\n')
    .filter((line) => line.startsWith('data: {'))
    .map((line) => JSON.parse(line.slice('data: '.length)))
    .map((frame) => (frame.data ?? frame).choices?.[0]?.delta.content ?? frame.delta?.text ?? '')
    .join('')
