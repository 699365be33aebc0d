import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { DEFAULT_LIMITS } from '../../../../src/daemon/gateway/config.ts'
import { planChain } from '../../../../src/daemon/gateway/governed/chain.ts'
import { createModelNames } from '../../../../src/daemon/models/names.ts'
import type { Provider } from '../../../../src/daemon/models/provider.ts'
import type { ProviderRegistry } from '../../../../src/daemon/models/registry.ts'
import { ChatRequest } from '../../../../src/shared/wire/chat.ts'
import { KeySettings } from '../../../../src/shared/wire/keys.ts'

const provider: Provider = {
  name: 'p',
  models: undefined,
  chat: () => {
    throw new Error('planning asks nobody')
  },
  close: async () => {},
}
const registry: ProviderRegistry = {
  find: (id) => (id.startsWith('p/') ? { provider, model: id.slice(2), location: 'here' } : undefined),
  describe: () => ['p/*'],
  sockets: () => [],
  close: async () => {},
}
const target = (modelId: string, priority = 1) => ({ modelId, weight: 1, priority })
const models = [
  { name: 'pair', targets: [target('p/a'), target('p/b')] },
  { name: 'spare', targets: [target('p/a'), target('p/b', 2)] },
]
const names = createModelNames({ models }, registry, () => false)
const plan = (body: object, settings: object = {}, { stream = false, limits = {} } = {}) =>
  planChain(ChatRequest.parse(body), registry, KeySettings.parse(settings), {
    stream,
    limits: { ...DEFAULT_LIMITS, ...limits },
    names,
  })
const modelIds = (...args: Parameters<typeof plan>) => plan(...args).attempts.map(({ modelId }) => modelId)

test('timeouts are clamped, those of an entry override those of the chain, and the rest have defaults', () => {
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
  expect(alone.timeouts).toEqual({ attemptMs: 600_000, firstTokenMs: 300_000, stallMs: 300_000 })
})

test('a stream has no total timeout, unless the request or the operator sets one', () => {
  const streamed = (body: object, limits = {}) =>
    plan({ model: 'p/a', ...body }, {}, { stream: true, limits }).attempts.map(({ timeouts }) => timeouts)
  const unlimited = { attemptMs: Number.POSITIVE_INFINITY, firstTokenMs: 300_000, stallMs: 300_000 }
  expect(streamed({})).toEqual([unlimited])
  expect(streamed({ fallback_models: ['p/b'] })).toEqual([{ ...unlimited, firstTokenMs: 12_000 }, unlimited])
  expect(streamed({ redundancy: { timeout_ms: 5000 } })).toEqual([
    { ...unlimited, attemptMs: 5000, firstTokenMs: 5000 },
  ])
  // Nothing is sent before the answer is complete, so the timeouts of a non-streamed answer apply.
  const held = { fallback_models: ['p/b'], redundancy: { commit: 'complete' } }
  expect(streamed(held).map(({ attemptMs }) => attemptMs)).toEqual([120_000, 600_000])
  const limits = { attemptMs: 900_000, firstTokenMs: 90_000, silenceMs: 60_000 }
  const asked = { redundancy: { timeout_ms: 250_000 } }
  expect(streamed({}, limits)).toEqual([{ attemptMs: 900_000, firstTokenMs: 90_000, stallMs: 60_000 }])
  expect(streamed(asked, limits)).toEqual([{ attemptMs: 250_000, firstTokenMs: 90_000, stallMs: 60_000 }])
})

test('a model that may think silently has more time for the first token, unless a fallback waits', () => {
  const firstTokens = (body: object, settings: object = {}) =>
    plan(body, settings).attempts.map(({ timeouts }) => timeouts.firstTokenMs)
  expect(firstTokens({ models: ['p/a', 'p/b', 'p/a'] })).toEqual([12_000, 300_000])
  expect(firstTokens({ model: 'p/a', redundancy: { timeout_ms: 200_000 } })).toEqual([200_000])
  expect(firstTokens({ model: 'p/a', redundancy: { first_token_timeout_ms: 4000 } })).toEqual([4000])
  const failoverDefaults = { models: ['p/a', 'p/b'], first_token_timeout_ms: 900 }
  expect(firstTokens({ model: 'p/b' }, { failoverDefaults })).toEqual([900])
})

