import { beforeAll, expect, test } from 'vitest'
import { endpointOf } from '../../src/daemon/platform/http/route.ts'
import { MULTIPART, multipart } from '../daemon/knowledge/ingest/multipart.ts'
import { describeEachEngine } from '../engines.ts'
import { sharedGateway } from '../harness.ts'
import { bodiesOf, NEW_NAME, stringsIn, stringsOf } from './rights/body-strings.ts'
import { createCalendar } from './rights/calendar.ts'
import { ROUTE_CALLS } from './rights/route-calls.ts'
import { addWorld, type World } from './rights/world.ts'

/** Texts that PostgreSQL rejects and SQLite would change. */
const HOSTILE = ['a\0b', '\0', 'a\ud800b', '\udc00', '\ud800\0']
/** The same texts in a URL: escaped NUL, and bytes that are not valid UTF-8. */
const HOSTILE_ESCAPED = ['a%00b', '%00', 'a%ED%A0%80b', '%ff']

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

  /** Each request runs in its own minute, so that no rate limit responds instead of the route. */
  const call: (typeof shared.current)['call'] = (...args) => {
    calendar.forward(60_000)
    return shared.current.call(...args)
  }

  /** The path of an endpoint. The resources that it names exist. */
  async function pathOf(endpoint: string): Promise<string> {
    const [, path = ''] = endpoint.split(' ')
    const target = await ROUTE_CALLS[endpoint]?.target?.(shared.current.app.db, world)
    return path.replace(/\{\w+\}/, target ?? '')
  }

  test('the index exists', async () => {
    expect((await call('POST', '/api/external/indexes', { name: 'hostile' })).status).toBe(201)
  })

  test('every string of every body is tested', () => {
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

  test('in a body it is rejected or returned unchanged, and never causes an internal error', async () => {
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

  test('in a path it is rejected or matches nothing, and never causes an internal error', async () => {
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

  test('in a document it fails that document, and never causes an internal error', async () => {
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

/** Neither an upstream failure (502) nor a rate limit (429) may occur here. */
const known = (status: number): boolean => status < 500 && status !== 429
