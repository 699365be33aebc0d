import { afterEach, expect, test } from 'vitest'
import type { ProviderConfig } from '../../../src/daemon/config.ts'
import type { Provider } from '../../../src/daemon/providers/provider.ts'
import { createProviderRegistry, type ProviderRegistry } from '../../../src/daemon/providers/registry.ts'
import { createFakeClock } from '../../fake-clock.ts'

const config = (name: string, models?: readonly string[], kind: ProviderConfig['kind'] = 'openai'): ProviderConfig => ({
  name,
  kind,
  baseUrl: 'http://127.0.0.1:9/v1',
  apiKey: undefined,
  headers: {},
  models,
})

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

const opened: ProviderRegistry[] = []
function registry(configs: readonly ProviderConfig[], local = builtIn().provider) {
  const created = createProviderRegistry(configs, { clock: createFakeClock(), builtIn: [local] })
  opened.push(created)
  return created
}
afterEach(() => Promise.all(opened.splice(0).map((created) => created.close())))

test('a model id is split at its first slash, so models may hold slashes', () => {
  const found = registry([config('router')]).find('router/vendor/model:free')
  expect(found).toMatchObject({ provider: { name: 'router' }, model: 'vendor/model:free' })
})

test('what nobody offers is not found', () => {
  const { find } = registry([config('up', ['a']), config('any')])
  expect(find('up/a')?.model).toBe('a')
  expect(find('local/extract')?.provider.name).toBe('local')
  for (const id of ['up/b', 'local/other', 'nobody/a', 'any/', '/a', 'up', '', 'a/up/a', '__proto__/a']) {
    expect(find(id)).toBeUndefined()
  }
})

test('describes what is configured, by model where models are named', () => {
  const { describe } = registry([config('up', ['a', 'b/c']), config('any')])
  expect(describe()).toEqual(['local/extract', 'up/a', 'up/b/c', 'any/*'])
})

test('two providers of one name are refused, and so is a local one that is not built in', () => {
  expect(() => registry([config('up'), config('up')])).toThrow('"up" is configured twice')
  expect(() => registry([config('local')])).toThrow('"local" is configured twice')
  expect(() => registry([config('other', undefined, 'local')])).toThrow('"other"')
  expect(registry([config('local', undefined, 'local')]).describe()).toEqual(['local/extract'])
})

test('the log says at the start which models there are, and no key', () => {
  const lines: object[] = []
  const write = (facts: object, message: string) => void lines.push({ ...facts, message })
  const log = { debug: write, info: write, warn: write, error: write }
  const configs = [{ ...config('up'), apiKey: 'hidden' }]
  opened.push(createProviderRegistry(configs, { clock: createFakeClock(), log, builtIn: [builtIn().provider] }))
  expect(lines).toEqual([{ models: ['local/extract', 'up/*'], message: 'providers ready' }])
})

test('close closes every provider', async () => {
  const local = builtIn()
  await registry([config('up')], local.provider).close()
  expect(local.state.closed).toBe(true)
})
