import { afterEach, beforeEach, expect, test } from 'vitest'
import { createLocalServers, type LocalServers } from '../../../src/daemon/models/local-servers.ts'
import { createProviderRegistry } from '../../../src/daemon/models/registry.ts'
import { createFakeClock, type FakeClock } from '../../fake-clock.ts'
import { chatJson, hang, replyJson, replyRaw, startUpstream, type Upstream } from '../../upstream.ts'
import { playCall } from './providers/openai/playback.ts'

let upstream: Upstream
let clock: FakeClock
let lines: object[]
const opened: LocalServers[] = []

beforeEach(async () => {
  upstream = await startUpstream()
  clock = createFakeClock()
  lines = []
})

afterEach(async () => {
  await Promise.all(opened.splice(0).map((servers) => servers.close()))
  await upstream.close()
})

function localServers({ configured = [] as string[], baseUrl = upstream.url } = {}): LocalServers {
  const write = (facts: object, message: string) => void lines.push({ ...facts, message })
  const log = { debug: write, info: write, warn: write, error: write }
  const created = createLocalServers(configured, { clock, log, servers: [{ name: 'ollama', baseUrl }] })
  opened.push(created)
  return created
}

const models = (...ids: string[]) => replyJson({ object: 'list', data: ids.map((id) => ({ id, object: 'model' })) })

test('a server that responds is offered with its models, and can be called', async () => {
  upstream.script(models('llama3.2:1b', 'qwen3'))
  const servers = localServers()
  await servers.look()
  const registry = createProviderRegistry([], { clock, builtIn: [], found: servers.found })
  expect(registry.describe()).toEqual(['ollama/llama3.2:1b', 'ollama/qwen3'])
  expect(registry.find('ollama/other')).toBeUndefined()
  const { provider, model } = registry.find('ollama/qwen3') ?? {}
  upstream.script(replyJson(chatJson('Hello.')))
  const timeouts = { attemptMs: 10_000, firstTokenMs: 5_000, stallMs: 5_000 }
  const plain = { system: '', messages: [], grounding: null, temperature: 0, maxTokens: 5, stream: false, timeouts }
  const answer = provider?.chat({ ...plain, model: model ?? '' }, new AbortController().signal)
  expect(answer && (await playCall(answer))).toMatchObject({ text: 'Hello.' })
  expect(upstream.requests.map(({ method, path }) => `${method} ${path}`)).toEqual([
    'GET /v1/models',
    'POST /v1/chat/completions',
  ])
  expect(clock.pending).toBe(0)
})

test('its models follow the server, which may disappear and return, with log entries', async () => {
  const servers = localServers()
  const seen: unknown[] = []
  for (const script of [models('a'), models('a', 'b'), models(), models('b')]) {
    upstream.script(script)
    await servers.look()
    seen.push(servers.found.get('ollama')?.models)
  }
  expect(seen).toEqual([['a'], ['a', 'b'], undefined, ['b']])
  expect(lines).toMatchObject([
    { provider: 'ollama', models: ['a'], message: 'local server found' },
    { provider: 'ollama', message: 'local server lost' },
    { provider: 'ollama', models: ['b'], message: 'local server found' },
  ])
})

test('a port without a listener is ignored', async () => {
  const servers = localServers()
  upstream.script(models('a'))
  await servers.look()
  await upstream.close()
  await servers.look()
  expect(servers.found.size).toBe(0)
})

test.each([
  ['a web page', replyRaw('<html>', { contentType: 'text/html' })],
  ['another JSON', replyJson(['a'])],
  ['a refusal', replyJson({ data: [{ id: 'a' }] }, { status: 401 })],
  ['models without names', replyJson({ data: [null, {}, { id: 7 }, { id: '' }] })],
  ['a list without end', replyRaw(Buffer.alloc(1_100_000, ' '))],
])('%s is ignored', async (_, script) => {
  upstream.script(script)
  const servers = localServers()
  await servers.look()
  expect(servers.found.size).toBe(0)
})

test('a probe takes 300 ms at most, and a known server that is late stays', async () => {
  const servers = localServers()
  upstream.script(models('a'), hang)
  await servers.look()
  await upstream.nextRequest()
  const looking = servers.look()
  await upstream.nextRequest()
  clock.advance(300)
  await looking
  expect([...servers.found.keys()]).toEqual(['ollama'])
})

test('configured names are not probed', async () => {
  await localServers({ configured: ['ollama'] }).look()
  expect(upstream.requests).toEqual([])
})
