import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { describeEachEngine } from '../../engines.ts'
import { sharedGateway } from '../../harness.ts'
import { createCalendar } from './calendar.ts'
import { ROUTE_CALLS } from './route-calls.ts'
import { difference, dumpStore } from './store-dump.ts'
import { addTarget, addWorld, freshName, nothing, type World } from './world.ts'

const RESOURCES = {
  key: { path: '/api/admin/api-keys', id: 'keyId', itemKey: 'apiKey' },
  user: { path: '/api/external/users', id: 'userId', itemKey: 'user' },
  role: { path: '/api/external/roles', id: 'roleId', itemKey: 'role' },
  group: { path: '/api/external/groups', id: 'groupId', itemKey: 'group' },
} as const
type Resource = keyof typeof RESOURCES
const NAMES = Object.keys(RESOURCES) as Resource[]
/** The interfaces of other APIs, whose clients send members that the gateway does not know. */
const isOfOtherApi = (endpoint: string) => endpoint.includes('/v1/') || endpoint.includes('/v1beta/')
/** A chat request may have members of other interfaces. The answer reports them. */
const CHAT = ['POST /api/external/chat/completions', 'POST /api/external/policy-check']
const WITH_BODY = Object.keys(ROUTE_CALLS).filter((endpoint) => ROUTE_CALLS[endpoint]?.bodies !== undefined)
const REQUESTS = WITH_BODY.filter((endpoint) => !isOfOtherApi(endpoint) && !CHAT.includes(endpoint))
/** Messages of a chat are scanned as clients have them. */
const isOpen = (endpoint: string, path: Path) => endpoint.endsWith('/scan-conversation') && path[0] === 'messages'

type Path = readonly (string | number)[]

