import { execFileSync, spawnSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { RE2JS } from 're2js'
import { beforeAll, describe, expect, test } from 'vitest'
import { EXAMPLES } from '../../src/daemon/platform/http/description/examples.ts'
import { recordExamples } from './api-examples.ts'

const FILE = fileURLToPath(new URL('../../docs/openapi.json', import.meta.url))
const EXAMPLES_FILE = fileURLToPath(new URL('../../src/daemon/platform/http/description/examples.ts', import.meta.url))

type Json = Record<string, unknown>
type Operation = {
  operationId: string
  summary?: string
  description?: string
  tags: string[]
  parameters?: { name: string; in: string; description?: string }[]
  responses: Record<string, { content?: Record<string, { schema?: Json; example?: unknown }> }>
}
type Document = {
  servers: { url: string }[]
  tags: { name: string; description: string }[]
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, Json> }
}

describe('the description of the API', () => {
  const { shared, examples } = recordExamples()
  let api: Document

  beforeAll(async () => {
    api = (await shared.current.call('GET', '/openapi.json', undefined, { key: null })).body
    if (process.env.AIGW_RECORD_EXAMPLES) await writeExamples(examples)
  })

  const operations = () =>
    Object.entries(api.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({
        endpoint: `${method.toUpperCase()} ${path}`,
        operation,
      })),
    )

  test('passes an independent validator', async () => {
    const { valid, errors } = await new Validator().validate(structuredClone(api))
    expect(errors ?? []).toEqual([])
    expect(valid).toBe(true)
  })

  test('passes the strict validator of Python, if this machine has it', () => {
    const probe = spawnSync('python3', ['-c', 'import openapi_spec_validator'])
    if (probe.status !== 0) return
    const program =
      'import json, sys; from openapi_spec_validator import validate; validate(json.load(open(sys.argv[1]))); print("valid")'
    expect(execFileSync('python3', ['-c', program, FILE], { encoding: 'utf8' }).trim()).toBe('valid')
  })

  test('has only patterns that linear-time engines and Python can read', () => {
    const patterns = [...patternsIn(api)]
    expect(patterns.length).toBeGreaterThan(20)
    for (const pattern of patterns) {
      expect(() => RE2JS.compile(pattern), pattern).not.toThrow()
      expect(pattern).not.toMatch(/\\p\{|\(\?[=!<]/)
    }
    if (spawnSync('python3', ['--version']).status !== 0) return
    const program = 'import json, re, sys; [re.compile(p) for p in json.load(sys.stdin)]; print("read")'
    const read = execFileSync('python3', ['-c', program], { encoding: 'utf8', input: JSON.stringify(patterns) })
    expect(read.trim()).toBe('read')
  })

  test('the pattern of names of policies accepts what the gateway accepts, apart from symbols outside ASCII', () => {
    const [pattern] = [...patternsIn(api)].filter((one) => one.startsWith('^[^\\x00-/'))
    const name = new RegExp(pattern as string)
    for (const good of ['Ops', '7 (a) & b+c', "L'été", '東京', "x,.:_-'"]) expect(name.test(good), good).toBe(true)
    for (const bad of ['', ' a', '-a', 'a/b', 'a"b', 'a<b', 'a\nb', 'a[b', 'a{b', 'a`b', 'a^b', 'a@b', 'a*b']) {
      expect(name.test(bad), bad).toBe(false)
    }
  })

  test('describes every operation, parameter, property and tag', () => {
    const missing: string[] = []
    for (const { endpoint, operation } of operations()) {
      if (!operation.summary || !operation.description) missing.push(endpoint)
      for (const { name, description } of operation.parameters ?? [])
        if (!description) missing.push(`${endpoint} ${name}`)
    }
    missing.push(...undescribed(api.components.schemas, 'schemas'), ...undescribed(api.paths, 'paths'))
    expect(missing).toEqual([])
    const names = api.tags.map(({ name }) => name)
    expect(api.tags.every(({ description }) => description !== '')).toBe(true)
    for (const { operation } of operations()) expect(names).toEqual(expect.arrayContaining(operation.tags))
    expect(new Set(operations().map(({ operation }) => operation.operationId)).size).toBe(operations().length)
    expect(api.servers).toHaveLength(1)
  })

  test('lists the routes below /v1 and /v1beta also with their short paths, and these work', async () => {
    const long = Object.keys(api.paths).filter((path) => /^\/api\/external\/v1(beta)?\//.test(path))
    expect(long.length).toBeGreaterThan(15)
    for (const path of long) {
      const methods = api.paths[path.slice('/api/external'.length)]
      expect(Object.keys(methods ?? {})).toEqual(Object.keys(api.paths[path] as object))
    }
    const { status } = await shared.current.call('GET', '/v1/models')
    expect(status).toBe(200)
  })

  test('has an example of each JSON response, and it fits its schema', () => {
    const ajv = new Ajv2020({ strict: false, validateFormats: false })
    ajv.addSchema(api, 'api')
    const faults: string[] = []
    for (const key of Object.keys(examples)) {
      const [method = '', path = '', status = ''] = key.split(' ')
      const example = EXAMPLES[key]
      if (example === undefined) {
        faults.push(`${key}: no example`)
        continue
      }
      const pointer = path.replaceAll('~', '~0').replaceAll('/', '~1').replaceAll('{', '%7B').replaceAll('}', '%7D')
      const validate = ajv.compile({
        $ref: `api#/paths/${pointer}/${method.toLowerCase()}/responses/${status}/content/application~1json/schema`,
      })
      if (!validate(example)) faults.push(`${key}: ${JSON.stringify(validate.errors)}`)
      const shown = api.paths[path]?.[method.toLowerCase()]?.responses[status]?.content?.['application/json']?.example
      expect(shown).toEqual(example)
    }
    expect(faults, 'run `AIGW_RECORD_EXAMPLES=1 npx vitest run test/contract/api-description.test.ts`').toEqual([])
    expect(Object.keys(EXAMPLES).length).toBeGreaterThan(100)
  })

  test('/docs shows every operation, and its page loads nothing', async () => {
    const { status, headers, text } = await shared.current.call('GET', '/docs', undefined, { key: null })
    expect(status).toBe(200)
    expect(headers['content-type']).toBe('text/html; charset=utf-8')
    expect(headers['content-security-policy']).toMatch(/^default-src 'none'; style-src 'sha256-[\w+/=]+';/)
    for (const { operation } of operations()) expect(text).toContain(`id="${operation.operationId}"`)
    expect(text).not.toMatch(/<script|<img|<link|<iframe|\ssrc=|@import|url\(/i)
    const targets = [...text.matchAll(/href="([^"]*)"/g)].map(([, target]) => target as string)
    expect(targets.filter((target) => !target.startsWith('#'))).toEqual(['/openapi.json'])
    const anchors = new Set([...text.matchAll(/\bid="([^"]*)"/g)].map(([, id]) => `#${id}`))
    for (const target of targets) if (target.startsWith('#')) expect(anchors).toContain(target)
  })
})

async function writeExamples(examples: Record<string, unknown>): Promise<void> {
  await writeFile(
    EXAMPLES_FILE,
    `// Longer than 300 lines: recorded from the responses of a real daemon by test/contract/api-description.test.ts.
/** Examples of JSON responses, by method, path and status. */
export const EXAMPLES: Record<string, unknown> = ${JSON.stringify(examples, null, 2)}\n`,
  )
  execFileSync('npx', ['biome', 'check', '--write', EXAMPLES_FILE], { stdio: 'ignore' })
}

function* patternsIn(value: unknown): Iterable<string> {
  if (typeof value !== 'object' || value === null) return
  for (const [key, member] of Object.entries(value)) {
    if (key === 'pattern' && typeof member === 'string') yield member
    else if (key !== 'example') yield* patternsIn(member)
  }
}

/** The properties of schemas that have no description. */
function undescribed(value: unknown, where: string): string[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, member]) => {
    if (key === 'example' || key === 'default' || key === 'const' || key === 'enum') return []
    if (key !== 'properties') return undescribed(member, `${where}.${key}`)
    return Object.entries(member as Record<string, Json>).flatMap(([name, property]) => [
      ...(property.description === undefined ? [`${where}.${name}`] : []),
      ...undescribed(property, `${where}.${name}`),
    ])
  })
}