test('duplicates are removed, fallbacks follow the model, and `on` narrows the triggers', () => {
  const chain = plan({ model: 'p/a', fallback_models: ['p/a', 'p/b', 'p/b'], redundancy: { on: ['timeout'] } })
  expect(chain.attempts.map(({ modelId }) => modelId)).toEqual(['p/a', 'p/b'])
  expect([...chain.triggers]).toEqual(['timeout'])
  expect(plan({ model: 'p/a' }).triggers.size).toBe(4)
})

test('a model that nobody offers is named, with what is configured', () => {
  expect(() => plan({ model: 'q/a' })).toThrow(
    'The model "q/a" is not configured. Configured models: pair, spare, p/*.',
  )
})

describe('names', () => {
  test('become their targets; targets of one priority share the time limits of one attempt', () => {
    const { attempts, requestedModel } = plan({ models: ['pair', 'p/c'] })
    expect(requestedModel).toBe('pair')
    expect(attempts.map(({ requested }) => requested)).toEqual(['pair', 'pair', 'p/c'])
    expect(new Set(attempts.map(({ modelId }) => modelId))).toEqual(new Set(['p/a', 'p/b', 'p/c']))
    const [first, second, last] = attempts
    expect(first.pool).toBe(second?.pool)
    expect(last?.pool).toBeUndefined()
    expect(attempts.map(({ timeouts }) => timeouts.firstTokenMs)).toEqual([12_000, 12_000, 300_000])
  })

  test('a lower priority is a fallback with its own time limits', () => {
    const { attempts } = plan({ model: 'spare' })
    expect(attempts.map(({ modelId, timeouts }) => [modelId, timeouts.firstTokenMs])).toEqual([
      ['p/a', 12_000],
      ['p/b', 300_000],
    ])
    const [first, second] = attempts
    expect([first.pool === second?.pool, first.pool?.entry === second?.pool?.entry]).toEqual([false, true])
  })

  test('contain only targets that the key may use', () => {
    expect(modelIds({ model: 'pair' }, { allowedModels: ['p/b'] })).toEqual(['p/b'])
    expect(modelIds({ model: 'spare' }, { allowedModels: ['spare'] })).toEqual(['p/a', 'p/b'])
    expect(() => plan({ model: 'p/a' }, { allowedModels: ['spare'] })).toThrow('may not use the model "p/a"')
    expect(() => plan({ model: 'pair' }, { allowedModels: ['p/z'] })).toThrow('may not use the model "pair"')
    // A name is no provider, whatever its letters are.
    expect(() => plan({ model: 'pair' }, { allowedModels: ['pai/*'] })).toThrow('may not use the model "pair"')
  })

  test('may be in the failover defaults of a key', () => {
    const settings = { failoverDefaults: { models: ['spare', 'p/c'] } }
    expect(modelIds({ model: 'spare' }, settings)).toEqual(['p/a', 'p/b', 'p/c'])
  })
})