describeEachEngine('members that a resource does not have', (engine) => {
  const calendar = createCalendar()
  const shared = sharedGateway({ engine, clock: calendar })
  let world: World

  beforeAll(async () => {
    const { db } = shared.current.app
    const { tenant_id } = await db.selectFrom('api_keys').select('tenant_id').executeTakeFirstOrThrow()
    world = await addWorld(db, 'ownland', tenant_id)
  })

  // Limits of a minute do not apply across tests.
  beforeEach(() => calendar.forward(60_000))

  const targetOf = async (endpoint: string) =>
    (await ROUTE_CALLS[endpoint]?.target?.(shared.current.app.db, world)) ?? ''

  function sendTo(endpoint: string, target: string, body: unknown) {
    const [method = '', pattern = ''] = endpoint.split(' ')
    return shared.current.call(method, pattern.replace(/\{.*\}/, target), body)
  }

  async function send(endpoint: string, body: unknown) {
    const { app } = shared.current
    const target = await targetOf(endpoint)
    const before = await dumpStore(app.db)
    const answer = await sendTo(endpoint, target, body)
    return { answer, changed: difference(before, await dumpStore(app.db)) }
  }
  /** The message of an error, in either error format. */
  const messageOf = ({ body }: { body: { message?: string; error: { message?: string } } }) =>
    body.message ?? body.error.message

  const withBodies = REQUESTS.flatMap((endpoint) =>
    (ROUTE_CALLS[endpoint]?.bodies?.(nothing(), '') ?? []).flatMap((body, at) =>
      objectsIn(body)
        .filter((path) => !isOpen(endpoint, path))
        .map((path) => ({ endpoint, at, path, where: path.join('.') || 'the body' })),
    ),
  )

  test.each(withBodies)(
    '$endpoint, body $at: an unknown member in $where is rejected, and nothing changes',
    async (one) => {
      const { endpoint, at, path } = one
      const body = ROUTE_CALLS[endpoint]?.bodies?.(world, freshName(world))[at] ?? {}
      const place = path.length === 0 ? '' : ` in ${path.join('.')}`
      const { db } = shared.current.app
      const target = await targetOf(endpoint)
      const before = await dumpStore(db)
      for (const name of ['zzUnknown', '__proto__', 'constructor', 'tenantId', 'is_operator']) {
        const answer = await sendTo(endpoint, target, withMember(body, path, name))
        expect([name, answer.status]).toEqual([name, 400])
        expect(messageOf(answer)).toMatch(
          new RegExp(`^(from: |to: )?Unknown member "${name}"${place}; (known members: |did you mean ")`),
        )
      }
      expect(difference(before, await dumpStore(db))).toEqual({ gone: [], come: [] })
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
    // The four that left a key unrestricted.
    [
      'POST /api/admin/api-keys',
      { name: 'k', allowedIps: ['10.0.0.1'] },
      'Unknown member "allowedIps"; did you mean "allowedIPs"?',
    ],
    [
      'POST /api/admin/api-keys',
      { name: 'k', allowed_models: ['a/b'] },
      'Unknown member "allowed_models"; did you mean "allowedModels"?',
    ],
    [
      'POST /api/admin/api-keys',
      { name: 'k', adminaccess: false },
      'Unknown member "adminaccess"; did you mean "adminAccess"?',
    ],
    ['PUT /api/admin/api-keys/{keyId}', { expires_at: null }, 'Unknown member "expires_at"; did you mean "expiresAt"?'],
    [
      'POST /api/admin/tenants',
      { name: 't', admin: { name: 'A', email: 'a@example.com', usrname: 'a' } },
      'Unknown member "usrname" in admin; did you mean "username"?',
    ],
    [
      'POST /api/admin/webhooks',
      { url: 'https://example.com', event: ['*'] },
      'Unknown member "event"; did you mean "events"?',
    ],
    [
      'POST /api/external/indexes',
      { name: 'abc', assigned_user: null },
      'Unknown member "assigned_user"; did you mean "assignedUser"?',
    ],
    [
      'PUT /api/external/smltp-policies/{policyId}',
      { policy: { pii: { enable: true } } },
      'Unknown member "enable" in policy.pii; did you mean "enabled"?',
    ],
    [
      'PUT /api/admin/prompt-shield-policies/{policyId}',
      { policy: { thresholds: { log: 1, flag: 2, blocks: 3 } } },
      'Unknown member "blocks" in policy.thresholds; did you mean "block"?',
    ],
    [
      'POST /api/admin/guard-rules/simulate',
      { samples: ['a'], rules: {} },
      'Unknown member "rules"; did you mean "rule"?',
    ],
    [
      'POST /api/external/prompt-shield/scan',
      { prompt: 'a', options: { sensitivtyLevel: 'strict' } },
      'Unknown member "sensitivtyLevel" in options; did you mean "sensitivityLevel"?',
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

  test.each([
    ['/api/admin/tenants', 'tenant', 'tenant', { name: 'renamed-tenant' }],
    ['/api/admin/webhooks', 'webhook', 'webhook', { description: 'edited' }],
    ['/api/admin/guard-rules', 'guardRule', 'rule', { description: 'edited' }],
    ['/api/admin/prompt-shield-policies', 'shieldPolicy', 'policy', { description: 'edited' }],
    ['/api/external/smltp-policies', 'policy', 'policy', { description: 'edited' }],
  ] as const)(
    'a GET response of %s can be edited and sent back; read-only members must be unchanged',
    async (...one) => {
      const [path, kind, itemKey, edited] = one
      const { app, call } = shared.current
      const target = `${path}/${await addTarget[kind](app.db, world)}`
      const shown = (await call('GET', target)).body[itemKey]
      const updated = await call('PUT', target, { ...shown, ...edited })
      expect(updated.status, updated.text).toBe(200)
      expect(updated.body[itemKey]).toMatchObject(edited)
      const refused = await call('PUT', target, { ...shown, createdAt: '2001-01-01T00:00:00.000Z' })
      expect([refused.status, messageOf(refused)]).toEqual([
        400,
        'createdAt is read-only. Omit it, or send the value that GET returns.',
      ])
    },
  )

  test('a GET response of an index can be sent back with ids instead of the assigned user and group', async () => {
    const { app, call } = shared.current
    const target = `/api/external/indexes/${await addTarget.indexById(app.db, world)}`
    const { assignedUser: _, assignedGroup: __, ...shown } = (await call('GET', target)).body.index
    const updated = await call('PUT', target, { ...shown, description: 'edited', assignedUser: world.userId })
    expect(updated.status, updated.text).toBe(200)
    expect(updated.body.index).toMatchObject({ description: 'edited', type: 'personal' })
  })

  test('a misspelt member of a chat request is rejected; members of other interfaces are reported', async () => {
    const { call } = shared.current
    const chat = { prompt: 'Hello', model: 'local/extract', index: 'Zero-Knowledge' }
    const path = '/api/external/chat/completions'
    for (const [name, meant] of [
      ['smltp_polcy', 'smltp_policy'],
      ['promptShield', 'prompt_shield'],
      ['max_token', 'max_tokens'],
      ['userid', 'user_id'],
      // Names under which the members are known elsewhere.
      ['policy', 'smltp_policy'],
      ['policyId', 'smltp_policy'],
      ['smltp', 'smltp_policy'],
      ['smltp-policy-id', 'smltp_policy'],
      ['shield', 'prompt_shield'],
      ['Shield_Policy', 'prompt_shield'],
    ]) {
      const { status, body } = await call('POST', path, { ...chat, [name as string]: 'x' })
      expect([status, body.error, body.message]).toEqual([
        400,
        `Invalid ${name}`,
        `Unknown member "${name}"; did you mean "${meant}"?`,
      ])
      const checked = await call('POST', '/api/external/policy-check', { ...chat, [name as string]: 'x' })
      expect([checked.status, checked.body.checks.input.status]).toEqual([200, 400])
    }
    // The misspelt member comes last.
    const many = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`zz_${at}_zzzzzz`, at]))
    const hidden = await call('POST', path, { ...chat, ...many(200), smltp_polcy: 'x' })
    expect([hidden.status, hidden.body.error]).toEqual([400, 'Invalid smltp_polcy'])
    const reported = await call('POST', path, { ...chat, ...many(200) })
    expect([reported.status, reported.body.metadata.dropped.length]).toEqual([200, 50])
    const flood = await call('POST', path, { ...chat, ...many(1_001) })
    expect([flood.status, flood.body.message]).toEqual([400, expect.stringContaining('more than 1000 unknown members')])
    for (const [member, message] of [
      [{ prompt_shield: { enable: true } }, 'Unknown member "enable" in prompt_shield; did you mean "enabled"?'],
      [{ redundancy: { timeout: 1000 } }, /^Unknown member "timeout" in redundancy; /],
      [{ models: [{ model: 'local/extract', timeoutMs: 1000 }] }, /Unknown member "timeoutMs"/],
    ] as const) {
      const { status, body } = await call('POST', path, { ...chat, ...member })
      expect([status, body.message]).toEqual([
        400,
        typeof message === 'string' ? message : expect.stringMatching(message),
      ])
    }
    const foreign = { top_p: 1, n: 1, stop: null, user: 'u', tools: [], stream_options: {}, seed: 1 }
    const { status, body } = await call('POST', path, { ...chat, ...foreign })
    expect([status, body.metadata.dropped.map(({ field }: { field: string }) => field)]).toEqual([
      200,
      Object.keys(foreign),
    ])
  })

  test('the schema of every body, apart from other interfaces and chat, is closed at every depth', async () => {
    const document = (await shared.current.call('GET', '/openapi.json')).body
    const open: string[] = []
    for (const [path, methods] of Object.entries<Record<string, Operation>>(document.paths)) {
      for (const [method, { requestBody }] of Object.entries(methods)) {
        const endpoint = `${method.toUpperCase()} ${path}`
        const schema = requestBody?.content['application/json']?.schema
        if (schema === undefined || isOfOtherApi(path) || CHAT.includes(endpoint)) continue
        open.push(...openObjects(document, schema).map((where) => `${endpoint} ${where}`))
      }
    }
    expect(open).toEqual([
      'POST /api/external/prompt-shield/scan-conversation .messages[]',
      // Any data of an event.
      'POST /api/admin/webhooks/trigger .data',
    ])
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

type Operation = { requestBody?: { content: Record<string, { schema?: Schema }> } }
type Schema = {
  $ref?: string
  properties?: Record<string, Schema>
  additionalProperties?: unknown
  items?: Schema
} & { [Union in 'anyOf' | 'oneOf' | 'allOf']?: Schema[] }

/** Paths of the objects in a schema that allow members of any name. */
function openObjects(document: object, { $ref, ...schema }: Schema, at = ''): string[] {
  if ($ref !== undefined) {
    const target = $ref.split('/').slice(1)
    return openObjects(
      document,
      target.reduce<unknown>((inner, step) => Reflect.get(inner as object, step), document) as Schema,
      at,
    )
  }
  const { properties, additionalProperties, items, anyOf = [], oneOf = [], allOf = [] } = schema
  const isOpenObject = properties !== undefined && additionalProperties !== false
  return [
    ...(isOpenObject ? [at] : []),
    ...Object.entries(properties ?? {}).flatMap(([name, inner]) => openObjects(document, inner, `${at}.${name}`)),
    ...(items ? openObjects(document, items, `${at}[]`) : []),
    ...[...anyOf, ...oneOf, ...allOf].flatMap((inner) => openObjects(document, inner, at)),
  ]
}

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
