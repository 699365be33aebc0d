import { beforeAll, expect, test } from 'vitest'
import { newId } from '../../../src/shared/ids.ts'
import { multipart } from '../../daemon/knowledge/ingest/multipart.ts'
import type { TestEngine } from '../../engines.ts'
import { type Answer, sharedGateway } from '../../harness.ts'
import { createCalendar } from './calendar.ts'
import { addAdministrator, type CallerKind } from './callers.ts'
import { MULTIPART_BODY, ROUTE_CALLS, type RouteCall } from './route-calls.ts'
import { type StoreChanges, watchChanges } from './store-changes.ts'
import { addWorld, freshName, type World } from './world.ts'

const OWN_ROUTES = Object.entries(ROUTE_CALLS).filter(([, { access }]) => access !== 'operator' && access !== 'none')
const READS = OWN_ROUTES.filter(([endpoint]) => endpoint.startsWith('GET '))
const WRITES = OWN_ROUTES.filter(([endpoint]) => !endpoint.startsWith('GET '))
const CREATIONS = WRITES.filter(([, { status, target }]) => status === 201 && !target)
const TRAIN = '/api/external/indexes/{indexName}/train'

/** Declares these tests for one engine. Each engine has its own file, so that the files run in parallel. */
export function isolationOf(engine: TestEngine): void {
  const calendar = createCalendar()
  const shared = sharedGateway({ engine, clock: calendar })
  let own: World
  let admin: CallerKind
  let changes: StoreChanges

  beforeAll(async () => {
    const { db } = shared.current.app
    own = await addWorld(db, 'ownland')
    admin = await addAdministrator(db, own.tenantId)
    await train(own, admin, 'The lift is in the hall. The stairs are behind it.')
    changes = await watchChanges(db, engine)
  })

  type Named = { target?: string | undefined; name?: string; at?: number }

  async function call(endpoint: string, row: RouteCall, world: World, { key }: CallerKind, named: Named = {}) {
    const [method = '', path = ''] = endpoint.split(' ')
    const { target = (await row.target?.(shared.current.app.db, world)) ?? '', name = freshName(world), at = 0 } = named
    const body = row.bodies?.(world, name)[at] ?? (row.headers && MULTIPART_BODY)
    const url = path.replace(/\{.*\}/, target) + (row.query === undefined ? '' : `?${row.query}`)
    return shared.current.call(method, url, body, { key, headers: { ...row.headers } })
  }

  async function train(world: World, { key }: CallerKind, content: string): Promise<void> {
    const { headers = {} } = ROUTE_CALLS[`POST ${TRAIN}`] ?? {}
    const body = multipart([{ fileName: 'notes.md', content }])
    const answer = await shared.current.call('POST', TRAIN.replace('{indexName}', world.indexName), body, {
      key,
      headers,
    })
    expect(answer.status, answer.text).toBe(200)
  }

  /** Adds another tenant with one of each resource, and with a document whose training was interrupted long ago. */
  async function addNeighbour(): Promise<{ world: World; admin: CallerKind }> {
    const { db } = shared.current.app
    const world = await addWorld(db, freshName({ mark: 'neighbour' }))
    const neighbour = await addAdministrator(db, world.tenantId)
    await train(world, neighbour, 'The lift of the neighbour is next door. A lift, a lift, a lift.')
    const index = await db
      .selectFrom('indexes')
      .select('id')
      .where('tenant_id', '=', world.tenantId)
      .executeTakeFirstOrThrow()
    const draft = { source: 'draft.md', title: 'draft', content_hash: 'h', passage_count: 0, state: 'draft' as const }
    await db
      .insertInto('documents')
      .values({
        id: newId(),
        tenant_id: world.tenantId,
        index_id: index.id,
        ...draft,
        created_at: '2020-01-01T00:00:00.000Z',
        first_passage_id: null,
        in_shared_segment: 0,
      })
      .execute()
    return { world, admin: neighbour }
  }

  test.each(READS)('%s returns the same response, whatever other tenants own', async (endpoint, row) => {
    const target = endpoint.includes('{indexName}')
      ? own.indexName
      : ((await row.target?.(shared.current.app.db, own)) ?? '')
    const alone = await call(endpoint, row, own, admin, { target })
    expect(alone.status, alone.text).toBe(row.status)
    await addNeighbour()
    expect(gist(await call(endpoint, row, own, admin, { target }))).toEqual(gist(alone))
  })

  test.each(WRITES)('%s leaves every other tenant unchanged', async (endpoint, row) => {
    const { world } = await addNeighbour()
    await changes.forget()
    const answer = await call(endpoint, row, own, admin)
    expect(answer.status, answer.text).toBe(row.status)
    expect(await changes.of(world.tenantId, { counters: true })).toEqual([])
  })

  test.each(CREATIONS)(
    '%s accepts a name that another tenant uses, and returns the same response',
    async (endpoint, row) => {
      const neighbour = await addNeighbour()
      for (const at of row.bodies?.(own, '').keys() ?? []) {
        const name = freshName({ mark: 'shared' })
        const theirs = await call(endpoint, row, neighbour.world, neighbour.admin, { name, at })
        const ours = await call(endpoint, row, own, admin, { name, at })
        expect(ours.status, ours.text).toBe(201)
        expect(nameless(ours, own)).toEqual(nameless(theirs, neighbour.world))
      }
    },
  )
}

/**
 * The comparable part of a response, without its request id, scores and durations. On SQLite, scores depend slightly on
 * the average passage length of the whole store (see search-sqlite.ts).
 */
const gist = ({ status, text, body }: Answer): { status: number; text: string } => ({
  status,
  text: text
    .replace(String(body?.request_id ?? '\0'), '<id>')
    .replace(/"(score|verificationTime)":[\d.e-]+/g, '"$1":0'),
})

/** Also removes everything specific to a tenant: ids, secrets and names of existing resources. */
function nameless(answer: Answer, { mark }: World): { status: number; text: string } {
  const { status, text } = gist(answer)
  const ids = text.replace(/(sk-|whsec_)[0-9a-f]{64}/g, '<secret>').replace(/\b[0-9a-f]{24}\b/g, '<id>')
  return { status, text: ids.replaceAll(mark, '<mark>').replace(/<mark>-\d+/g, '<name>') }
}
