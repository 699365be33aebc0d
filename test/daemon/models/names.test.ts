import { expect, test } from 'vitest'
import type { ModelName } from '../../../src/daemon/models/config.ts'
import { createModelNames } from '../../../src/daemon/models/names.ts'
import type { Provider } from '../../../src/daemon/models/provider.ts'

/** Providers by name, with their models; undefined means any model. */
function names(providers: Record<string, readonly string[] | undefined>, models: readonly ModelName[] = []) {
  const find = (id: string) => {
    const [name = '', model = ''] = [id.slice(0, id.indexOf('/')), id.slice(id.indexOf('/') + 1)]
    const offered = providers[name]
    if (!Object.hasOwn(providers, name) || offered?.includes(model) === false) return undefined
    const provider = { name, models: offered } as Provider
    const keys = [
      { provider, weight: 3 },
      { provider, weight: 1 },
    ]
    return { provider, model, location: 'here' as const, ...(name === 'keyed' && { keys }) }
  }
  const describe = () =>
    Object.entries(providers).flatMap(([name, offered]) => (offered ?? ['*']).map((model) => `${name}/${model}`))
  const knows = (provider: string, model: string) => provider === 'openai' && model.startsWith('gpt-')
  return createModelNames({ models }, { find, describe }, knows)
}

/** The ids of everything that a text may stand for, by priority. */
const idsOf = ({ resolve }: ReturnType<typeof names>, requested: string, isExact?: boolean) =>
  resolve(requested, isExact).map(({ tiers }) => tiers.map((tier) => tier.map(({ modelId }) => modelId)))

test('a name stands for its targets, by priority; targets that are absent now are left out', () => {
  const targets = [
    { modelId: 'b/y', weight: 1, priority: 2 },
    { modelId: 'a/x', weight: 70, priority: 1 },
    { modelId: 'ollama/x', weight: 5, priority: 1 },
    { modelId: 'b/x', weight: 30, priority: 1 },
  ]
  const found = names({ a: ['x'], b: undefined }, [{ name: 'smart', targets }])
  expect(idsOf(found, 'smart')).toEqual([[['a/x', 'b/x'], ['b/y']]])
  expect(found.resolve('smart')[0]).toMatchObject({ name: 'smart', tiers: [[{ weight: 70 }, { weight: 30 }], [{}]] })
  const gone = [{ modelId: 'ollama/x', weight: 1, priority: 1 }]
  expect(names({ a: ['x'] }, [{ name: 'house', targets: gone }]).resolve('house')).toEqual([])
  const both = [...targets, { modelId: 'ollama/z', weight: 1, priority: 0 }]
  expect(names({ b: undefined }, [{ name: 'n', targets: both }]).resolve('n')[0]?.firstModel).toBe('z')
})

test('a model id stands for itself, and for one target per key of its provider', () => {
  const found = names({ a: ['x'], keyed: undefined })
  expect(idsOf(found, 'a/x')).toEqual([[['a/x']]])
  expect(idsOf(found, 'a/y')).toEqual([])
  expect(found.resolve('keyed/x')[0]?.tiers).toMatchObject([
    [
      { modelId: 'keyed/x', slot: 'keyed/x key 1', weight: 0.75 },
      { modelId: 'keyed/x', slot: 'keyed/x key 2', weight: 0.25 },
    ],
  ])
})

test('the keys of a provider share the weight of its target', () => {
  const targets = [{ modelId: 'keyed/x', weight: 8, priority: 1 }]
  const [found] = names({ keyed: undefined }, [{ name: 'n', targets }]).resolve('n')
  expect(found?.tiers[0]?.map(({ weight }) => weight)).toEqual([6, 2])
})

test.each<[string, Record<string, readonly string[] | undefined>, string[]]>([
  ['a provider that lists it', { a: ['gpt-5'], b: ['other'], openai: ['gpt-4o'] }, ['a/gpt-5']],
  ['every provider that lists it', { a: ['gpt-5'], b: ['gpt-5'] }, ['a/gpt-5', 'b/gpt-5']],
  ['an open provider that is known to have it', { openai: undefined, other: undefined }, ['openai/gpt-5']],
  ['listed ones and known ones', { a: ['gpt-5'], openai: undefined }, ['a/gpt-5', 'openai/gpt-5']],
  ['the only open provider', { a: ['x'], other: undefined }, ['other/gpt-5']],
  ['every open provider, if none is known to have it', { one: undefined, two: undefined }, ['one/gpt-5', 'two/gpt-5']],
  ['nothing', { a: ['x'] }, []],
])('a plain name stands for the model of %s', (_, providers, ids) => {
  expect(idsOf(names(providers), 'gpt-5').flat(2)).toEqual(ids)
  expect(names(providers).resolve('gpt-5', true)).toEqual([])
})

test('a name of the configuration takes precedence over a plain name, also where a model needs its provider', () => {
  const found = names({ a: ['gpt-5', 'x'] }, [{ name: 'gpt-5', targets: [{ modelId: 'a/x', weight: 1, priority: 1 }] }])
  expect(idsOf(found, 'gpt-5')).toEqual([[['a/x']]])
  expect(idsOf(found, 'gpt-5', true)).toEqual([[['a/x']]])
})
