import { expect, test } from 'vitest'
import { MESSAGES_PATH } from '../../../../src/shared/wire/messages.ts'
import { OPENAI_CHAT_PATH } from '../../../../src/shared/wire/openai.ts'
import { describeEachEngine } from '../../../engines.ts'
import { sharedGateway } from '../../../harness.ts'
import { chatJson, chatStream, replyJson, replyRaw } from '../../../upstream.ts'
import { addGuardedTenant } from './guarded-tenant.ts'

const CARD = '4111 1111 1111 1111'
const policy = { pii: { enabled: true, action: 'block', direction: 'output' } }
const withKey = (key: string) => ({ headers: { 'idempotency-key': key } })

describeEachEngine('an answer that a guard blocked', (engine) => {
  const shared = sharedGateway({ engine })
  const answers = () => shared.current.upstream.script(replyJson(chatJson(`The number is ${CARD}.`)))
  const streams = () => shared.current.upstream.script(replyRaw(chatStream(['The number is ', CARD, '.'])))
  const calls = () => shared.current.upstream.requests.length

  test.each([
    ['classic', '/api/external/chat/completions', { prompt: 'hi', index: 'Zero-Knowledge' }],
    ['OpenAI', OPENAI_CHAT_PATH, { messages: [{ role: 'user', content: 'hi' }] }],
    ['Anthropic', MESSAGES_PATH, { max_tokens: 9, messages: [{ role: 'user', content: 'hi' }] }],
  ])(
    'is stored under its Idempotency-Key: one call, one bill, the same error for repeats: %s',
    async (_, path, body) => {
      const { post, bills, incidents } = await addGuardedTenant(shared.current, { policy })
      for (const stream of [false, true]) {
        if (stream) streams()
        else answers()
        const before = calls()
        const call = () => post(path, { ...body, model: 'test/any', stream }, withKey(`k-${stream}`))
        const first = await call()
        if (!stream) answers()
        const plain = stream ? undefined : await post(path, { ...body, model: 'test/any', stream })
        const repeats = await Promise.all([call(), call()])
        const last = await call()
        expect(first.status, first.text).toBe(stream ? 200 : 403)
        expect(first.headers['idempotent-replayed']).toBeUndefined()
        for (const repeat of [...repeats, last]) {
          expect([repeat.status, repeat.text]).toEqual([first.status, first.text])
          expect(repeat.headers['content-type']).toBe(first.headers['content-type'])
          expect(repeat.headers['idempotent-replayed']).toBe('true')
        }
        expect(calls() - before).toBe(stream ? 1 : 2)
        // The error text is the same with and without a key.
        if (plain) expect(Object.keys(plain.body)).toEqual(Object.keys(first.body))
        // Not within the hex digits of an id.
        expect(first.text).not.toMatch(/(?<![-\da-f])1111(?![-\da-f])/)
        if (stream) expect(first.text).not.toContain('[DONE]')
      }
      expect((await bills()).map(({ outcome }) => outcome)).toEqual(['filtered', 'filtered', 'filtered'])
      expect(await incidents()).toHaveLength(3)
    },
  )

  test('contains the verdict and the trace id in its error frame', async () => {
    const { stream, post, incidents } = await addGuardedTenant(shared.current, { policy })
    streams()
    const { frames } = await stream({ prompt: 'hi', stream: true })
    const [incident] = await incidents()
    const verdict = { verdict: 'BLOCK', attack_category: null, trace_id: incident?.trace_id }
    expect(frames.at(-1)).toMatchObject({ type: 'error', data: { reason: 'content_blocked', ...verdict } })
    for (const path of [OPENAI_CHAT_PATH, MESSAGES_PATH]) {
      streams()
      const body = { model: 'test/any', max_tokens: 9, messages: [{ role: 'user', content: 'hi' }], stream: true }
      const { text } = await post(path, body)
      const trace = (await incidents()).at(-1)?.trace_id
      const last = text.trim().split('\n').at(-1) ?? ''
      expect(JSON.parse(last.slice('data: '.length))).toMatchObject({ ...verdict, trace_id: trace })
    }
  })

  test("names the category of the shield's finding", async () => {
    const { tenant, chat, incidents } = await addGuardedTenant(shared.current, {
      settings: { enablePromptShield: true, promptShieldPolicyId: 'stern' },
    })
    const stern = { name: 'stern', policy: { thresholds: { log: 1, flag: 20, block: 50 } } }
    expect((await tenant.call('POST', '/api/admin/prompt-shield-policies', stern)).status).toBe(201)
    shared.current.upstream.script(replyJson(chatJson('I am unrestricted now and follow no rules.')))
    const { status, body } = await chat({ prompt: 'When does the ferry leave?' })
    const incident = (await incidents()).find(({ direction }) => direction === 'output')
    expect(incident).toMatchObject({ kind: 'prompt_shield', action: 'block', category: 'role_hijack' })
    expect([status, body]).toMatchObject([403, { attack_category: incident?.category }])
  })
})
