import { beforeAll, describe, expect, test } from 'vitest'
import { endpointOf, type Route } from '../../../src/daemon/platform/http/route.ts'
import { newId } from '../../../src/shared/ids.ts'
import type { TestEngine } from '../../engines.ts'
import { type Answer, sharedGateway } from '../../harness.ts'
import { addAdministrator, addCallers, type CallerKind, isPermitted, isServed, refusalOf } from './callers.ts'
import { expectDocumented } from './documented-replies.ts'
import { MULTIPART_BODY, ROUTE_CALLS, type RouteCall } from './route-calls.ts'
import { type StoreChanges, watchChanges } from './store-changes.ts'
import { dumpStore } from './store-dump.ts'
import { addTarget, addWorld, freshName, nothing, type World } from './world.ts'

const OWN = 'ownland'
const OTHER = 'otherland'

/** Groups of routes: routes that only read, and all others. */
export type RouteGroup = 'reads' | 'changes'

const groupOf = (endpoint: string): RouteGroup => (endpoint.startsWith('GET ') ? 'reads' : 'changes')

/**
 * Declares the tests of rights for the routes of this group: which callers may use them, on whose resources. Each group
 * and engine has its own file, so that the files run in parallel.
 */
export function matrixOf(engine: TestEngine, group: RouteGroup): void {
  const shared = sharedGateway({ engine, responses: { store: true } })
  let own: World
  let other: World
  let callers: CallerKind[]
  let stranger: CallerKind
  let changes: StoreChanges
  /** Ids in the rows of the other tenant. Undefined after a test adds some. */
  let idsOfOther: ReadonlySet<string> | undefined

  beforeAll(async () => {
    const { db } = shared.current.app
    const { tenant_id } = await db.selectFrom('api_keys').select('tenant_id').executeTakeFirstOrThrow()
    own = await addWorld(db, OWN, tenant_id)
    other = await addWorld(db, OTHER)
    callers = await addCallers(db, own.tenantId, shared.current.adminKey)
    stranger = await addAdministrator(db, other.tenantId)
    changes = await watchChanges(db, engine)
  })

  type Changes = { target?: string | undefined; query?: string | undefined; body?: object | undefined }

  /** Sends the row's request with these changes. The response must be documented for the route. */
  async function call(route: Route, row: RouteCall, { key }: CallerKind, changes: Changes = {}): Promise<Answer> {
    const { target = '', query = row.query } = changes
    const path = route.path.replace(/\{.*\}/, target) + (query === undefined ? '' : `?${query}`)
    const wellFormed = row.bodies?.(own, freshName(own))[0] ?? (row.headers && MULTIPART_BODY)
    const headers = { ...row.headers }
    const answer = await shared.current.call(route.method, path, changes.body ?? wellFormed, { key, headers })
    expectDocumented(route, answer, shared.current.log)
    return answer
  }

  async function targetIn(world: World, row: RouteCall): Promise<string | undefined> {
    if (world === other) idsOfOther = undefined
    return row.target?.(shared.current.app.db, world)
  }

  /** Fails if a response contains another tenant's name, email or id that the request did not contain. */
  async function expectNoLeak({ text }: Answer, said = ''): Promise<void> {
    const received = text.replaceAll(said || '\0', '')
    expect(received).not.toContain(OTHER)
    idsOfOther ??= new Set((await dumpStore(shared.current.app.db, { tenantId: other.tenantId })).flatMap(idsIn))
    expect(idsIn(received).filter((id) => idsOfOther?.has(id))).toEqual([])
  }

  test('a change of one row is recorded once, and only for its own tenant', async () => {
    const { db } = shared.current.app
    await changes.forget()
    const id = await addTarget.role(db, own)
    await db.updateTable('roles').set({ description: 'other words' }).where('id', '=', id).execute()
    await db.updateTable('roles').set({ description: 'other words' }).where('id', '=', id).execute()
    await db.deleteFrom('roles').where('id', '=', id).execute()
    expect(await changes.of(own.tenantId)).toEqual(['roles insert', 'roles update', 'roles delete'])
    expect(await changes.of(other.tenantId)).toEqual([])
  })

  test('every route has a row, and every row has a route', () => {
    expect(Object.keys(ROUTE_CALLS).sort()).toEqual(shared.current.app.routes.map(endpointOf).sort())
  })

  describe.each(Object.entries(ROUTE_CALLS).filter(([endpoint]) => groupOf(endpoint) === group))(
    '%s',
    (endpoint, row) => {
      const isOperators = row.access === 'operator'
      const find = (): Route => {
        const route = shared.current.app.routes.find((one) => endpointOf(one) === endpoint)
        if (!route) throw new Error(`there is no route ${endpoint}`)
        return route
      }

      test('declares the required rights', () => {
        expect(find().access).toBe(row.access)
      })

      test('documents every error that can precede its handler', () => {
        const { access, body, bodyLimit, path, query, responses } = find()
        const needsKey = access !== 'none'
        const namesTarget = path.includes('{')
        const takesBody = body !== undefined || bodyLimit === 'unread'
        const refusals = [
          ...(needsKey ? [401, 403, 429] : []),
          ...(namesTarget || takesBody || query ? [400] : []),
          ...(takesBody ? [413, 415] : []),
        ]
        expect(Object.keys(responses)).toEqual(expect.arrayContaining(refusals.map(String)))
      })

      test('rejects callers without the right, and nothing changes', async () => {
        const route = find()
        const target = await targetIn(own, row)
        await changes.forget()
        const answered: string[] = []
        for (const caller of callers.filter((one) => !isServed(one, route, row))) {
          const { status } = await call(route, row, caller, { target })
          if (status !== refusalOf(caller)) answered.push(`${caller.name}: ${status}`)
        }
        expect(answered, answered.join('\n')).toEqual([])
        expect(await changes.of(own.tenantId)).toEqual([])
      })

      test('serves callers with the right', async () => {
        const route = find()
        const answered: string[] = []
        for (const caller of callers.filter((one) => isServed(one, route, row))) {
          const answer = await call(route, row, caller, { target: await targetIn(own, row) })
          const mayFind = row.ownersOr === undefined || caller.mayUse(row.ownersOr, 'reader')
          if (answer.status !== (mayFind ? row.status : 404)) {
            answered.push(`${caller.name}: ${answer.status} ${answer.text}`)
          }
          if (!isOperators) await expectNoLeak(answer)
        }
        expect(answered, answered.join('\n')).toEqual([])
      })

      if (row.target && !isOperators && !row.isPublic)
        test('treats resources of another tenant as missing', async () => {
          const route = find()
          const foreign = (await targetIn(other, row)) as string
          const parts = foreign.split('/')
          const absent = parts.map((part) => (part.includes(OTHER) ? nothing().indexName : isId(part) ? newId() : part))
          await changes.forget()
          const answered: string[] = []
          for (const caller of callers) {
            const answer = await call(route, row, caller, { target: foreign })
            const expected = isPermitted(caller, route) ? 404 : refusalOf(caller)
            if (answer.status !== expected) answered.push(`${caller.name}: ${answer.status} ${answer.text}`)
            await expectNoLeak(answer, parts[0])
            const unknown = await call(route, row, caller, { target: absent.join('/') })
            expect(gist(answer, ...parts)).toEqual(gist(unknown, ...absent))
          }
          expect(answered, answered.join('\n')).toEqual([])
          expect(await changes.of(other.tenantId, { counters: true })).toEqual([])
        })

      if (row.target && !row.isPublic)
        test('is closed to the administrators of another tenant', async () => {
          const route = find()
          const target = (await targetIn(own, row)) as string
          await changes.forget()
          const answer = await call(route, row, stranger, { target })
          expect(answer.status, answer.text).toBe(isOperators ? 403 : 404)
          expect(answer.text.replaceAll(target.split('/')[0] ?? '', '')).not.toContain(OWN)
          expect(await changes.of(own.tenantId, { counters: true })).toEqual([])
        })

      if (row.references)
        test('rejects references to resources of another tenant, without revealing that they exist', async () => {
          const route = find()
          await changes.forget()
          for (const reference of row.references ?? []) {
            for (const caller of callers.filter((one) => isPermitted(one, route))) {
              const target = await targetIn(own, row)
              const name = freshName(own)
              const answers = []
              for (const known of [other, { ...nothing(), mark: 'nothing-of-this' }]) {
                const answer = await call(route, row, caller, { target, ...reference(known, name) })
                answers.push(gist(answer, known.userId, known.roleId, known.indexName))
                await expectNoLeak(
                  answer,
                  known.mark === OTHER ? [known.userId, known.roleId].find((id) => answer.text.includes(id)) : '',
                )
              }
              expect(answers[0]).toEqual(answers[1])
              if (route.method !== 'GET') expect(answers.every(isRefusal), answers[0]?.text).toBe(true)
            }
          }
          expect(await changes.of(other.tenantId, { counters: true })).toEqual([])
        })
    },
  )
}

/** Whether a response is a rejection. A policy check succeeds and reports the rejection in its body. */
const isRefusal = ({ status, text }: { status: number; text: string }): boolean =>
  [400, 403, 404].includes(status) || text.startsWith('{"success":true,"dry_run":true,"allowed":false,')

/** The comparable part of a response, without input of the caller, request id and time. */
function gist({ status, text, body }: Answer, ...said: string[]): { status: number; text: string } {
  const requestId = String(body?.request_id ?? '\0')
  const timeless = text.replace(requestId, '<id>').replace(/"(timestamp|bundle_id)":"[^"]+"/g, '"$1":""')
  return { status, text: said.reduce((rest, one) => rest.replaceAll(one, '<said>'), timeless) }
}

const idsIn = (text: string): string[] => text.match(/\b[0-9a-f]{24}\b/g) ?? []
const isId = (text: string): boolean => /^[0-9a-f]{24}$/.test(text)
