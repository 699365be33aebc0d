import { expect, test } from 'vitest'
import { planChain } from '../../../src/daemon/chat/chain.ts'
import type { Provider } from '../../../src/daemon/providers/provider.ts'
import type { ProviderRegistry } from '../../../src/daemon/providers/registry.ts'
import { ChatRequest } from '../../../src/shared/wire/chat.ts'

const provider: Provider = {
  name: 'p',
  models: undefined,
  chat: () => {
    throw new Error('planning asks nobody')
  },
  close: async () => {},
}
const registry: ProviderRegistry = {
  find: (id) => (id.startsWith('p/') ? { provider, model: id.slice(2) } : undefined),
  describe: () => ['p/*'],
  close: async () => {},
}
const plan = (body: object) => planChain(ChatRequest.parse(body), registry)

test('timeouts are clamped, an entry’s own beat the chain’s, and the rest have defaults', () => {
  const { attempts } = plan({
    models: [
      { model: 'p/a', timeout_ms: 1, first_token_timeout_ms: 999_999 },
      { model: 'p/b', timeout_ms: 2000 },
      'p/c',
    ],
    redundancy: { timeout_ms: 900_000, first_token_timeout_ms: 1 },
  })
  expect(attempts.map(({ timeouts }) => [timeouts.attemptMs, timeouts.firstTokenMs])).toEqual([
    [1000, 60_000],
    [2000, 500],
    [300_000, 500],
  ])
  const [alone] = plan({ model: 'p/a' }).attempts
  expect(alone.timeouts).toEqual({ attemptMs: 120_000, firstTokenMs: 30_000, stallMs: 30_000 })
})

test('duplicates collapse, fallbacks come after the model, and `on` narrows the triggers', () => {
  const chain = plan({ model: 'p/a', fallback_models: ['p/a', 'p/b', 'p/b'], redundancy: { on: ['timeout'] } })
  expect(chain.attempts.map(({ modelId }) => modelId)).toEqual(['p/a', 'p/b'])
  expect([...chain.triggers]).toEqual(['timeout'])
  expect(plan({ model: 'p/a' }).triggers.size).toBe(4)
})

test('a model that nobody offers is named, with what is configured', () => {
  expect(() => plan({ model: 'q/a' })).toThrow('"q/a" is not offered here. Configured: p/*.')
})
