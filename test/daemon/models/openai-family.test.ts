// The table of OpenAI's family: each row is used, and docs/configuration.md shows all rows.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { OPENAI_FAMILY, USUAL_PROFILE } from '../../../src/daemon/models/openai-family.ts'
import type { Provider } from '../../../src/daemon/models/provider.ts'
import { mayHaveRoute, profilesOf } from '../../../src/daemon/models/providers/openai/profiles.ts'
import { openAiProvider } from '../../../src/daemon/models/providers/openai/provider.ts'
import { WELL_KNOWN_PROVIDERS } from '../../../src/daemon/models/well-known-providers.ts'
import { createFakeClock } from '../../fake-clock.ts'

const FAMILY = Object.entries(OPENAI_FAMILY)
const urlOf = (name: string, hosts: readonly string[] = []): string =>
  OPENAI_FAMILY[name]?.baseUrl ?? `https://customer.${hosts[0]}/v1`

const opened: Provider[] = []
afterEach(() => Promise.all(opened.splice(0).map((provider) => provider.close())))

test('has at least forty servers, each with a valid address and a key variable of its own', () => {
  expect(FAMILY.length).toBeGreaterThanOrEqual(41)
  const variables = FAMILY.flatMap(([, { keyVariables }]) => keyVariables)
  expect(new Set(variables).size).toBe(variables.length)
  for (const variable of variables) expect(variable).toMatch(/^[A-Z0-9_]+$/)
  for (const [name, { baseUrl, isLocal, otherHosts, keyVariables }] of FAMILY) {
    expect(name).toMatch(/^[a-z0-9]+$/)
    if (baseUrl === undefined) expect(otherHosts, name).not.toHaveLength(0)
    else expect(new URL(baseUrl).protocol, name).toBe(isLocal ? 'http:' : 'https:')
    expect(keyVariables.length > 0, name).toBe(isLocal !== true)
    expect(WELL_KNOWN_PROVIDERS[name], name).toMatchObject({ baseUrl, keyVariables })
  }
})

describe.each(FAMILY)('%s', (name, { otherHosts, isLocal, differs, models, lacksRoutes = [] }) => {
  const url = urlOf(name, otherHosts)

  test('has its own profile, by its address and by its name', () => {
    const expected = { ...USUAL_PROFILE, origin: name, ...differs }
    if (!isLocal) expect(profilesOf('mine', url)('a-model')).toEqual(expected)
    expect(profilesOf(name, 'http://127.0.0.1:9/v1')('a-model')).toEqual(expected)
    for (const host of otherHosts ?? []) expect(profilesOf('mine', `https://${host}/v1`)('a-model')).toEqual(expected)
    if (models) expect(profilesOf(name, url)).toBeTypeOf('function')
  })

  test('offers the routes that it may have', () => {
    const options = { name, baseUrl: url, apiKey: undefined, headers: {}, models: undefined }
    const provider = openAiProvider(options, { clock: createFakeClock() })
    opened.push(provider)
    const has = { embeddings: provider.embed, rerank: provider.rerank, moderations: provider.moderate }
    for (const route of ['embeddings', 'rerank', 'moderations'] as const) {
      expect(has[route] !== undefined, route).toBe(!lacksRoutes.includes(route))
    }
  })
})

test('a proxy that is named after a server may have more routes than the server', () => {
  expect(mayHaveRoute('groq', 'http://proxy.example/v1', 'embeddings')).toBe(true)
  expect(mayHaveRoute('mine', 'https://api.groq.com/openai/v1', 'embeddings')).toBe(false)
  expect(mayHaveRoute('ollama', 'http://10.0.0.5:11434/v1', 'rerank')).toBe(false)
})

const list = (words: readonly string[]): string => words.map((word) => `\`${word}\``).join(', ') || '–'

/** The differences in the fields of requests. */
function fieldsOf(name: string): readonly string[] {
  const { differs = {} } = OPENAI_FAMILY[name] ?? {}
  const { tokensField, seedField, dimensionsField, reasoningField, effortField, streamOptions } = differs
  const names = [tokensField, seedField, dimensionsField, reasoningField, effortField].filter(Boolean)
  return [...list(names as string[]).split(', '), ...(streamOptions === false ? ['no `stream_options`'] : [])].filter(
    (one, _, all) => one !== '–' || all.length === 1,
  )
}

const row = (name: string): string => {
  const { baseUrl, keyVariables, differs, lacksRoutes = [] } = OPENAI_FAMILY[name] ?? { keyVariables: [] }
  const address = baseUrl === undefined ? 'of the customer' : `\`${baseUrl}\``
  const cells = [`\`${name}\``, address, list(keyVariables), list(differs?.lacks ?? []), list(lacksRoutes)]
  return `| ${[...cells, fieldsOf(name).join(', ')].join(' | ')} |`
}

test('docs/configuration.md has a row for each server. Copy the expected rows into it.', () => {
  const page = readFileSync(join(import.meta.dirname, '../../../docs/configuration.md'), 'utf8')
  const [, shown = ''] = /<!-- openai-family -->\n([\s\S]*?)<!-- \/openai-family -->/.exec(page) ?? []
  const rows = [
    '| Name | URL | Variable | Rejected options | Missing routes | Fields |',
    '| --- | --- | --- | --- | --- | --- |',
    ...FAMILY.map(([name]) => row(name)),
  ]
  expect(shown.trim().split('\n')).toEqual(rows)
})
