import { expect, test } from 'vitest'
import { z } from 'zod'
import type { Route } from '../../src/daemon/http/route.ts'
import { describeEachEngine } from '../engines.ts'
import { sharedGateway } from '../harness.ts'
import { MULTIPART, multipart } from './knowledge/multipart.ts'

/** What PostgreSQL refuses and SQLite would change. */
const HOSTILE = ['a\0b', '\0', 'a\ud800b', '\udc00', '\ud800\0']
/** The same as a client can put it into an address: escaped NUL, and bytes that are no UTF-8. */
const HOSTILE_ESCAPED = ['a%00b', '%00', 'a%ED%A0%80b', '%ff']

/** Stands for a name that no request before had. */
const NEW_NAME = 'new-name'

/** Good requests of each route that has text in its body; together they fill in every string there is. */
const BODIES: Record<string, unknown[]> = {
  'POST /api/external/chat/completions': [
    {
      prompt: 'hi',
      system_message: 'Be brief.',
      model: 'test/any',
      fallback_models: ['test/other', { model: 'test/third' }],
      redundancy: { on: ['timeout'] },
      index: 'hostile',
      smltp_policy: 'public',
      conversation_id: 'c',
      user_id: 'f'.repeat(24),
      prompt_shield: { policy: 'p' },
    },
    { prompt: 'hi', system_message: 'Be brief.', model: 'test/any', index: 'Zero-Knowledge', conversation_id: 'c' },
    { prompt: 'hi', model: 'local/extract', index: 'hostile' },
    { messages: [{ role: 'user', content: 'hi' }], models: ['test/any', { model: 'test/b' }], index: 'Zero-Knowledge' },
  ],
  'POST /api/external/indexes': [{ name: NEW_NAME, description: 'About' }],
}

type Leaf = { path: string; replaced(value: string): unknown }

/** Every string of a JSON value, each with the value it would be in with another string in its place. */
function stringsOf(value: unknown, path = ''): Leaf[] {
  if (typeof value === 'string') return [{ path, replaced: (text) => text }]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, child]) =>
    stringsOf(child, Array.isArray(value) ? `${path}[]` : `${path}.${name}`).map((leaf) => ({
      path: leaf.path,
      replaced: (text: string) =>
        Array.isArray(value)
          ? value.map((entry, at) => (String(at) === name ? leaf.replaced(text) : entry))
          : { ...value, [name]: leaf.replaced(text) },
    })),
  )
}

type JsonSchema = {
  $ref?: string
  $defs?: Record<string, JsonSchema>
  type?: string | string[]
  properties?: Record<string, JsonSchema>
  items?: JsonSchema
  anyOf?: JsonSchema[]
  oneOf?: JsonSchema[]
}

function stringPaths(schema: JsonSchema, root: JsonSchema, path = ''): string[] {
  const inside = (one: JsonSchema | undefined, inPath = path) => (one ? stringPaths(one, root, inPath) : [])
  const named = schema.$ref === undefined ? undefined : root.$defs?.[schema.$ref.replace('#/$defs/', '')]
  const either = [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])].flatMap((one) => inside(one))
  const members = Object.entries(schema.properties ?? {}).flatMap(([name, one]) => inside(one, `${path}.${name}`))
  const own = [schema.type].flat().includes('string') ? [path] : []
  return [...new Set([...inside(named), ...either, ...members, ...inside(schema.items, `${path}[]`), ...own])]
}

function stringsIn(schema: z.ZodType): string[] {
  const root = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as JsonSchema
  return stringPaths(root, root)
}

const nameOf = ({ method, path }: Route) => `${method} ${path}`

describeEachEngine('text that no database can hold', (engine) => {
  const shared = sharedGateway({ engine })
  const call: (typeof shared.current)['call'] = (...args) => shared.current.call(...args)
  const errors = () => shared.current.log.filter(({ level }) => level === 'error')

  test('the index is there', async () => {
    expect((await call('POST', '/api/external/indexes', { name: 'hostile' })).status).toBe(201)
  })

  test('every string of every body is tried', () => {
    for (const route of shared.current.app.routes) {
      if (!route.body) continue
      const tried = (BODIES[nameOf(route)] ?? []).flatMap((body) => stringsOf(body).map(({ path }) => path))
      expect([nameOf(route), [...new Set(tried)].sort()]).toEqual([nameOf(route), stringsIn(route.body).sort()])
    }
  })

  let names = 0
  const withNewName = (body: unknown) => JSON.stringify(body).replaceAll(NEW_NAME, () => `fresh-${names++}`)

  test('in a body it is refused or comes back as it was, and is never a fault of ours', async () => {
    for (const [name, bodies] of Object.entries(BODIES)) {
      const [method = '', path = ''] = name.split(' ')
      for (const leaf of bodies.flatMap((body) => stringsOf(body))) {
        for (const text of HOSTILE) {
          const answer = await call(method, path, withNewName(leaf.replaced(text)))
          const tried = { name, leaf: leaf.path, text, status: answer.status }
          expect(tried).toMatchObject({ status: expect.toSatisfy(known) })
          expect(answer.text).not.toContain('\ufffd')
        }
      }
    }
    expect((await call('GET', '/api/external/indexes/all')).text).not.toContain('\ufffd')
    expect(errors()).toEqual([])
  })

  test('in an address it is refused or finds nothing, and is never a fault of ours', async () => {
    for (const route of shared.current.app.routes) {
      const path = route.path.replace('{indexName}', 'hostile')
      for (const text of HOSTILE_ESCAPED) {
        const targets = [
          ...(route.path.includes('{') ? [route.path.replaceAll(/\{\w+\}/g, text)] : []),
          ...(route.query ? stringsIn(route.query) : []).map((name) => `${path}?${name.slice(1)}=${text}`),
          `${path}?${text}=${text}`,
        ]
        for (const target of targets) {
          const answer = await call(route.method, target, route.method === 'GET' ? undefined : '{}')
          expect({ target, status: answer.status }).toMatchObject({ status: expect.toSatisfy(known) })
        }
      }
    }
    expect(errors()).toEqual([])
  })

  test('in a document it fails that document, and is never a fault of ours', async () => {
    for (const text of HOSTILE) {
      const inputs = [
        { name: text, content: 'fine' },
        { name: 'content', content: `words ${text}` },
        { name: 'type', type: text, content: 'fine' },
      ]
      const answer = await call(
        'POST',
        '/api/external/indexes/hostile/train',
        multipart([
          { field: 'text_inputs', content: JSON.stringify(inputs) },
          { fileName: `${text}.md`, content: 'fine' },
          { fileName: 'bytes.md', content: `words ${text}` },
        ]),
        { headers: MULTIPART },
      )
      expect({ text, status: answer.status }).toMatchObject({ status: expect.toSatisfy(known) })
    }
    expect(errors()).toEqual([])
  })
})

/** 502 is the upstream's fault; nothing here may reach one. */
const known = (status: number): boolean => status < 500
