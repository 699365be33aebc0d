import { describe, expect, test } from 'vitest'
import { addUser } from '../../../accounts.ts'
import { describeEachEngine } from '../../../engines.ts'
import { sharedGateway } from '../../../harness.ts'
import { recordedChanges } from '../../../recorded-changes.ts'

const BASE = '/api/admin/tenants'
const UNKNOWN = 'f'.repeat(24)
let count = 0
const newName = () => `Tenant ${process.pid} ${count++}`
const admin = { name: 'Ada', email: ' Ada@Example.com ' }

describeEachEngine('tenants', (engine) => {
  const shared = sharedGateway({ engine })
  const call = (method: string, path = '', body?: unknown, key?: string) =>
    shared.current.call(method, `${BASE}${path}`, body, key === undefined ? {} : { key })
  async function create(body: Record<string, unknown> = {}) {
    const answer = await call('POST', '', { name: newName(), admin, ...body })
    expect(answer.status, answer.text).toBe(201)
    return answer.body
  }
  const auditOf = async (tenantId: string) =>
    (await recordedChanges(shared.current.app.db, tenantId)).filter(({ type }) => type === 'tenant_management')
  const operatorTenant = async () => (await shared.current.call('GET', '/api/external/whoami')).body.tenant.id

  test('a tenant is created with its administrator, whose key works at once without a daily limit', async () => {
    const name = newName()
    const answer = await call('POST', '', { name: ` ${name} `, admin })
    expect([answer.status, answer.headers['cache-control']]).toEqual([201, 'no-store'])
    const { tenant, admin: user, apiKey, secret } = answer.body
    expect(tenant).toEqual({
      id: expect.stringMatching(/^[0-9a-f]{24}$/),
      name,
      status: 'Active',
      userCount: 1,
      createdAt: expect.any(String),
      updatedAt: tenant.createdAt,
    })
    expect(user).toMatchObject({ name: 'Ada', email: 'ada@example.com', username: 'ada', role: 'admin', status: 1 })
    expect(apiKey).toMatchObject({
      userId: user.id,
      user: { id: user.id, name: 'Ada', email: 'ada@example.com' },
      status: 'active',
      isOperator: false,
      adminAccess: true,
      dailyLimit: null,
      monthlyLimit: null,
      rateLimit: { requestsPerMinute: 60, requestsPerHour: 1000 },
    })
    expect(secret).toMatch(/^sk-[0-9a-f]{64}$/)
    expect((await call('GET', `/${tenant.id.toUpperCase()}`)).body).toEqual({ success: true, tenant })

    const asAdmin = (method: string, path: string, body?: unknown) =>
      shared.current.call(method, path, body, { key: secret })
    const { body: me } = await asAdmin('GET', '/api/external/whoami')
    expect(me).toMatchObject({ user: { id: user.id }, tenant: { id: tenant.id, name }, api_key: { id: apiKey.id } })
    expect((await asAdmin('GET', '/api/external/users')).body.users).toHaveLength(1)
    const roles = (await asAdmin('GET', '/api/external/roles')).body.roles.map((role: { name: string }) => role.name)
    expect(roles.sort()).toEqual(['admin', 'globalReader', 'user'])
    expect((await asAdmin('POST', '/api/external/users', { name: 'Bea', email: 'bea@example.com' })).status).toBe(201)
    expect((await call('GET', `/${tenant.id}`)).body.tenant.userCount).toBe(2)
    expect((await call('GET', '', undefined, secret)).status).toBe(403)
  })

  test('each invalid field is rejected, and nothing is created', async () => {
    const before = (await call('GET')).body.pagination.total
    const good = { name: newName(), admin }
    for (const [body, field] of [
      [{ admin }, 'name'],
      [{ name: ' ', admin }, 'name'],
      [{ name: 'x'.repeat(101), admin }, 'name'],
      [{ name: good.name }, 'admin'],
      [{ ...good, admin: { name: 'Ada' } }, 'admin.email'],
      [{ ...good, admin: { ...admin, email: 'ada' } }, 'admin.email'],
      [{ ...good, admin: { ...admin, username: 'A B' } }, 'admin.username'],
    ] as const) {
      const answer = await call('POST', '', body)
      expect([answer.status, answer.body.error.code, answer.body.error.details?.field]).toEqual([
        400,
        'VALIDATION_ERROR',
        field,
      ])
    }
    expect((await call('GET')).body.pagination.total).toBe(before)
  })

  test('of 50 tenants with one name one is created, and the others leave no rows', async () => {
    const name = newName()
    const users = () => shared.current.app.db.selectFrom('users').select('id').execute()
    const before = (await users()).length
    const answers = await Promise.all(Array.from({ length: 50 }, () => call('POST', '', { name, admin })))
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1)
    for (const { status, body } of answers.filter((answer) => answer.status !== 201)) {
      expect([status, body.error.code, body.error.details]).toEqual([
        409,
        'TENANT_NAME_EXISTS',
        { field: 'name', value: name },
      ])
    }
    expect(await users()).toHaveLength(before + 1)
  })

  test('a tenant is renamed, unless another has the name', async () => {
    const [one, two] = [(await create()).tenant, (await create()).tenant]
    const name = newName()
    const { body } = await call('PUT', `/${one.id}`, { name })
    expect(body).toEqual({
      success: true,
      message: expect.any(String),
      tenant: { ...one, name, updatedAt: expect.any(String) },
    })
    const refused = await call('PUT', `/${two.id}`, { name })
    expect([refused.status, refused.body.error.code]).toEqual([409, 'TENANT_NAME_EXISTS'])
    expect((await call('GET', `/${two.id}`)).body.tenant).toEqual(two)
  })

  test('all keys of a disabled tenant are rejected, from the next request on until it is enabled', async () => {
    const { tenant, secret } = await create()
    const whoami = async () =>
      (await shared.current.call('GET', '/api/external/whoami', undefined, { key: secret })).status
    expect(await whoami()).toBe(200)
    expect((await call('PUT', `/${tenant.id}`, { status: 'Disabled' })).body.tenant.status).toBe('Disabled')
    expect(await whoami()).toBe(401)
    expect((await call('PUT', `/${tenant.id}`, { status: 'Active' })).body.tenant.status).toBe('Active')
    expect(await whoami()).toBe(200)
  })

  describe('a tenant without an administrator key', () => {
    const adminKey = (tenantId: string, body: unknown = {}) => call('POST', `/${tenantId}/admin-key`, body)
    const usersWith = (secret: string) => shared.current.call('GET', '/api/external/users', undefined, { key: secret })

    test('gets a new one for its oldest administrator, with all their rights and no daily or monthly limit', async () => {
      const { db } = shared.current.app
      const { tenant, admin: first, apiKey: lost } = await create()
      await addUser(db, { tenant_id: tenant.id, role: 'admin', created_at: '2999-01-01T00:00:00.000Z' })
      await addUser(db, { tenant_id: tenant.id, role: 'user', created_at: '2000-01-01T00:00:00.000Z' })
      await addUser(db, { tenant_id: tenant.id, role: 'admin', status: 0, created_at: '2000-01-01T00:00:00.000Z' })
      await db.updateTable('api_keys').set({ revoked_at: tenant.createdAt }).where('id', '=', lost.id).execute()

      const answer = await adminKey(tenant.id.toUpperCase())
      expect([answer.status, answer.headers['cache-control']], answer.text).toEqual([201, 'no-store'])
      const { apiKey, secret, ...rest } = answer.body
      expect(rest).toEqual({ success: true, message: expect.any(String) })
      expect(apiKey).toEqual({ ...lost, id: apiKey.id, createdAt: apiKey.createdAt, updatedAt: apiKey.updatedAt })
      expect(apiKey).toMatchObject({ userId: first.id, adminAccess: true, dailyLimit: null, monthlyLimit: null })
      expect(apiKey.id).not.toBe(lost.id)
      expect((await usersWith(secret)).body.users).toHaveLength(4)
    })

    test('gets one for the administrator in the request, who must be an active one of this tenant', async () => {
      const { db } = shared.current.app
      const { tenant } = await create()
      const inTenant = { tenant_id: tenant.id }
      const second = await addUser(db, { ...inTenant, role: 'admin' })
      const answer = await adminKey(tenant.id, { userId: second.id.toUpperCase() })
      expect([answer.status, answer.body.apiKey.userId]).toEqual([201, second.id])
      const others = [
        await addUser(db, { ...inTenant, role: 'globalReader' }),
        await addUser(db, { ...inTenant, role: 'admin', status: 0 }),
        { id: (await create()).admin.id },
        { id: UNKNOWN },
      ]
      for (const userId of [...others.map(({ id }) => id), 'ada']) {
        const refused = await adminKey(tenant.id, { userId })
        expect([refused.status, refused.body.error.details?.field]).toEqual([400, 'userId'])
      }
    })

    test('gets none without an active administrator', async () => {
      const { db } = shared.current.app
      const { tenant, admin: only } = await create()
      await db.updateTable('users').set({ status: 0 }).where('id', '=', only.id).execute()
      const refused = await adminKey(tenant.id)
      expect([refused.status, refused.body.error.code]).toEqual([409, 'NO_ADMINISTRATOR'])
      expect(await db.selectFrom('api_keys').select('id').where('tenant_id', '=', tenant.id).execute()).toHaveLength(1)
    })

    test('has an audit entry for it, as the operator has', async () => {
      const { tenant, admin: user } = await create()
      const { apiKey } = (await adminKey(tenant.id)).body
      const own = (await auditOf(tenant.id)).at(-1)
      expect([own?.operation, own?.severity]).toEqual(['create_admin_key', 'warning'])
      expect(own?.metadata).toEqual({ administrator: user.id, apiKey: apiKey.id })
      const operator = (await auditOf(await operatorTenant())).filter(({ resource_id }) => resource_id === tenant.id)
      expect(operator.at(-1)?.description).toBe(own?.description)
    })
  })

  test('the tenant of the operator key cannot be disabled', async () => {
    const id = await operatorTenant()
    for (const path of [id, id.toUpperCase()]) {
      const refused = await call('PUT', `/${path}`, { status: 'Disabled', name: newName() })
      expect([refused.status, refused.body.error.code]).toEqual([403, 'INSUFFICIENT_PERMISSIONS'])
    }
    expect((await call('GET', `/${id}`)).body.tenant).toMatchObject({ status: 'Active', name: 'default' })
  })

  test("the operator's changes are recorded in both tenants", async () => {
    const { tenant, admin: user, apiKey } = await create()
    await call('PUT', `/${tenant.id}`, { status: 'Disabled' })
    await call('PUT', `/${tenant.id}`, { status: 'Active' })
    await call('PUT', `/${tenant.id}`, { name: 'default' })
    const own = await auditOf(tenant.id)
    expect(own.map(({ operation, severity, metadata }) => [operation, severity, metadata])).toEqual([
      ['create', 'info', { administrator: user.id, apiKey: apiKey.id }],
      ['update', 'warning', { changes: { status: 'Disabled' } }],
      ['update', 'info', { changes: { status: 'Active' } }],
    ])
    const operator = (await auditOf(await operatorTenant())).filter(({ resource_id }) => resource_id === tenant.id)
    expect(operator.map(({ description }) => description)).toEqual(own.map(({ description }) => description))
  })

  test('the list is filtered, searched, sorted and paged', async () => {
    const mark = `Mark_${count++}%`
    const names = [`${mark} b`, `${mark} A`, `${mark} c`]
    for (const name of names) await create({ name })
    const list = async (query: Record<string, string>) => {
      const { status, body, text } = await call(
        'GET',
        `?${new URLSearchParams({ search: mark.toUpperCase(), ...query })}`,
      )
      expect(status, text).toBe(200)
      return body
    }
    const namesOf = async (query: Record<string, string>) =>
      (await list(query)).tenants.map(({ name }: { name: string }) => name)
    expect(await namesOf({ sortBy: 'name', sortOrder: 'asc' })).toEqual([names[1], names[0], names[2]])
    expect(await namesOf({ sortOrder: 'asc' })).toEqual(names)
    expect(await namesOf({ status: 'Disabled' })).toEqual([])
    for (const search of [mark.replace('_', 'x'), "' or 1=1 --", 'mark_%%'])
      expect(await namesOf({ search })).toEqual([])
    const page = await list({ limit: '2', page: '2', sortOrder: 'asc' })
    expect(page.tenants).toMatchObject([{ name: names[2], userCount: 1 }])
    expect(page.pagination).toEqual({ page: 2, limit: 2, total: 3, pages: 2 })
    for (const query of ['sortBy=status', 'status=Gone', 'sortOrder=up']) {
      expect((await call('GET', `?${query}`)).status).toBe(400)
    }
  })

  test('an unknown tenant is 404, also for malformed ids', async () => {
    for (const id of [UNKNOWN, 'default', "' or 1=1 --"]) {
      for (const [method, body] of [['GET'], ['PUT', { name: newName() }]] as const) {
        const answer = await call(method, `/${encodeURIComponent(id)}`, body)
        expect([answer.status, answer.body.error.code]).toEqual([404, 'TENANT_NOT_FOUND'])
      }
    }
  })
})
