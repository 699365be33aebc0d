import fc from 'fast-check'
import { Client } from 'undici'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { endpointOf, type Route } from '../../../src/daemon/platform/http/route.ts'
import { TextInputs } from '../../../src/shared/wire/indexes.ts'
import { MULTIPART, multipart } from '../../daemon/knowledge/ingest/multipart.ts'
import type { TestEngine } from '../../engines.ts'
import { type Answer, sharedGateway } from '../../harness.ts'
import { sharedResources } from '../../shared-resources.ts'
import { createCalendar } from './calendar.ts'
import { expectDocumented } from './documented-replies.ts'
import {
  brokenBodies,
  hostileSegments,
  hostileText,
  queriesOf,
  type Samples,
  SQL,
  toJson,
  valuesOf,
  variationsOf,
} from './generated-input.ts'
import { ROUTE_CALLS } from './route-calls.ts'
import { difference, dumpStore } from './store-dump.ts'
import { addWorld, freshName, type World } from './world.ts'

/**
 * Number of requests per route and engine. The seed selects them. Each engine has its own seed: most input is rejected
 * before it reaches a store, so both runs together test each route twice as often.
 */
const RUNS = Number(process.env.AIGW_HOSTILE_RUNS ?? 30)
const SEED = Number(process.env.AIGW_HOSTILE_SEED ?? 20260101)
const SEED_OF = { sqlite: SEED, postgres: SEED + 1 }

type Sent = { method: string; path: string; headers?: Record<string, string>; body?: string | Buffer | undefined }

const DAY_MS = 86_400_000
/** Fewer requests per day than any rate limit allows per minute. */
const REQUESTS_PER_DAY = 40

/** Placeholder for a name that no earlier request used. */
const NEW_NAME = 'new-name'

/** Lists that support search and sorting. */
const LISTS = [
  '/api/admin/tenants',
  '/api/external/users',
  '/api/external/groups',
  '/api/external/roles',
  '/api/admin/api-keys',
  '/api/external/indexes/all',
]

