// Azure's undated interface behind the gateway, with and without a version.
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { EndpointConfig } from '../../../../src/daemon/models/config.ts'
import { sharedGateway } from '../../../harness.ts'
import { chatJson, replyJson, startUpstream, type Upstream } from '../../../upstream.ts'

let upstream: Upstream
beforeAll(async () => {
  upstream = await startUpstream()
})
afterAll(() => upstream.close())

const resource = (name: string, more: Partial<EndpointConfig> = {}): EndpointConfig => ({
  name,
  kind: 'azure',
  baseUrl: new URL(upstream.url).origin,
  apiKey: 'azure-upstream-secret',
  headers: {},
  models: undefined,
  ...more,
})

const shared = sharedGateway(() => ({
  providers: [
    resource('azure'),
    resource('preview', { apiVersion: 'preview' }),
    resource('suffixed', { baseUrl: `${new URL(upstream.url).origin}/openai/v1` }),
    resource('newer', { api: 'responses' }),
    resource('newest', { api: 'responses', apiVersion: 'preview' }),
  ],
}))

const RESPONSE = {
  ...{ id: 'resp_1', object: 'response', status: 'completed', model: 'gpt-5' },
  output: [
    {
      type: 'message',
      id: 'm',
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text: 'Hi.' }],
    },
  ],
  usage: { input_tokens: 3, output_tokens: 2, total_tokens: 5 },
}

test.each([
  ['azure', '/openai/v1/chat/completions', chatJson('Hi.')],
  ['preview', '/openai/v1/chat/completions?api-version=preview', chatJson('Hi.')],
  ['suffixed', '/openai/v1/chat/completions', chatJson('Hi.')],
  ['newer', '/openai/v1/responses', RESPONSE],
  ['newest', '/openai/v1/responses?api-version=preview', RESPONSE],
])('the provider %s is called at %s', async (name, path, answer) => {
  upstream.script(replyJson(answer))
  const messages = [{ role: 'user', content: 'Good morning' }]
  const { status, body } = await shared.current.call('POST', '/v1/chat/completions', {
    model: `${name}/gpt-5`,
    messages,
  })
  expect([status, body.choices?.[0].message.content]).toEqual([200, 'Hi.'])
  expect(upstream.requests.at(-1)).toMatchObject({
    path,
    headers: { 'api-key': 'azure-upstream-secret' },
    body: { model: 'gpt-5' },
  })
})

test('a request of the Responses API is passed on natively', async () => {
  upstream.script(replyJson(RESPONSE))
  const { body } = await shared.current.call('POST', '/v1/responses', { model: 'newer/gpt-5', input: 'Good morning' })
  expect(body).toMatchObject({ status: 'completed', output: [{ content: [{ text: 'Hi.' }] }] })
  expect(upstream.requests.at(-1)?.path).toBe('/openai/v1/responses')
})

test.each([
  [401, { error: { code: '401', message: 'Access denied due to invalid subscription key.' } }, 'auth_failed', 502],
  [429, { error: { code: '429', message: 'Requests have exceeded the token rate limit.' } }, 'rate_limit', 429],
])('%d is %s', async (status, error, reason, answered) => {
  upstream.script(replyJson(error, { status }))
  const messages = [{ role: 'user', content: 'Good morning' }]
  const answer = await shared.current.call('POST', '/v1/chat/completions', { model: 'azure/gpt-5', messages })
  expect([answer.status, answer.body.attempts[0].reason]).toEqual([answered, reason])
})
