import { afterEach, expect, test } from 'vitest'
import type { BedrockConfig, EndpointConfig, ProviderConfig } from '../../../src/daemon/models/config.ts'
import type { ChatPart, Provider } from '../../../src/daemon/models/provider.ts'
import { createProviderRegistry, type ProviderRegistry } from '../../../src/daemon/models/registry.ts'
import { createFakeClock } from '../../fake-clock.ts'
import { chatJson, replyJson, startUpstream } from '../../upstream.ts'
import { testCall } from './provider-calls.ts'

const ANTHROPIC_ANSWER = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  content: [{ type: 'text', text: 'Hello.' }],
  stop_reason: 'end_turn',
  usage: { input_tokens: 3, output_tokens: 2 },
}
const GOOGLE_ANSWER = {
  candidates: [{ content: { role: 'model', parts: [{ text: 'Hello.' }] }, finishReason: 'STOP' }],
  usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 2, totalTokenCount: 5 },
}

const BEDROCK_ANSWER = {
  output: { message: { role: 'assistant', content: [{ text: 'Hello.' }] } },
  stopReason: 'end_turn',
  usage: { inputTokens: 3, outputTokens: 2, totalTokens: 5 },
}

const COHERE_ANSWER = {
  message: { role: 'assistant', content: [{ type: 'text', text: 'Hello.' }] },
  finish_reason: 'COMPLETE',
}

const config = (name: string, models?: readonly string[], kind: EndpointConfig['kind'] = 'openai'): EndpointConfig => ({
  name,
  kind,
  baseUrl: 'http://127.0.0.1:9/v1',
  apiKey: undefined,
  headers: {},
  models,
})

const bedrock: BedrockConfig = {
  name: 'up',
  kind: 'bedrock',
  region: 'eu-central-1',
  baseUrl: undefined,
  apiKey: undefined,
  credentials: undefined,
  headers: {},
  models: undefined,
}

function builtIn() {
  const state = { closed: false }
  const provider: Provider = {
    name: 'local',
    models: ['extract'],
    async *chat() {},
    async close() {
      state.closed = true
    },
  }
  return { state, provider }
}

const HELLO = [
  { type: 'text', text: 'Hello.' },
  { type: 'end', outcome: 'complete' },
]

async function ask(provider: Provider | undefined): Promise<ChatPart[]> {
  const call = testCall({ model: 'm', temperature: 0.5, maxTokens: 9 })
  const parts: ChatPart[] = []
  for await (const batch of provider?.chat(call, new AbortController().signal) ?? []) parts.push(...batch)
  return parts
}

const opened: ProviderRegistry[] = []
function registry(configs: readonly ProviderConfig[], local = builtIn().provider) {
  const created = createProviderRegistry(configs, { clock: createFakeClock(), builtIn: [local] })
  opened.push(created)
  return created
}
afterEach(() => Promise.all(opened.splice(0).map((created) => created.close())))

test('a model id is split at its first slash, so model names may contain slashes', () => {
  const found = registry([config('router')]).find('router/vendor/model:free')
  expect(found).toMatchObject({ provider: { name: 'router' }, model: 'vendor/model:free' })
})

test('unknown models are not found', () => {
  const { find } = registry([config('up', ['a']), config('any')])
  expect(find('up/a')?.model).toBe('a')
  expect(find('local/extract')?.provider.name).toBe('local')
  for (const id of ['up/b', 'local/other', 'nobody/a', 'any/', '/a', 'up', '', 'a/up/a', '__proto__/a']) {
    expect(find(id)).toBeUndefined()
  }
})

test('lists the configured providers, by model if models are named', () => {
  const { describe } = registry([config('up', ['a', 'b/c']), config('any')])
  expect(describe()).toEqual(['local/extract', 'up/a', 'up/b/c', 'any/*'])
})

test('lists for a key the configured models that it may use', () => {
  const { describe } = registry([config('up', ['a', 'b']), config('any')])
  expect(describe(['up/b', 'any/x', 'any/x', 'any/y/z', 'gone/x'])).toEqual(['up/b', 'any/x', 'any/y/z'])
  expect(describe(['up/*', 'any/*', 'any/x'])).toEqual(['up/a', 'up/b', 'any/*'])
  expect(describe(['u/*', 'up/c', 'an/y'])).toEqual([])
})

