import { beforeAll, expect, test } from 'vitest'
import type { z } from 'zod'
import { endpointOf } from '../../src/daemon/http/route.ts'
import { CHAT_PATH } from '../../src/shared/wire/chat.ts'
import { TRIGGER_PATH } from '../../src/shared/wire/event-feed.ts'
import { MESSAGES_PATH } from '../../src/shared/wire/messages.ts'
import { OPENAI_CHAT_PATH, OPENAI_EMBEDDINGS_PATH } from '../../src/shared/wire/openai.ts'
import { describeEachEngine } from '../engines.ts'
import { sharedGateway } from '../harness.ts'
import { createCalendar } from './access/calendar.ts'
import { definition, type JsonSchema, toInputSchema } from './access/generated-input.ts'
import { ROUTE_CALLS } from './access/route-calls.ts'
import { addWorld, type World } from './access/world.ts'
import { MULTIPART, multipart } from './knowledge/multipart.ts'

/** What PostgreSQL refuses and SQLite would change. */
const HOSTILE = ['a\0b', '\0', 'a\ud800b', '\udc00', '\ud800\0']
/** The same as a client can put it into an address: escaped NUL, and bytes that are no UTF-8. */
const HOSTILE_ESCAPED = ['a%00b', '%00', 'a%ED%A0%80b', '%ff']

/** Stands for a name that no request before had. */
const NEW_NAME = 'new-name'

/** The strings of chat that a good request has no use for, beside those that it has. */
const CHAT_BODIES = [
  {
    prompt: 'hi',
    system_message: 'Be brief.',
    model: 'test/any',
    fallback_models: ['test/other', { model: 'test/third' }],
    redundancy: { on: ['timeout'], commit: 'complete' },
    index: 'hostile',
    smltp_policy: 'public',
    conversation_id: 'c',
    user_id: 'f'.repeat(24),
    prompt_shield: { policy: 'p' },
  },
  { prompt: 'hi', system_message: 'Be brief.', model: 'test/any', index: 'Zero-Knowledge', conversation_id: 'c' },
  { prompt: 'hi', model: 'local/extract', index: 'hostile' },
  { messages: [{ role: 'user', content: 'hi' }], models: ['test/any', { model: 'test/b' }], index: 'Zero-Knowledge' },
]

const EXTENSIONS = { smltp_policy: 'public', prompt_shield: { policy: 'p' }, user_id: 'f'.repeat(24) }
const IMAGE = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'aGk=' } }

/** And those of the other surfaces. */
const FURTHER_BODIES: Record<string, unknown[]> = {
  [`POST ${TRIGGER_PATH}`]: [
    { type: 'pii:incident', data: { action: 'mask', direction: 'input', entityTypes: ['EMAIL_ADDRESS'] } },
  ],
  [`POST ${OPENAI_CHAT_PATH}`]: [
    { ...EXTENSIONS, model: 'test/any', messages: [{ role: 'user', content: 'hi' }], modalities: ['text'] },
  ],
  [`POST ${OPENAI_EMBEDDINGS_PATH}`]: [{ ...EXTENSIONS, model: 'test/any', input: 'hi' }],
  [`POST ${MESSAGES_PATH}`]: [
    {
      ...EXTENSIONS,
      models: ['test/any', { model: 'test/b' }],
      fallback_models: ['test/other', { model: 'test/third' }],
      redundancy: { on: ['timeout'], commit: 'complete' },
      max_tokens: 5,
      system: 'Be brief.',
      messages: [
        { role: 'user', content: [IMAGE] },
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 'Hm.', signature: 's' },
            { type: 'redacted_thinking', data: 'd' },
            { type: 'tool_use', id: 'call_1', name: 'look', input: {} },
          ],
        },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_1', content: 'A lift.' }] },
        {
          role: 'user',
          content: [{ type: 'tool_result', tool_use_id: 'call_1', content: [{ type: 'text', text: 'hi' }, IMAGE] }],
        },
      ],
      tools: [{ type: 'custom', name: 'look', description: 'Looks', input_schema: {} }],
      tool_choice: { type: 'tool', name: 'look' },
      thinking: { type: 'adaptive' },
      output_config: { effort: 'low', format: { type: 'json_schema', schema: {} } },
      output_format: { type: 'json_schema', schema: {} },
    },
  ],
}

