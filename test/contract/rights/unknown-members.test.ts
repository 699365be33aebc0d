import { beforeAll, describe, expect, test } from 'vitest'
import { describeEachEngine } from '../../engines.ts'
import { sharedGateway } from '../../harness.ts'
import { createCalendar } from './calendar.ts'
import { ROUTE_CALLS } from './route-calls.ts'
import { difference, dumpStore } from './store-dump.ts'
import { addWorld, freshName, nothing, type World } from './world.ts'

const RESOURCES = {
  key: { path: '/api/admin/api-keys', id: 'keyId', itemKey: 'apiKey' },
  user: { path: '/api/external/users', id: 'userId', itemKey: 'user' },
  role: { path: '/api/external/roles', id: 'roleId', itemKey: 'role' },
  group: { path: '/api/external/groups', id: 'groupId', itemKey: 'group' },
} as const
type Resource = keyof typeof RESOURCES
const NAMES = Object.keys(RESOURCES) as Resource[]
const REQUESTS = Object.values(RESOURCES).flatMap(({ path, id }) => [`POST ${path}`, `PUT ${path}/{${id}}`])

type Path = readonly (string | number)[]

describeEachEngine('members that a key, user, role or group does not have', (engine) => {
  const shared = sharedGateway({ engine, clock: createCalendar() })
  let world: World

  beforeAll(async () => {
    const { db } = shared.current.app
    const { tenant_id } = await db.selectFrom('api_keys').select('tenant_id').executeTakeFirstOrThrow()
    world = await addWorld(db, 'ownland', tenant_id)
  })

  async function send(endpoint: string, body: unknown) {
    const { app, call } = shared.current
    const [method = '', pattern = ''] = endpoint.split(' ')
    const target = (await ROUTE_CALLS[endpoint]?.target?.(app.db, world)) ?? ''
    const before = await dumpStore(app.db)
    const answer = await call(method, pattern.replace(/\{.*\}/, target), body)
    return { answer, changed: difference(before, await dumpStore(app.db)) }
  }
  /** The message of an error, in either error format. */
  const messageOf = ({ body }: { body: { message?: string; error: { message?: string } } }) =>
    body.message ?? body.error.message

  const withBodies = REQUESTS.flatMap((endpoint) =>
    (ROUTE_CALLS[endpoint]?.bodies?.(nothing(), '') ?? []).flatMap((body, at) =>
      objectsIn(body).map((path) => ({ endpoint, at, path, where: path.join('.') || 'the body' })),
    ),
  )

  test.each(withBodies)(
    '$endpoint, body $at: an unknown member in $where is rejected, and nothing changes',
    async (one) => {
      const { endpoint, at, path } = one
      const body = ROUTE_CALLS[endpoint]?.bodies?.(world, freshName(world))[at] ?? {}
      for (const name of ['zzUnknown', '__proto__', 'constructor', 'tenantId', 'is_operator']) {
        const { answer, changed } = await send(endpoint, withMember(body, path, name))
        expect([name, answer.status]).toEqual([name, 400])
        const place = path.length === 0 ? '' : ` in ${path.join('.')}`
        expect(messageOf(answer)).toMatch(
          new RegExp(`^Unknown member "${name}"${place}; (known members: |did you mean ")`),
        )
        expect(changed).toEqual({ gone: [], come: [] })
      }
    },
  )

  test.each([
    [
      'POST /api/admin/api-keys',
      { name: 'k', daylyLimit: 5 },
      'Unknown member "daylyLimit"; did you mean "dailyLimit"?',
    ],
    [
      'POST /api/admin/api-keys',
      { name: 'k', rateLimit: { requestPerMinute: 5 } },
      'Unknown member "requestPerMinute" in rateLimit; did you mean "requestsPerMinute"?',
    ],
    [
      'PUT /api/admin/api-keys/{keyId}',
      { usageByModel: { dollarsLimit: 5 } },
      'Unknown member "dollarsLimit" in usageByModel; did you mean "dollarLimit"?',
    ],
    [
      'PUT /api/admin/api-keys/{keyId}',
      { failoverDefaults: { models: ['test/any'], timeoutMs: 5000 } },
      'Unknown member "timeoutMs" in failoverDefaults; did you mean "timeout_ms"?',
    ],
    // The misspelt field is reported before the missing one.
    [
      'POST /api/external/users',
      { nmae: 'Ada', email: 'ada@example.com' },
      'Unknown member "nmae"; did you mean "name"?',
    ],
    ['PUT /api/external/users/{userId}', { licence: 'Ultra' }, 'Unknown member "licence"; did you mean "license"?'],
    [
      'POST /api/external/roles',
      { name: 'r', displayname: 'R', description: '' },
      'Unknown member "displayname"; did you mean "displayName"?',
    ],
    [
      'PUT /api/external/roles/{roleId}',
      { permissions: [{ section: 'home', level: 'reader', levle: 'admin' }] },
      'Unknown member "levle" in permissions.0; did you mean "level"?',
    ],
    [
      'POST /api/external/groups',
      { name: 'g', descripton: '' },
      'Unknown member "descripton"; did you mean "description"?',
    ],
    [
      'PUT /api/external/groups/{groupId}',
      { zz: [] },
      'Unknown member "zz"; known members: name, description, users, status, id, userCount, createdAt, updatedAt.',
    ],
  ])('%s %j: %s', async (endpoint, body, message) => {
    const { answer, changed } = await send(endpoint, body)
    expect([answer.status, messageOf(answer)]).toEqual([400, message])
    expect(changed).toEqual({ gone: [], come: [] })
  })

  describe.each(NAMES)('%s', (name) => {
    const { path, id, itemKey } = RESOURCES[name]
    const show = async () => {
      const { app, call } = shared.current
      const target = await ROUTE_CALLS[`PUT ${path}/{${id}}`]?.target?.(app.db, world)
      const { body } = await call('GET', `${path}/${target}`)
      // Groups return `users` as objects, but accept ids.
      const { users: _, ...item } = body[itemKey]
      return item
    }

    test('a GET response can be edited and sent back', async () => {
      const { call } = shared.current
      const shown = await show()
      const edited = name === 'role' ? { displayName: freshName(world) } : { name: freshName(world) }
      const updated = await call('PUT', `${path}/${shown.id}`, { ...shown, ...edited })
      expect([updated.status, updated.body[itemKey]]).toEqual([
        200,
        expect.objectContaining({ ...shown, ...edited, updatedAt: expect.any(String) }),
      ])
    })

    test('a read-only member with another value is rejected, and nothing changes', async () => {
      const { app, call } = shared.current
      const shown = await show()
      const others: Record<string, unknown> = {
        id: world.roleId,
        createdAt: '2001-01-01T00:00:00.000Z',
        ...(name === 'key' && {
          userId: world.userId,
          user: { ...shown.user, id: world.userId },
          status: 'revoked',
          isOperator: true,
          revokedAt: '2001-01-01T00:00:00.000Z',
        }),
        ...(name === 'user' && { authType: 'enterprise', mfaEnabled: true, customRole: { id: world.roleId } }),
        ...(name === 'role' && { name: 'other', isSystem: true, createdBy: { id: world.userId } }),
      }
      const before = await dumpStore(app.db)
      for (const [member, value] of Object.entries(others)) {
        const { status, body } = await call('PUT', `${path}/${shown.id}`, { ...shown, [member]: value })
        expect([status, body.error.message]).toEqual([
          400,
          `${member} is read-only. Omit it, or send the value that GET returns.`,
        ])
        expect(body.error.details.field).toBe(member)
      }
      expect(difference(before, await dumpStore(app.db))).toEqual({ gone: [], come: [] })
    })
  })

  test('enforceSMLTPPolicies, a member of the contract, accepts only its constant value', async () => {
    const { call } = shared.current
    const path = '/api/admin/api-keys'
    const made = await call('POST', path, { name: 'k', enforceSMLTPPolicies: true })
    expect(made.status).toBe(201)
    for (const request of [
      () => call('POST', path, { name: 'k', enforceSMLTPPolicies: false }),
      () => call('PUT', `${path}/${made.body.apiKey.id}`, { enforceSMLTPPolicies: false }),
    ]) {
      const { status, body } = await request()
      expect([status, body.error.details.field]).toEqual([400, 'enforceSMLTPPolicies'])
    }
  })
})

/** Paths of all objects in a JSON value, including the value itself. */
function objectsIn(value: unknown, path: Path = []): Path[] {
  if (typeof value !== 'object' || value === null) return []
  const children = Array.isArray(value)
    ? value.flatMap((child, at) => objectsIn(child, [...path, at]))
    : Object.entries(value).flatMap(([name, child]) => objectsIn(child, [...path, name]))
  return Array.isArray(value) ? children : [path, ...children]
}

/** The JSON of the value with an additional field in the object at `path`. */
function withMember(value: unknown, path: Path, name: string): string {
  const copy = structuredClone(value)
  const target = path.reduce<unknown>((inner, step) => Reflect.get(inner as object, step), copy) as object
  Object.defineProperty(target, name, { value: 'x', enumerable: true })
  return JSON.stringify(copy)
}
