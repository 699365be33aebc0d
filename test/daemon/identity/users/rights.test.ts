import { expect, test } from 'vitest'
import { createAuthenticator, KEY_CACHE_MS } from '../../../../src/daemon/identity/keys/authenticate.ts'
import { openDatabase } from '../../../../src/daemon/platform/db/database.ts'
import { addKey, addRole, addUser } from '../../../accounts.ts'
import { describeEachEngine } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { sharedGateway } from '../../../harness.ts'
import { addTestTenant, type Call, type TestTenant } from '../../../tenant-admin.ts'

const BASE = '/api/external/users'
const USER_ADMIN = [{ section: 'user-management', level: 'admin' }]

describeEachEngine('the rights of users', (engine) => {
  const shared = sharedGateway({ engine })
  const newTenant = () => addTestTenant(shared.current)
  const codeOf = async (call: Call, method: string, id: string, body?: unknown) => {
    const answer = await call(method, `${BASE}/${id}`, body)
    return [answer.status, answer.body.error?.code]
  }
  const DENIED = [403, 'INSUFFICIENT_PERMISSIONS']
  const roleOf = async (tenant: TestTenant, id: string) => {
    const { role, customRole } = (await tenant.call('GET', `${BASE}/${id}`)).body.user
    return [role, customRole?.id]
  }

  test('a custom administrator of users creates and changes users within their own rights', async () => {
    const tenant = await newTenant()
    const call = await tenant.callAs({ permissions: USER_ADMIN })
    const within = await addRole(tenant.db, { tenant_id: tenant.id, permissions: USER_ADMIN })
    const created = await call('POST', BASE, { name: 'a', email: 'a@example.com', roleId: within.id })
    expect(created.status, created.text).toBe(201)
    const { id } = created.body.user
    expect((await call('PUT', `${BASE}/${id}`, { roleId: null, license: 'Ultra' })).status).toBe(200)
    expect((await call('PUT', `${BASE}/${id}`, { status: 0 })).status).toBe(200)
    expect((await call('DELETE', `${BASE}/${id}`)).status).toBe(200)
  })

  test('callers cannot assign a role that exceeds their own rights, neither to new users, other users nor themselves', async () => {
    const tenant = await newTenant()
    const call = await tenant.callAs({ permissions: USER_ADMIN })
    const me = (await call('GET', '/api/external/whoami')).body.user.id
    const more = await addRole(tenant.db, {
      tenant_id: tenant.id,
      permissions: [...USER_ADMIN, { section: 'integrations', level: 'reader' }],
    })
    const victim = await tenant.addUser()
    for (const grant of [{ role: 'admin' }, { role: 'globalReader' }, { roleId: more.id }]) {
      const refused = await call('POST', BASE, { name: 'b', email: 'b@example.com', ...grant })
      expect([refused.status, refused.body.error]).toEqual([403, 'Access denied'])
      for (const id of [victim.id, me]) {
        const before = await roleOf(tenant, id)
        expect(await codeOf(call, 'PUT', id, grant)).toEqual(DENIED)
        expect(await roleOf(tenant, id)).toEqual(before)
      }
    }
    expect((await tenant.audit()).map(({ operation }) => operation)).toEqual([])
  })

  test('callers without chat cannot grant chat', async () => {
    const tenant = await newTenant()
    const call = await tenant.callAs({ permissions: USER_ADMIN, can_use_chat: 0, can_interact_with_ai: 0 })
    const silent = await addRole(tenant.db, { tenant_id: tenant.id, can_use_chat: 0, can_interact_with_ai: 0 })
    expect((await call('POST', BASE, { name: 'a', email: 'a@example.com' })).status).toBe(403)
    const created = await call('POST', BASE, { name: 'a', email: 'a@example.com', roleId: silent.id })
    expect(created.status).toBe(201)
    expect(await codeOf(call, 'PUT', created.body.user.id, { roleId: null })).toEqual(DENIED)
  })

  test('callers cannot change, deactivate or delete a user with more rights', async () => {
    const tenant = await newTenant()
    const call = await tenant.callAs({ permissions: USER_ADMIN })
    const reader = await tenant.addUser({ role: 'globalReader' })
    for (const { id } of [tenant.admin, reader]) {
      for (const body of [{ name: 'x' }, { status: 0 }, { role: 'user' }, { email: 'mine@example.com' }, {}]) {
        expect(await codeOf(call, 'PUT', id, body)).toEqual(DENIED)
      }
      expect(await codeOf(call, 'DELETE', id)).toEqual(DENIED)
    }
  })

  test('a custom role without panel access grants no section', async () => {
    const tenant = await newTenant()
    const call = await tenant.callAs({ permissions: USER_ADMIN, has_admin_panel_access: 0 })
    expect((await call('GET', BASE)).status).toBe(403)
  })

  test('the last active administrator of a tenant can be neither demoted, deactivated nor deleted', async () => {
    const tenant = await newTenant()
    await tenant.addUser({ role: 'admin', status: 0 })
    const { id } = tenant.admin
    const last = [409, 'LAST_ADMINISTRATOR']
    expect(await codeOf(tenant.call, 'PUT', id, { role: 'user' })).toEqual(last)
    expect(await codeOf(tenant.call, 'PUT', id, { status: 0 })).toEqual(last)
    expect(await codeOf(tenant.call, 'DELETE', id)).toEqual(last)
    expect((await tenant.call('PUT', `${BASE}/${id}`, { name: 'Still here', role: 'admin' })).status).toBe(200)
    const second = await tenant.addUser({ role: 'admin' })
    expect((await tenant.call('PUT', `${BASE}/${id}`, { role: 'user' })).status).toBe(200)
    const call = await tenant.callFor(second)
    expect(await codeOf(call, 'DELETE', second.id)).toEqual(last)
  })

  test('of administrators who remove one another concurrently, one remains', async () => {
    const tenant = await newTenant()
    const admins = [tenant.admin, await tenant.addUser({ role: 'admin' }), await tenant.addUser({ role: 'admin' })]
    const calls = await Promise.all(admins.map((admin) => tenant.callFor(admin)))
    const requests = [{ status: 0 }, { role: 'user' }, undefined]
    const answers = await Promise.all(
      admins.map(({ id }, at) => {
        const body = requests[at]
        return calls[(at + 1) % 3]?.(body ? 'PUT' : 'DELETE', `${BASE}/${id}`, body)
      }),
    )
    const left = await tenant.db
      .selectFrom('users')
      .select('id')
      .where('tenant_id', '=', tenant.id)
      .where('role', '=', 'admin')
      .where('status', '=', 1)
      .execute()
    // The administrator who was removed first can no longer remove others.
    expect(left.length).toBeGreaterThan(0)
    for (const answer of answers) expect([200, 401, 403, 409]).toContain(answer?.status)
    expect(answers.filter((answer) => answer?.status === 200)).toHaveLength(3 - left.length)
  })

  test('the owner of the operator key keeps every right, also against other administrators', async () => {
    const { db } = shared.current.app
    const operator = await db.selectFrom('api_keys').selectAll().where('is_operator', '=', 1).executeTakeFirstOrThrow()
    const tenant = { tenant_id: operator.tenant_id }
    const colleague = await addUser(db, { ...tenant, role: 'admin' })
    const { secret } = await addKey(db, colleague)
    const call: Call = (method, path, body) => shared.current.call(method, path, body, { key: secret })
    const silent = await addRole(db, { ...tenant, can_use_chat: 0 })
    for (const body of [{ role: 'user' }, { role: 'globalReader' }, { status: 0 }, { roleId: silent.id }]) {
      expect(await codeOf(call, 'PUT', operator.user_id, body)).toEqual(DENIED)
      expect(await codeOf(shared.current.call, 'PUT', operator.user_id, body)).toEqual(DENIED)
    }
    expect(await codeOf(call, 'DELETE', operator.user_id)).toEqual(DENIED)
    expect((await call('PUT', `${BASE}/${operator.user_id}`, { name: 'The operator' })).status).toBe(200)
  })

  test('deactivating a user disables the keys at once, and activating enables them again', async () => {
    const tenant = await newTenant()
    const user = await tenant.addUser()
    const call = await tenant.callFor(user)
    const whoami = async () => (await call('GET', '/api/external/whoami')).status
    expect(await whoami()).toBe(200)
    await tenant.call('PUT', `${BASE}/${user.id}`, { status: 0 })
    expect(await whoami()).toBe(401)
    await tenant.call('PUT', `${BASE}/${user.id}`, { status: 1 })
    expect(await whoami()).toBe(200)
  })

  test('losing a role applies from the next request on', async () => {
    const tenant = await newTenant()
    const user = await tenant.addUser({ role: 'admin' })
    const call = await tenant.callFor(user)
    expect((await call('GET', BASE)).status).toBe(200)
    await tenant.call('PUT', `${BASE}/${user.id}`, { role: 'user' })
    expect((await call('GET', BASE)).status).toBe(403)
  })

  test('another daemon applies a deactivation within KEY_CACHE_MS', async () => {
    const tenant = await newTenant()
    const user = await tenant.addUser()
    const { secret } = await addKey(tenant.db, user)
    const clock = createFakeClock(Date.now())
    // SQLite allows one daemon; a second connection sees what a second daemon sees on PostgreSQL.
    const { config } = shared.current
    const db = await openDatabase(
      config.database.kind === 'sqlite' ? { kind: 'sqlite', dataDir: config.dataDir } : config.database,
    )
    try {
      const { authenticate } = createAuthenticator({ db, clock })
      const request = { headers: { authorization: `Bearer ${secret}` }, socket: { remoteAddress: '127.0.0.1' } }
      const ask = async () => authenticate(request as Parameters<typeof authenticate>[0])
      expect((await ask()).userId).toBe(user.id)
      await tenant.call('PUT', `${BASE}/${user.id}`, { status: 0 })
      clock.advance(KEY_CACHE_MS)
      await expect(ask()).rejects.toMatchObject({ code: 'UNAUTHORIZED' })
    } finally {
      await db.destroy()
    }
  })

  test('an administrator without chat still manages all users, including themselves', async () => {
    const tenant = await newTenant()
    const silent = await addRole(tenant.db, { tenant_id: tenant.id, can_use_chat: 0, can_interact_with_ai: 0 })
    const { id } = tenant.admin
    expect((await tenant.call('PUT', `${BASE}/${id}`, { roleId: silent.id })).status).toBe(200)
    expect((await tenant.call('GET', '/api/external/whoami')).body).toMatchObject({ canUseChat: false })
    const created = await tenant.call('POST', BASE, { name: 'a', email: 'a@example.com' })
    expect(created.status, created.text).toBe(201)
    expect((await tenant.call('POST', '/api/admin/api-keys', { name: 'k', userId: created.body.user.id })).status).toBe(
      201,
    )
    expect((await tenant.call('PUT', `${BASE}/${id}`, { roleId: null })).status).toBe(200)
    expect((await tenant.call('GET', '/api/external/whoami')).body).toMatchObject({ canUseChat: true })
  })

  test('callers cannot assign a role that would exceed their rights if its panel were enabled', async () => {
    const tenant = await newTenant()
    const call = await tenant.callAs({ permissions: USER_ADMIN })
    const closed = await addRole(tenant.db, {
      tenant_id: tenant.id,
      has_admin_panel_access: 0,
      permissions: [{ section: 'integrations', level: 'admin' }],
    })
    const user = await tenant.addUser()
    expect(await codeOf(call, 'PUT', user.id, { roleId: closed.id })).toEqual(DENIED)
    expect((await tenant.call('PUT', `${BASE}/${user.id}`, { roleId: closed.id })).status).toBe(200)
  })
})