/** Declares these tests for one engine. Each engine has its own file, so that the files run in parallel. */
export function hostileInputOf(engine: TestEngine): void {
  const calendar = createCalendar()
  const shared = sharedGateway({ engine, clock: calendar })
  let client: Client
  let world: World
  let samples: Samples

  beforeAll(async () => {
    const { db } = shared.current.app
    const { tenant_id } = await db.selectFrom('api_keys').select('tenant_id').executeTakeFirstOrThrow()
    world = await addWorld(db, 'homeland', tenant_id)
    samples = {
      users: [world.userId],
      userId: [world.userId],
      user_id: [world.userId],
      roleId: [world.roleId],
      index: [world.indexName, 'Zero-Knowledge'],
      model: ['test/any', 'local/extract'],
      models: ['test/any', 'local/extract'],
      fallback_models: ['test/other'],
      allowedSMLTPPolicies: ['public', 'internal'],
      defaultSMLTPPolicy: ['public', 'internal'],
      smltp_policy: ['public', 'internal'],
      allowedIPs: ['127.0.0.1', '10.0.0.0/8', '::1/128'],
      search: ['homeland'],
    }
    client = new Client(shared.current.url)
    sharedResources.add(client)
  })
  afterAll(async () => {
    sharedResources.delete(client)
    await client.destroy()
  })

  const withNewName = <T extends Pick<Sent, 'body'>>(sent: T): T =>
    typeof sent.body === 'string' ? { ...sent, body: sent.body.replaceAll(NEW_NAME, freshName(world)) } : sent

  let requests = 0

  /** Sends the path unchanged. The date advances regularly, so that no rate limit of a key applies. */
  async function send({ method, path, headers, body }: Sent): Promise<Answer> {
    if (++requests % REQUESTS_PER_DAY === 0) calendar.forward(DAY_MS)
    const authorization = `Bearer ${shared.current.adminKey}`
    const json = body === undefined ? {} : { 'content-type': 'application/json' }
    const response = await client.request({
      method: method as 'GET',
      path,
      headers: { authorization, ...json, ...headers },
      ...(body !== undefined && { body }),
    })
    const text = await response.body.text()
    return { status: response.statusCode, headers: response.headers, text, body: undefined }
  }

  function bodiesOf(route: Route): fc.Arbitrary<Pick<Sent, 'headers' | 'body'>> {
    if (route.bodyLimit === 'unread') return uploads
    if (!route.body) return fc.constant({})
    const good = ROUTE_CALLS[endpointOf(route)]?.bodies?.(world, NEW_NAME) ?? []
    const contentTypes = fc.constantFrom('text/plain', 'application/json; charset=utf-16', 'application/jsonp', '')
    return fc.oneof(
      { weight: 9, arbitrary: variationsOf(route.body, samples, good).map((value) => ({ body: toJson(value) })) },
      { weight: 8, arbitrary: valuesOf(route.body, samples).map((value) => ({ body: toJson(value) })) },
      { weight: 2, arbitrary: brokenBodies.map((body) => ({ body })) },
      { weight: 1, arbitrary: contentTypes.map((type) => ({ body: '{}', headers: { 'content-type': type } })) },
    )
  }

  function addressesOf({ query }: Route, good: string | undefined): fc.Arbitrary<string> {
    if (!query) return fc.constantFrom('', 'page=1', 'a=%00')
    const generated = queriesOf(query, samples)
    return good === undefined
      ? generated
      : fc.oneof(
          generated,
          generated.map((one) => `${good}&${one}`),
        )
  }

  const routeOf = (endpoint: string): Route => {
    const route = shared.current.app.routes.find((one) => endpointOf(one) === endpoint)
    if (!route) throw new Error(`there is no route ${endpoint}`)
    return route
  }

  /** Sends a request and checks the response, whatever its status. */
  async function ask(endpoint: string, sent: Sent): Promise<Answer> {
    const answer = await send(sent)
    expectDocumented(routeOf(endpoint), answer, shared.current.log)
    return { ...answer, body: JSON.parse(answer.text) }
  }

  describe('SQL', () => {
    test('in the Authorization header is an unknown key', async () => {
      const path = '/api/external/groups'
      for (const text of SQL) {
        const token = text.replaceAll(' ', '/**/')
        for (const authorization of [`Bearer ${token}`, `Bearer sk-${'0'.repeat(64)}${token}`, text]) {
          const answer = await ask(`GET ${path}`, { method: 'GET', path, headers: { authorization } })
          expect([answer.status, answer.body.error.code]).toEqual([401, 'UNAUTHORIZED'])
        }
      }
    })

    test.each(LISTS)('in a search of %s is treated literally and matches nothing', async (path) => {
      for (const text of SQL) {
        const search = `${path}?search=${encodeURIComponent(text)}`
        const answer = await ask(`GET ${path}`, { method: 'GET', path: search })
        expect([text, answer.status, answer.body.pagination?.total]).toEqual([text, 200, 0])
      }
    })

    test.each(LISTS)('is rejected as a sort column and as a sort order of %s', async (path) => {
      for (const text of [...SQL, 'secret_hash', 'tenant_id', 'name desc, id', '(select 1)', '1', 'constructor']) {
        for (const parameter of ['sortBy', 'sortOrder']) {
          const query = `${parameter}=${encodeURIComponent(text)}`
          const answer = await ask(`GET ${path}`, { method: 'GET', path: `${path}?${query}` })
          expect([query, answer.status]).toEqual([query, 400])
        }
      }
    })

    test('in a name is treated literally', async () => {
      const before = await dumpStore(shared.current.app.db)
      for (const name of SQL) {
        const body = JSON.stringify({ name, description: name })
        const path = '/api/external/groups'
        const made = await ask(`POST ${path}`, { method: 'POST', path, body })
        expect([made.status, made.body.group?.name, made.body.group?.description]).toEqual([201, name, name])
        const found = await ask(`GET ${path}`, { method: 'GET', path: `${path}?search=${encodeURIComponent(name)}` })
        expect(found.body.groups.map((group: { name: string }) => group.name)).toContain(name)
      }
      const { gone, come } = difference(before, await dumpStore(shared.current.app.db))
      expect(gone).toEqual([])
      const tables = new Set(come.map((row) => row.split(' ', 1)[0]))
      expect([...tables].sort()).toEqual(['evidence_commits', 'evidence_entries', 'groups'])
    })
  })

  describe.each(Object.entries(ROUTE_CALLS))('%s', (endpoint, row) => {
    test('never causes an internal error, and returns only documented responses', async () => {
      const route = routeOf(endpoint)
      const found = () => (row.target ? row.target(shared.current.app.db, world) : Promise.resolve(''))
      let target = await found()

      const request = fc.record({
        // Null means the existing resource.
        segment: row.target ? fc.oneof(fc.constant(null), fc.constant(null), hostileSegments) : fc.constant(null),
        query: addressesOf(route, row.query),
        sent: bodiesOf(route),
      })
      const property = fc.asyncProperty(request, async ({ segment, query, sent }) => {
        // In a path with several segments, the last one is replaced.
        const named = segment === null ? target : [...target.split('/').slice(0, -1), segment].join('/')
        const path = route.path.replace(/\{.*\}/, named) + (query === '' ? '' : `?${query}`)
        const answer = await send({ method: route.method, path, ...withNewName(sent) })
        if (segment === null && route.method === 'DELETE') target = await found()
        expectDocumented(route, answer, shared.current.log)
        expect(answer.status).toBeLessThan(500)
      })
      await fc.assert(property, { numRuns: RUNS, seed: SEED_OF[engine.name], includeErrorInReport: true })
    })
  })
}

/** Removes characters that a multipart header cannot contain from a file name. */
const oneLine = (text: string): string => text.replace(/["\r\n\0]/g, '_')

const documents = fc.array(
  fc.record({
    fileName: fc.oneof(
      { weight: 3, arbitrary: fc.constantFrom('notes.md', 'notes.txt', 'a/b.md') },
      { weight: 1, arbitrary: fc.constantFrom('data.json', 'rows.csv', '.md', '') },
      { weight: 1, arbitrary: hostileText.map(oneLine) },
    ),
    content: fc.oneof(
      hostileText,
      fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
    ),
  }),
  { maxLength: 4 },
)

const textInputs = fc.oneof(
  fc.constant(null),
  hostileText.map((content) => [{ name: 'words.md', content }]),
  valuesOf(TextInputs, {}),
)

const uploads: fc.Arbitrary<Pick<Sent, 'headers' | 'body'>> = fc.oneof(
  {
    weight: 10,
    arbitrary: fc
      .record({ inputs: textInputs, files: documents, cut: fc.integer({ min: 0, max: 9 }) })
      .map(({ inputs, files, cut }) => {
        const text = inputs === null ? [] : [{ field: 'text_inputs', content: toJson(inputs) }]
        return { headers: MULTIPART, body: multipart([...text, ...files], { cut: cut === 0 }) }
      }),
  },
  { weight: 2, arbitrary: brokenBodies.map((body) => ({ headers: MULTIPART, body })) },
  { weight: 1, arbitrary: brokenBodies.map((body) => ({ headers: { 'content-type': 'multipart/form-data' }, body })) },
)
