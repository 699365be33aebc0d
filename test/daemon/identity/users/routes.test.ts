import { expect, test } from 'vitest'
import { LICENSES, ListUsersResponse } from '../../../../src/shared/wire/users.ts'
import { addKey, addRole } from '../../../accounts.ts'
import { describeEachEngine } from '../../../engines.ts'
import { sharedGateway } from '../../../harness.ts'
import { addTestTenant, type TestTenant } from '../../../tenant-admin.ts'

const BASE = '/api/external/users'
const UNKNOWN = 'f'.repeat(24)
const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

describeEachEngine('users', (engine) => {
  const shared = sharedGateway({ engine })
  const newTenant = () => addTestTenant(shared.current)

  async function create(tenant: TestTenant, body: Record<string, unknown>) {
    const answer = await tenant.call('POST', BASE, body)
    expect(answer.status, answer.text).toBe(201)
    return answer.body.user
  }
  async function list(tenant: TestTenant, query: Record<string, string> = {}) {
    const answer = await tenant.call('GET', `${BASE}?${new URLSearchParams(query)}`)
    expect(answer.status, answer.text).toBe(200)
    return ListUsersResponse.strict().parse(answer.body)
  }
  const namesOf = async (tenant: TestTenant, query: Record<string, string>) =>
    (await list(tenant, query)).users.map(({ name }) => name)
  const show = async (tenant: TestTenant, id: string) => (await tenant.call('GET', `${BASE}/${id}`)).body.user
  const labelOf = async (tenant: TestTenant, body: unknown) => {
    const answer = await tenant.call('POST', BASE, body)
    return [answer.status, answer.body.error]
  }
  const codeOf = async (tenant: TestTenant, id: string, body: unknown) => {
    const answer = await tenant.call('PUT', `${BASE}/${id}`, body)
    return [answer.status, answer.body.error?.code ?? answer.body.error, answer.body.error?.details?.field]
  }

  test('a user is created from a name and an email, and is visible at once', async () => {
    const tenant = await newTenant()
    const user = await create(tenant, { name: '  Ada ', email: ' Ada.Lovelace@Example.com ' })
    expect(user).toEqual({
      id: expect.stringMatching(/^[0-9a-f]{24}$/),
      name: 'Ada',
      username: 'ada.lovelace',
      email: 'ada.lovelace@example.com',
      role: 'user',
      license: 'Essential',
      usageByModel: { enabled: false, dollarLimit: null },
      status: 1,
      isVerified: false,
      setupCompleted: false,
      authType: 'basic',
      createdAt: expect.stringMatching(ISO),
    })
    const shown = await show(tenant, user.id.toUpperCase())
    expect(shown).toEqual({
      ...user,
      mfaEnabled: false,
      customRole: null,
      updatedAt: user.createdAt,
      lastActive: null,
    })
    expect((await list(tenant, { search: 'LOVELACE' })).users).toEqual([shown])
  })

  test('all other fields are optional; enterprise users count as verified', async () => {
    const tenant = await newTenant()
    const role = await addRole(tenant.db, { tenant_id: tenant.id, name: 'ops', display_name: 'Operations' })
    const user = await create(tenant, {
      name: 'Ada',
      email: 'ada@example.com',
      username: 'The.Countess',
      password: null,
      role: 'globalReader',
      license: 'Early Access',
      roleId: role.id.toUpperCase(),
      setupCompleted: true,
      authType: 'enterprise',
    })
    expect(await show(tenant, user.id)).toMatchObject({
      username: 'the.countess',
      role: 'globalReader',
      license: 'Early Access',
      isVerified: true,
      setupCompleted: true,
      authType: 'enterprise',
      customRole: { id: role.id, name: 'ops', displayName: 'Operations' },
    })
  })

  test('each invalid field is rejected with the error of the contract, and nothing is created', async () => {
    const tenant = await newTenant()
    const good = { name: 'Ada', email: 'ada@example.com' }
    const refused = async (change: object) => labelOf(tenant, { ...good, ...change })
    expect(await labelOf(tenant, { email: good.email })).toEqual([400, 'Missing required fields'])
    expect(await labelOf(tenant, { name: 'Ada', email: null })).toEqual([400, 'Missing required fields'])
    expect(await refused({ name: ' ' })).toEqual([400, 'Invalid name'])
    expect(await refused({ name: 'a\0b' })).toEqual([400, 'Invalid name'])
    for (const email of ['ada', 'ada@', '@example.com', 'a b@example.com', 7, `${'a'.repeat(250)}@b.org`])
      expect(await refused({ email })).toEqual([400, 'Invalid email'])
    for (const username of ['ab', 'a'.repeat(31), 'ada_l', 'ada l', 'ädä'])
      expect(await refused({ username })).toEqual([400, 'Invalid username'])
    expect(await refused({ license: 'Pro' })).toEqual([400, 'Invalid license'])
    expect(await refused({ authType: 'auth0' })).toEqual([400, 'Invalid authType'])
    expect(await refused({ role: 'owner' })).toEqual([400, 'Invalid role'])
    expect(await refused({ password: 'secret' })).toEqual([400, 'Invalid password'])
    expect(await refused({ roleId: 'ops' })).toEqual([400, 'Invalid roleId'])
    expect(await refused({ roleId: UNKNOWN })).toEqual([400, 'Invalid roleId'])
    const [system] = await tenant.db.selectFrom('roles').select('id').where('tenant_id', '=', tenant.id).execute()
    expect(await refused({ roleId: system?.id })).toEqual([400, 'Invalid roleId'])
    expect(await labelOf(tenant, [])).toEqual([400, 'Invalid request'])
    expect((await list(tenant)).users).toHaveLength(1)
    expect(await tenant.audit()).toEqual([])
  })

  test('email, username and name are each unique in the tenant; conflicts report the email first', async () => {
    const tenant = await newTenant()
    await create(tenant, { name: 'Ada', email: 'ada@example.com', username: 'ada' })
    const again = (body: object) => labelOf(tenant, { name: 'Bea', email: 'bea@example.com', username: 'bea', ...body })
    expect(await again({ name: 'Ada', email: 'ADA@example.com', username: 'ada' })).toEqual([
      409,
      'Email already exists',
    ])
    expect(await again({ email: 'ada@example.com' })).toEqual([409, 'Email already exists'])
    expect(await again({ username: 'ADA' })).toEqual([409, 'Username already exists'])
    expect(await again({ name: 'Ada' })).toEqual([409, 'Name already exists'])

    const bea = await create(tenant, { name: 'Bea', email: 'bea@example.com', username: 'bea' })
    expect(await codeOf(tenant, bea.id, { email: 'ada@example.com' })).toEqual([409, 'EMAIL_ALREADY_EXISTS', 'email'])
    expect(await codeOf(tenant, bea.id, { username: 'ada' })).toEqual([409, 'USERNAME_ALREADY_EXISTS', 'username'])
    expect(await codeOf(tenant, bea.id, { name: 'Ada' })).toEqual([409, 'NAME_ALREADY_EXISTS', 'name'])
    expect(await show(tenant, bea.id)).toMatchObject(bea)

    const other = await newTenant()
    await create(other, { name: 'Ada', email: 'ada@example.com', username: 'ada' })
  })

  test('an update changes only its fields', async () => {
    const tenant = await newTenant()
    const role = await addRole(tenant.db, { tenant_id: tenant.id, name: 'ops' })
    const user = await create(tenant, {
      name: 'Ada',
      email: 'ada@example.com',
      authType: 'enterprise',
      roleId: role.id,
    })
    const before = await show(tenant, user.id)

    const { body } = await tenant.call('PUT', `${BASE}/${user.id}`, { name: 'Countess', isVerified: false })
    expect(body).toEqual({ success: true, message: expect.any(String), user: expect.any(Object) })
    expect(body.user).toEqual({
      ...before,
      name: 'Countess',
      isVerified: false,
      updatedAt: expect.stringMatching(ISO),
    })
    expect(await show(tenant, user.id)).toEqual(body.user)
    expect(await namesOf(tenant, { search: 'countess' })).toEqual(['Countess'])
    expect(await namesOf(tenant, { search: 'Ada ' })).toEqual([])

    const all = {
      name: 'Bea',
      email: 'bea@example.com',
      username: 'bea',
      role: 'globalReader',
      license: 'Ultra',
      setupCompleted: true,
      roleId: null,
    }
    expect((await tenant.call('PUT', `${BASE}/${user.id}`, all)).status).toBe(200)
    const { roleId: _, ...changed } = all
    expect(await show(tenant, user.id)).toMatchObject({ ...changed, customRole: null, status: 1 })
    expect(await codeOf(tenant, user.id, { roleId: UNKNOWN })).toEqual([400, 'VALIDATION_ERROR', 'roleId'])
    expect(await codeOf(tenant, user.id, { status: 2 })).toEqual([400, 'VALIDATION_ERROR', 'status'])
    expect(await codeOf(tenant, user.id, { password: 'x' })).toEqual([400, 'VALIDATION_ERROR', 'password'])
    expect((await tenant.call('PUT', `${BASE}/${user.id}`, {})).status).toBe(200)
  })

  test('deleting a user deletes keys, role assignment and memberships; usage and audit entries remain', async () => {
    const tenant = await newTenant()
    const { db } = tenant
    const role = await addRole(db, { tenant_id: tenant.id })
    const user = await create(tenant, { name: 'Ada', email: 'ada@example.com', role: 'admin', roleId: role.id })
    const call = await tenant.callFor({ ...tenant.admin, id: user.id })
    const group = await call('POST', '/api/external/groups', { name: 'g', description: '', users: [user.id] })
    expect([group.status, group.body.group.userCount]).toEqual([201, 1])

    const answer = await tenant.call('DELETE', `${BASE}/${user.id}`)
    expect([answer.status, answer.body]).toEqual([200, { success: true, message: expect.any(String) }])
    expect((await tenant.call('GET', `${BASE}/${user.id}`)).status).toBe(404)
    expect((await call('GET', BASE)).status).toBe(401)
    const shown = await tenant.call('GET', `/api/external/groups/${group.body.group.id}`)
    expect(shown.body.group).toMatchObject({ userCount: 0, users: [] })
    for (const table of ['user_roles', 'group_members', 'api_keys'] as const) {
      expect(await db.selectFrom(table).selectAll().where('user_id', '=', user.id).execute()).toEqual([])
    }
    expect((await tenant.audit()).map(({ user_id, operation }) => [user_id, operation])).toContainEqual([
      user.id,
      'create',
    ])
    await create(tenant, { name: 'Ada', email: 'ada@example.com' })
  })

  test('the list is filtered, searched, sorted and paged', async () => {
    const tenant = await newTenant()
    for (const [at, name] of ['Cem', 'Ada', 'Dora', 'Bea'].entries()) {
      const created_at = `2026-02-0${at + 1}T00:00:00.000Z`
      const updated_at = `2026-03-0${9 - at}T00:00:00.000Z`
      await tenant.addUser({ name, email: `${4 - at}@example.com`, username: `${name}-x`, created_at, updated_at })
    }
    await tenant.addUser({
      name: '100%_\\',
      role: 'globalReader',
      license: 'Ultra',
      status: 0,
      email: 'odd@example.com',
    })
    const { admin } = tenant
    await tenant.call('PUT', `${BASE}/${admin.id}`, { name: 'Zoe', email: 'zoe@example.com', username: 'zoe' })

    expect(await namesOf(tenant, { search: '-X' })).toEqual(['Bea', 'Dora', 'Ada', 'Cem'])
    expect(await namesOf(tenant, { search: '-x', sortOrder: 'asc' })).toEqual(['Cem', 'Ada', 'Dora', 'Bea'])
    const sorted = (sortBy: string) => namesOf(tenant, { search: '-x', sortBy, sortOrder: 'asc' })
    expect(await sorted('name')).toEqual(['Ada', 'Bea', 'Cem', 'Dora'])
    expect(await sorted('username')).toEqual(['Ada', 'Bea', 'Cem', 'Dora'])
    expect(await sorted('email')).toEqual(['Bea', 'Dora', 'Ada', 'Cem'])
    expect(await sorted('updatedAt')).toEqual(['Bea', 'Dora', 'Ada', 'Cem'])
    expect(await namesOf(tenant, { role: 'globalReader' })).toEqual(['100%_\\'])
    expect(await namesOf(tenant, { role: 'admin' })).toEqual(['Zoe'])
    expect(await namesOf(tenant, { license: 'Ultra' })).toEqual(['100%_\\'])
    expect(await namesOf(tenant, { status: '0' })).toEqual(['100%_\\'])
    expect(await namesOf(tenant, { status: '1', role: 'user', sortBy: 'name' })).toEqual(['Dora', 'Cem', 'Bea', 'Ada'])
    for (const search of ['100%', '%_', '_\\', '\\', 'ODD@']) {
      expect(await namesOf(tenant, { search })).toEqual(['100%_\\'])
    }
    for (const search of ["' or 1=1 --", '1%_', 'ada\nada', '%%', '"; drop table users; --']) {
      expect(await namesOf(tenant, { search })).toEqual([])
    }

    const page = await list(tenant, { search: '-x', page: '2', limit: '3' })
    expect(page.users.map(({ name }) => name)).toEqual(['Cem'])
    expect(page.pagination).toEqual({ page: 2, limit: 3, total: 4, pages: 2 })
    expect((await list(tenant, { page: '99' })).users).toEqual([])
    expect((await list(tenant, { page: '-1', limit: '1000' })).pagination).toMatchObject({ page: 1, limit: 100 })
    for (const [query, label] of [
      ['sortBy=id;drop%20table%20users', 'Invalid sortBy'],
      ['sortBy=search_text', 'Invalid sortBy'],
      ['sortOrder=up', 'Invalid sortOrder'],
      ['status=2', 'Invalid status'],
      ['role=owner', 'Invalid role'],
      ['limit=ten', 'Invalid limit'],
      ['search=%00', 'Invalid search'],
      ['search=a&search=b', 'Invalid search'],
    ]) {
      const answer = await tenant.call('GET', `${BASE}?${query}`)
      expect([answer.status, answer.body.error]).toEqual([400, label])
    }
  })

  test('pages of users with equal times neither repeat nor omit any', async () => {
    const tenant = await newTenant()
    for (let count = 0; count < 7; count++) await tenant.addUser()
    for (const sortBy of ['createdAt', 'updatedAt']) {
      const ids = []
      for (const page of ['1', '2', '3', '4']) {
        ids.push(...(await list(tenant, { page, limit: '2', sortBy })).users.map(({ id }) => id))
      }
      expect(new Set(ids).size).toBe(8)
      expect(ids).toEqual([...ids].sort().reverse())
    }
  })

  test("lastActive is the last use of any of the user's keys", async () => {
    const tenant = await newTenant()
    const user = await tenant.addUser()
    const counter = { tenant_id: tenant.id, counter: 'day', window_start: '2026-01-01T00:00:00.000Z', used: 1 }
    for (const last_used_at of ['2026-01-03T10:00:00.000Z', '2026-01-02T10:00:00.000Z']) {
      const { row } = await addKey(tenant.db, user)
      await tenant.db
        .insertInto('rate_counters')
        .values({ ...counter, api_key_id: row.id, last_used_at })
        .execute()
    }
    expect((await show(tenant, user.id)).lastActive).toBe('2026-01-03T10:00:00.000Z')
    expect((await list(tenant, { search: user.email })).users[0]?.lastActive).toBe('2026-01-03T10:00:00.000Z')
  })

  test.each([UNKNOWN, 'abc', `${UNKNOWN}0`, "' or 1=1 --"])('404 USER_NOT_FOUND for the id %s', async (id) => {
    const tenant = await newTenant()
    for (const [method, body] of [['GET'], ['PUT', { name: 'Mine' }], ['DELETE']] as const) {
      const answer = await tenant.call(method, `${BASE}/${encodeURIComponent(id)}`, body)
      expect([answer.status, answer.body.error.code]).toEqual([404, 'USER_NOT_FOUND'])
    }
  })

  test('every change is recorded with its fields, and a rejected change is not', async () => {
    const tenant = await newTenant()
    const user = await create(tenant, { name: 'Ada', email: 'ada@example.com' })
    await tenant.call('PUT', `${BASE}/${user.id}`, { status: 0, role: 'globalReader', name: 'Ada' })
    await tenant.call('PUT', `${BASE}/${user.id}`, { email: tenant.admin.email })
    await tenant.call('POST', BASE, { name: 'Ada', email: 'other@example.com' })
    await tenant.call('DELETE', `${BASE}/${user.id}`)
    const entries = await tenant.audit()
    expect(entries.map(({ operation }) => operation)).toEqual(['create', 'update', 'delete'])
    for (const entry of entries) {
      expect(entry).toMatchObject({
        type: 'user_management',
        resource_type: 'user',
        resource_id: user.id,
        user_id: tenant.admin.id,
        result: 'success',
      })
    }
    expect(entries[1]?.endpoint).toBe(`PUT ${BASE}/{userId}`)
    expect(entries[1]?.metadata).toEqual({ changes: { status: 0, role: 'globalReader' } })
  })

  test('GET and POST of /users report errors in the flat shape, a single user in the structured one', async () => {
    const tenant = await newTenant()
    const call = await tenant.callFor(await tenant.addUser())
    const { body: flat } = await call('POST', BASE, { name: 'a', email: 'a@example.com' })
    expect(flat).toMatchObject({ success: false, error: 'Access denied' })
    const { body: structured } = await call('DELETE', `${BASE}/${tenant.admin.id}`)
    expect(structured).toMatchObject({ success: false, error: { code: 'INSUFFICIENT_PERMISSIONS' } })
  })

  test('GET /licenses/availability counts used licences; without pools there is no limit', async () => {
    const tenant = await newTenant()
    await tenant.addUser({ license: 'Ultra', status: 0 })
    const { status, body } = await tenant.call('GET', '/api/external/licenses/availability')
    expect(status).toBe(200)
    expect(body).toEqual({
      success: true,
      limits: { Essential: 0, Growth: 0, Ultra: 0, 'Early Access': 0 },
      usage: { Essential: 1, Growth: 0, Ultra: 1, 'Early Access': 0 },
      remaining: Object.fromEntries(LICENSES.map((license) => [license, null])),
    })
    const refused = await (await tenant.callFor(await tenant.addUser()))('GET', '/api/external/licenses/availability')
    expect([refused.status, refused.body.error]).toEqual([403, 'Access denied'])
  })

  test('deleting a user also deletes the counters of their keys', async () => {
    const tenant = await newTenant()
    const user = await tenant.addUser()
    const call = await tenant.callFor(user)
    await call('GET', '/api/external/whoami')
    const counted = async () => {
      const rows = await tenant.db
        .selectFrom('rate_counters as c')
        .innerJoin('api_keys as k', 'k.id', 'c.api_key_id')
        .select('k.user_id')
        .where('c.tenant_id', '=', tenant.id)
        .distinct()
        .execute()
      return rows.map((row) => row.user_id).sort()
    }
    expect(await counted()).toContain(user.id)
    const before = await tenant.db
      .selectFrom('rate_counters')
      .select('api_key_id')
      .where('tenant_id', '=', tenant.id)
      .execute()
    await tenant.call('DELETE', `${BASE}/${user.id}`)
    const left = await tenant.db
      .selectFrom('rate_counters')
      .select('api_key_id')
      .where('tenant_id', '=', tenant.id)
      .execute()
    const keys = new Set(left.map((row) => row.api_key_id))
    const ended = new Set(before.map((row) => row.api_key_id).filter((id) => !keys.has(id)))
    expect(ended.size).toBe(1)
    expect(await counted()).toEqual([tenant.admin.id])
  })
})