/** Requests of each route that has text in its body; together they fill in every string there is. */
function bodiesOf(world: World): [endpoint: string, bodies: unknown[]][] {
  return Object.entries(ROUTE_CALLS).flatMap(([endpoint, { bodies }]) => {
    if (!bodies) return []
    if (endpoint === `POST ${CHAT_PATH}`) return [[endpoint, CHAT_BODIES]]
    return [[endpoint, [...bodies(world, NEW_NAME), ...(FURTHER_BODIES[endpoint] ?? [])]]]
  })
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

function stringPaths(schema: JsonSchema, root: JsonSchema, path = ''): string[] {
  const inside = (one: JsonSchema | undefined, inPath = path) => (one ? stringPaths(one, root, inPath) : [])
  const named = schema.$ref === undefined ? undefined : definition(schema.$ref, root)
  const either = [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])].flatMap((one) => inside(one))
  const members = Object.entries(schema.properties ?? {}).flatMap(([name, one]) => inside(one, `${path}.${name}`))
  // An id holds nothing but hex, so nothing hostile.
  const isId = schema.pattern === '^[0-9a-fA-F]{24}$'
  const own = [schema.type].flat().includes('string') && !isId ? [path] : []
  return [...new Set([...inside(named), ...either, ...members, ...inside(schema.items, `${path}[]`), ...own])]
}

function stringsIn(schema: z.ZodType): string[] {
  const root = toInputSchema(schema)
  return stringPaths(root, root)
}

describeEachEngine('text that no database can hold', (engine) => {
  const calendar = createCalendar()
  const shared = sharedGateway({ engine, clock: calendar })
  const errors = () => shared.current.log.filter(({ level }) => level === 'error')
  let world: World
  let bodies: [endpoint: string, bodies: unknown[]][]

  beforeAll(async () => {
    const { db } = shared.current.app
    const { tenant_id } = await db.selectFrom('api_keys').select('tenant_id').executeTakeFirstOrThrow()
    world = await addWorld(db, 'homeland', tenant_id)
    bodies = bodiesOf(world)
  })

  /** Each request has its own minute, so that no limit answers in the place of the route. */
  const call: (typeof shared.current)['call'] = (...args) => {
    calendar.forward(60_000)
    return shared.current.call(...args)
  }

  /** Where a route is called; what its path names is there. */
  async function pathOf(endpoint: string): Promise<string> {
    const [, path = ''] = endpoint.split(' ')
    const target = await ROUTE_CALLS[endpoint]?.target?.(shared.current.app.db, world)
    return path.replace(/\{\w+\}/, target ?? '')
  }

  test('the index is there', async () => {
    expect((await call('POST', '/api/external/indexes', { name: 'hostile' })).status).toBe(201)
  })

  test('every string of every body is tried', () => {
    const untried: string[] = []
    for (const route of shared.current.app.routes) {
      if (!route.body) continue
      const known = bodies.find(([endpoint]) => endpoint === endpointOf(route))?.[1] ?? []
      const tried = known.flatMap((body) => stringsOf(body).map(({ path }) => path))
      const missing = stringsIn(route.body).filter((path) => !tried.includes(path))
      untried.push(...missing.map((path) => `${endpointOf(route)} ${path}`))
    }
    expect(untried).toEqual([])
  })

  let names = 0
  const withNewName = (body: unknown) => JSON.stringify(body).replaceAll(NEW_NAME, () => `fresh-${names++}`)

  test('in a body it is refused or comes back as it was, and is never a fault of ours', async () => {
    for (const [endpoint, tried] of bodies) {
      const [method = ''] = endpoint.split(' ')
      const path = await pathOf(endpoint)
      for (const leaf of tried.flatMap((body) => stringsOf(body))) {
        for (const text of HOSTILE) {
          const answer = await call(method, path, withNewName(leaf.replaced(text)))
          const sent = { endpoint, leaf: leaf.path, text, status: answer.status }
          expect(sent).toMatchObject({ status: expect.toSatisfy(known) })
          expect(answer.text).not.toContain('\ufffd')
        }
      }
    }
    for (const route of shared.current.app.routes) {
      if (route.method !== 'GET' || route.path.includes('{')) continue
      expect((await call('GET', route.path)).text).not.toContain('\ufffd')
    }
    expect(errors()).toEqual([])
  })

  test('in an address it is refused or finds nothing, and is never a fault of ours', async () => {
    for (const route of shared.current.app.routes) {
      const path = await pathOf(endpointOf(route))
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

/** 502 is the upstream's fault, and 429 that of a limit; nothing here may reach either. */
const known = (status: number): boolean => status < 500 && status !== 429