test('two providers of one name are rejected, and so is an unknown local one', () => {
  expect(() => registry([config('up'), config('up')])).toThrow('"up" is configured twice')
  expect(() => registry([config('local')])).toThrow('"local" is configured twice')
  expect(() => registry([config('other', undefined, 'local')])).toThrow('"other"')
  expect(registry([config('local', undefined, 'local')]).describe()).toEqual(['local/extract'])
})

test('the log lists the models at the start, and no key', () => {
  const lines: object[] = []
  const write = (facts: object, message: string) => void lines.push({ ...facts, message })
  const log = { debug: write, info: write, warn: write, error: write }
  const configs = [{ ...config('up'), apiKey: 'hidden' }]
  opened.push(createProviderRegistry(configs, { clock: createFakeClock(), log, builtIn: [builtIn().provider] }))
  expect(lines).toEqual([{ models: ['local/extract', 'up/*'], message: 'providers ready' }])
})

test.each<[string, EndpointConfig | BedrockConfig, string, string, unknown]>([
  ['azure', config('up', undefined, 'azure'), 'api-key', '/openai/v1/chat/completions', chatJson('Hello.')],
  ['openai', config('up'), 'authorization', '/chat/completions', chatJson('Hello.')],
  ['anthropic', config('up', undefined, 'anthropic'), 'x-api-key', '/v1/messages', ANTHROPIC_ANSWER],
  ['google', config('up', undefined, 'google'), 'x-goog-api-key', '/v1beta/models/m:generateContent', GOOGLE_ANSWER],
  ['cohere', config('up', undefined, 'cohere'), 'authorization', '/v2/chat', COHERE_ANSWER],
  ['bedrock', bedrock, 'authorization', '/model/m/converse', BEDROCK_ANSWER],
])('a provider of kind %s uses its interface from the first call on', async (_, kind, header, path, answer) => {
  const upstream = await startUpstream()
  try {
    upstream.script(replyJson(answer), replyJson(answer))
    const { find } = registry([{ ...kind, baseUrl: new URL(upstream.url).origin, apiKey: 'secret' }])
    for (let at = 0; at < 2; at++) expect(await ask(find('up/m')?.provider)).toMatchObject(HELLO)
    expect(upstream.requests.map((request) => request.path)).toEqual([path, path])
    expect(upstream.requests[0]?.headers[header]).toContain('secret')
  } finally {
    await upstream.close()
  }
})

test('Bedrock gets its region, credentials and models', async () => {
  const upstream = await startUpstream()
  try {
    upstream.script(replyJson(BEDROCK_ANSWER))
    const credentials = { accessKeyId: 'AKID', secretAccessKey: 'secret', sessionToken: 'session' }
    const baseUrl = new URL(upstream.url).origin
    const { find, describe } = registry([{ ...bedrock, baseUrl, credentials, models: ['m'] }])
    expect(describe()).toEqual(['local/extract', 'up/m'])
    expect(find('up/other')).toBeUndefined()
    expect(await ask(find('up/m')?.provider)).toMatchObject(HELLO)
    const { headers } = upstream.requests[0] ?? {}
    expect(headers?.authorization).toMatch(/^AWS4-HMAC-SHA256 Credential=AKID\/\d{8}\/eu-central-1\/bedrock\//)
    expect(headers?.['x-amz-security-token']).toBe('session')
  } finally {
    await upstream.close()
  }
})

test('detected providers are added to configured ones, and never replace them', () => {
  const found = new Map<string, Provider>()
  const created = createProviderRegistry([config('up')], { clock: createFakeClock(), builtIn: [], found })
  opened.push(created)
  expect(created.describe()).toEqual(['up/*'])
  found.set('ollama', { ...builtIn().provider, name: 'ollama', models: ['a'] })
  found.set('up', { ...builtIn().provider, name: 'up', models: ['b'] })
  expect(created.describe()).toEqual(['up/*', 'ollama/a'])
  expect(created.find('ollama/a')?.model).toBe('a')
  expect(created.find('up/x')?.model).toBe('x')
  found.delete('ollama')
  expect(created.find('ollama/a')).toBeUndefined()
})

test('close closes every provider', async () => {
  const local = builtIn()
  await registry([config('up')], local.provider).close()
  expect(local.state.closed).toBe(true)
})
