import { describe, expect, test } from 'vitest'
import { withNoTraining } from '../../../src/daemon/models/no-training.ts'
import type { Provider, ProviderCall } from '../../../src/daemon/models/provider.ts'
import { anthropicProvider } from '../../../src/daemon/models/providers/anthropic/provider.ts'
import { bedrockProvider } from '../../../src/daemon/models/providers/bedrock/provider.ts'
import { cohereProvider } from '../../../src/daemon/models/providers/cohere/provider.ts'
import { googleProvider } from '../../../src/daemon/models/providers/google/provider.ts'
import { azureProvider, openAiProvider } from '../../../src/daemon/models/providers/openai/provider.ts'
import { claudeOnVertex, geminiOnVertex } from '../../../src/daemon/models/providers/vertex/provider.ts'
import { createFakeClock } from '../../fake-clock.ts'
import { replyJson } from '../../upstream.ts'
import { testCall, upstreamForEach } from './provider-calls.ts'

const call = testCall({ model: 'small', maxTokens: 8 })

// Only the request matters here; every response is an error.
const upstream = upstreamForEach(replyJson({ error: { message: 'no' } }, { status: 400 }))

const clock = createFakeClock()
const options = (name: string) => ({ name, baseUrl: upstream.url, apiKey: 'secret', headers: {}, models: undefined })
const vertex = () => ({ ...options('vertex'), project: 'p', location: 'eu', credentials: undefined })
const credentials = { accessKeyId: 'id', secretAccessKey: 'secret' }

const KINDS: Record<string, { open(): Provider; fields: object }> = {
  'any server of the family': { open: () => openAiProvider(options('house'), { clock }), fields: {} },
  openai: { open: () => openAiProvider(options('openai'), { clock }), fields: { store: false } },
  openrouter: {
    open: () => openAiProvider(options('openrouter'), { clock }),
    fields: { provider: { data_collection: 'deny' } },
  },
  mistral: { open: () => openAiProvider(options('mistral'), { clock }), fields: {} },
  azure: { open: () => azureProvider({ ...options('azure'), apiVersion: undefined }, { clock }), fields: {} },
  anthropic: { open: () => anthropicProvider(options('anthropic'), { clock }), fields: {} },
  google: { open: () => googleProvider(options('google'), { clock }), fields: {} },
  cohere: { open: () => cohereProvider(options('cohere'), { clock }), fields: {} },
  'gemini on vertex': { open: () => geminiOnVertex(vertex(), { clock }), fields: {} },
  'claude on vertex': { open: () => claudeOnVertex(vertex(), { clock }), fields: {} },
  'bedrock with a key': {
    open: () => bedrockProvider({ ...options('bedrock'), region: 'eu-west-1' }, { clock }),
    fields: {},
  },
  'bedrock with credentials': {
    open: () =>
      bedrockProvider({ ...options('bedrock'), apiKey: undefined, region: 'eu-west-1', credentials }, { clock }),
    fields: {},
  },
}

function open(kind: { open(): Provider }): Provider {
  return upstream.closeAfter(kind.open())
}

/** The request that a call sends, whatever its result. */
async function requestOf(run: Promise<unknown>) {
  await expect(run).rejects.toThrow()
  return upstream.nextRequest()
}

const chat = (provider: Provider, noTraining: boolean | undefined, more: Partial<ProviderCall> = {}) =>
  requestOf(
    provider
      .chat({ ...call, ...more, noTraining }, new AbortController().signal)
      [Symbol.asyncIterator]()
      .next(),
  )

describe.each(Object.entries(KINDS))('%s', (_, kind) => {
  test.each([{ stream: false }, { stream: true }, { options: { topP: 0.5 } }])(
    'sends a no-training header with %o, and no other change',
    async (more) => {
      const provider = open(kind)
      const usual = await chat(provider, undefined, more)
      const told = await chat(provider, true, more)
      expect(usual.headers).not.toHaveProperty('x-no-training')
      expect(told.headers['x-no-training']).toBe('true')
      expect(told.body).toEqual({ ...(usual.body as object), ...kind.fields })
      expect(told.path).toBe(usual.path)
      const again = await chat(provider, false, more)
      expect([again.headers['x-no-training'], again.rawBody]).toEqual([undefined, usual.rawBody])
    },
  )
})

test('an AWS signature covers the header, so that it cannot be removed in transit', async () => {
  const provider = open(KINDS['bedrock with credentials'] as { open(): Provider })
  const { headers } = await chat(provider, true)
  expect(headers.authorization).toMatch(/SignedHeaders=[^,]*;x-no-training/)
})

test('calls for vectors and reranking send it too', async () => {
  const provider = open(KINDS.openai as { open(): Provider })
  const { signal } = new AbortController()
  for (const noTraining of [true, undefined]) {
    const asked = { model: 'm', noTraining, attemptMs: 5_000 }
    const runs = [
      () => provider.embed?.({ ...asked, input: ['Hi'] }, signal),
      () => provider.rerank?.({ ...asked, query: 'Hi', documents: ['a'], count: 1 }, signal),
    ]
    for (const run of runs) {
      const { headers } = await requestOf(run() as Promise<unknown>)
      expect(headers['x-no-training']).toBe(noTraining ? 'true' : undefined)
    }
  }
})

test('it overrides a configured header of that name, and leaves the others unchanged', () => {
  expect(withNoTraining(['a', 'x-no-training', 'x-no-training', 'false', 'b', '2'])).toEqual([
    ...['a', 'x-no-training', 'b', '2'],
    ...['x-no-training', 'true'],
  ])
})
