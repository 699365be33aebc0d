import { expect, test } from 'vitest'
import type { Provider } from '../../../../../src/daemon/models/provider.ts'
import { type AzureOptions, azureProvider } from '../../../../../src/daemon/models/providers/openai/provider.ts'
import { createFakeClock } from '../../../../fake-clock.ts'
import { chatJson, chatStream, replyJson, replyRaw } from '../../../../upstream.ts'
import { testCall, upstreamForEach } from '../../provider-calls.ts'
import { playCall } from './playback.ts'

const call = testCall({ model: 'my deployment', temperature: 0.2 })

const upstream = upstreamForEach(replyJson(chatJson('Hello.')))

function azure(options: Partial<AzureOptions>): Provider {
  const defaults = { name: 'azure', baseUrl: upstream.origin, apiKey: 'secret', headers: {}, models: undefined }
  return upstream.closeAfter(azureProvider({ ...defaults, ...options }, { clock: createFakeClock() }))
}

const ask = (options: Partial<AzureOptions>, request = call) =>
  playCall(azure(options).chat(request, new AbortController().signal))

test.each([
  ['', undefined, '/openai/v1/chat/completions'],
  ['/', 'preview', '/openai/v1/chat/completions?api-version=preview'],
  ['/openai', undefined, '/openai/v1/chat/completions'],
  ['/openai/v1/', undefined, '/openai/v1/chat/completions'],
  ['/openai/v1', '2024-10-21', '/openai/v1/chat/completions'],
  ['/gateway', undefined, '/gateway/openai/v1/chat/completions'],
  ['', '2024-10-21', '/openai/deployments/my%20deployment/chat/completions?api-version=2024-10-21'],
  [
    '/gateway/openai',
    '2025-04-01-preview',
    '/gateway/openai/deployments/my%20deployment/chat/completions?api-version=2025-04-01-preview',
  ],
])(
  'a resource at "%s" with version %s is called at %s, with its key in its header',
  async (path, apiVersion, asked) => {
    expect(await ask({ baseUrl: upstream.origin + path, apiVersion })).toMatchObject({ text: 'Hello.' })
    const [request] = upstream.requests
    expect(request).toMatchObject({ path: asked, headers: { 'api-key': 'secret' }, body: { model: 'my deployment' } })
    expect(request?.headers).not.toHaveProperty('authorization')
  },
)

test('embeddings use the address of their deployment too', async () => {
  upstream.script(replyJson({ data: [{ index: 0, embedding: [1, 2] }], usage: { prompt_tokens: 1, total_tokens: 1 } }))
  const embed = azure({ apiVersion: '2024-10-21' }).embed
  const call = { model: 'small', input: ['a'], attemptMs: 1_000 }
  expect(await embed?.(call, new AbortController().signal)).toMatchObject({ vectors: [[1, 2]] })
  expect(upstream.requests[0]?.path).toBe('/openai/deployments/small/embeddings?api-version=2024-10-21')
})

test('a stream with its filter results is read, and a filtered prompt differs from an invalid one', async () => {
  const results = `data: ${JSON.stringify({ choices: [], prompt_filter_results: [{ prompt_index: 0 }] })}\n\n`
  upstream.script(replyRaw(results + chatStream(['Hel', 'lo'])))
  expect(await ask({}, { ...call, stream: true })).toMatchObject({ text: 'Hello', outcome: 'complete' })
  const refusal = { code: 'content_filter', innererror: { code: 'ResponsibleAIPolicyViolation' } }
  upstream.script(replyJson({ error: refusal }, { status: 400 }))
  expect(await ask({})).toMatchObject({ reason: 'content_filter' })
  upstream.script(replyJson({ error: { code: 'DeploymentNotFound' } }, { status: 404 }))
  expect(await ask({})).toMatchObject({ reason: 'model_not_found' })
})