describe('the failover defaults of a key', () => {
  const failoverDefaults = {
    models: ['p/a', 'p/b', 'p/c'],
    timeout_ms: 5000,
    first_token_timeout_ms: 900,
    on: ['timeout', 'rate_limit'],
  }
  const settings = { failoverDefaults }

  test('continue after a single model from its position in the list, with their limits and triggers', () => {
    const chain = plan({ model: 'p/b' }, settings)
    expect(chain.attempts.map(({ modelId, timeouts }) => [modelId, timeouts.attemptMs, timeouts.firstTokenMs])).toEqual(
      [
        ['p/b', 5000, 900],
        ['p/c', 5000, 900],
      ],
    )
    expect([...chain.triggers]).toEqual(['timeout', 'rate_limit'])
    expect(modelIds({ model: 'p/a' }, settings)).toEqual(['p/a', 'p/b', 'p/c'])
    expect(modelIds({ model: 'p/c' }, settings)).toEqual(['p/c'])
  })

  test('are overridden by each limit in the request', () => {
    const redundancy = { timeout_ms: 7000, on: [] }
    const { attempts, triggers } = plan({ model: 'p/b', redundancy }, settings)
    expect(attempts.map(({ timeouts }) => [timeouts.attemptMs, timeouts.firstTokenMs])).toEqual([
      [7000, 900],
      [7000, 900],
    ])
    expect(triggers.size).toBe(0)
  })

  test.each([
    ['a model outside the list', { model: 'p/z' }, ['p/z']],
    ['`models`', { model: 'p/a', models: ['p/a'] }, ['p/a']],
    ['`fallback_models`', { model: 'p/a', fallback_models: ['p/c'] }, ['p/a', 'p/c']],
    ['an empty list of fallbacks', { model: 'p/a', fallback_models: [] }, ['p/a']],
  ])('do not apply to %s', (_, body, expected) => {
    const chain = plan(body, settings)
    expect(chain.attempts.map(({ modelId }) => modelId)).toEqual(expected)
    expect(chain.attempts.at(-1)?.timeouts.attemptMs).toBe(600_000)
    expect(chain.triggers.size).toBe(4)
  })

  test('obey the list of allowed models too', () => {
    const narrow = { ...settings, allowedModels: ['p/a', 'p/b'] }
    expect(() => plan({ model: 'p/a' }, narrow)).toThrow('may not use the model "p/c"')
  })
})

test('no chain ever contains a model that the key may not use', () => {
  const model = fc.constantFrom('p/a', 'p/b', 'p/c', 'p/d')
  const some = fc.uniqueArray(model, { minLength: 1, maxLength: 3 })
  const bodies = fc.oneof(
    fc.record({ model }),
    fc.record({ models: some }),
    fc.record({ model, fallback_models: fc.uniqueArray(model, { maxLength: 2 }) }),
  )
  const property = fc.property(bodies, some, fc.option(some), (body, allowedModels, models) => {
    const settings = { allowedModels, failoverDefaults: models && { models } }
    const wanted = modelIds(body, { ...settings, allowedModels: [] })
    if (wanted.every((id) => allowedModels.some((allowed) => allowed === id)))
      expect(modelIds(body, settings)).toEqual(wanted)
    else expect(() => plan(body, settings)).toThrow(/may not use the model/)
  })
  fc.assert(property, { numRuns: 300 })
})

describe('one model of a name', () => {
  const models = [
    { name: 'absent', targets: [target('q/a'), target('p/b'), target('p/c', 2)] },
    { name: 'elsewhere', targets: [target('q/a'), target('p/b'), target('p/a', 2)] },
  ]
  const names = createModelNames({ models }, registry, () => false)
  const targetsOf = (model: string, isOneModel: boolean) =>
    planChain({ model }, registry, KeySettings.parse({}), {
      ...{ stream: false, limits: DEFAULT_LIMITS, names, isOneModel },
    })
      .attempts.map(({ modelId }) => modelId)
      .sort()

  test('is the first model of the configuration, also while its first target is absent', () => {
    expect(targetsOf('elsewhere', true)).toEqual(['p/a'])
    expect(targetsOf('elsewhere', false)).toEqual(['p/a', 'p/b'])
  })

  test('is never replaced by another model: a name without a target for it is unknown', () => {
    expect(targetsOf('absent', false)).toEqual(['p/b', 'p/c'])
    expect(() => targetsOf('absent', true)).toThrow(
      'The model "absent" is not configured. Configured models: elsewhere, p/*.',
    )
  })
})

test("models of the key's failoverDefaults need no provider, also where those of the client do", () => {
  const settings = { failoverDefaults: { models: ['p/a', 'b'] } }
  const exact = (body: object) =>
    planChain(ChatRequest.parse(body), registry, KeySettings.parse(settings), {
      ...{ stream: false, limits: DEFAULT_LIMITS, names, isExact: true },
    }).attempts.map(({ modelId }) => modelId)
  expect(exact({ model: 'p/a' })).toEqual(['p/a', 'p/b'])
  expect(() => exact({ model: 'b' })).toThrow('The model "b" is not configured')
})
