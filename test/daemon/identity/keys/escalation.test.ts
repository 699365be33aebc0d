import { expect, test } from 'vitest'
import type { Tables } from '../../../../src/daemon/platform/db/tables.ts'
import { addKey, addRole, addTenant, addUser } from '../../../accounts.ts'
import { describeEachEngine } from '../../../engines.ts'
import { sharedGateway } from '../../../harness.ts'

const KEYS = '/api/admin/api-keys'
const KEEPING = { section: 'integrations', level: 'admin' }
const usersAt = (level: 'none' | 'reader' | 'admin') => ({ section: 'user-management', level })

describeEachEngine('no key grows beyond its owner, and nobody makes one that may do more than they', (engine) => {
  const gateway = sharedGateway({ engine })
  const db = () => gateway.current.app.db

  /** A tenant with an administrator, an ordinary user, and a keeper, who may manage only users and their keys. */
  async function company() {
    const { id: tenant_id } = await addTenant(db())
    const admin = await addUser(db(), { tenant_id, role: 'admin' })
    const user = await addUser(db(), { tenant_id })
    const keeper = await addUser(db(), { tenant_id })
    await give(keeper, await addRole(db(), { tenant_id, permissions: [KEEPING, usersAt('admin')] }))
    const adminKey = await addKey(db(), admin)
    const userKey = await addKey(db(), user)
    const keeperKey = await addKey(db(), keeper)
    return { tenant_id, admin, user, keeper, adminKey, userKey, keeperKey }
  }
  const give = ({ tenant_id, id }: Tables['users'], role: Tables['roles']) =>
    db().insertInto('user_roles').values({ tenant_id, user_id: id, role_id: role.id }).execute()

  const call = (key: string, method: string, path = '', body?: unknown) =>
    gateway.current.call(method, KEYS + path, body, { key })
  const permissions = async (key: string) =>
    (await gateway.current.call('GET', '/api/external/whoami', undefined, { key })).body.permissions
  const userUpdate = async (key: string, { id }: { id: string }, body: object) => {
    const { status } = await gateway.current.call('PUT', `/api/external/users/${id}`, body, { key })
    expect(status).toBe(200)
  }

  test('a custom administrator cannot create an administrator key for an administrator, only one for applications', async () => {
    const { admin, keeperKey } = await company()
    const refused = await call(keeperKey.secret, 'POST', '', { name: 'k', userId: admin.id })
    expect([refused.status, refused.body.error.code]).toEqual([403, 'INSUFFICIENT_PERMISSIONS'])
    expect(refused.body.error.message).toContain('"adminAccess": false')
    const made = await call(keeperKey.secret, 'POST', '', { name: 'k', userId: admin.id, adminAccess: false })
    expect(made.status).toBe(201)
    expect(await permissions(made.body.secret)).toEqual([])
    expect((await call(made.body.secret, 'GET')).status).toBe(403)
  })

  test('nor extend that key afterwards', async () => {
    const { admin, adminKey, keeperKey } = await company()
    const { apiKey, secret } = (
      await call(keeperKey.secret, 'POST', '', { name: 'k', userId: admin.id, adminAccess: false })
    ).body
    const { status, body } = await call(keeperKey.secret, 'PUT', `/${apiKey.id}`, { adminAccess: true })
    expect([status, body.error.code]).toEqual([403, 'INSUFFICIENT_PERMISSIONS'])
    expect(await permissions(secret)).toEqual([])
    expect((await call(adminKey.secret, 'PUT', `/${apiKey.id}`, { adminAccess: true })).status).toBe(200)
    expect(await permissions(secret)).toContainEqual({ section: 'user-management', level: 'admin' })
  })

  test("nor change, rotate or revoke the administrator's key", async () => {
    const { adminKey, keeperKey } = await company()
    const path = `/${adminKey.row.id}`
    const answers = [
      await call(keeperKey.secret, 'PUT', path, { dailyLimit: null }),
      await call(keeperKey.secret, 'PUT', path, { adminAccess: false }),
      await call(keeperKey.secret, 'POST', `${path}/rotate`),
      await call(keeperKey.secret, 'DELETE', path),
    ]
    expect(answers.map(({ status }) => status)).toEqual([403, 403, 403, 403])
    expect((await call(adminKey.secret, 'GET', path)).body.apiKey).toMatchObject({
      status: 'active',
      adminAccess: true,
    })
  })

  test('but manages keys without additional rights, even those of an administrator', async () => {
    const { admin, user, userKey, keeperKey } = await company()
    const application = await addKey(db(), admin, { settings: { adminAccess: false } })
    for (const { id } of [userKey.row, application.row]) {
      expect((await call(keeperKey.secret, 'PUT', `/${id}`, { name: 'x' })).status).toBe(200)
      expect((await call(keeperKey.secret, 'POST', `/${id}/rotate`)).status).toBe(200)
      expect((await call(keeperKey.secret, 'DELETE', `/${id}`)).status).toBe(200)
    }
    expect((await call(keeperKey.secret, 'POST', '', { name: 'k', userId: user.id })).status).toBe(201)
  })

  test.each(['none', 'reader', 'admin'] as const)(
    'with user-management at level %s: which keys of others may be created, changed, rotated, revoked and shown',
    async (level) => {
      const { tenant_id, user, userKey, adminKey } = await company()
      const clerk = await addUser(db(), { tenant_id })
      await give(clerk, await addRole(db(), { tenant_id, permissions: [KEEPING, usersAt(level)] }))
      const { secret, row } = await addKey(db(), clerk)
      const keys = () =>
        db().selectFrom('api_keys').selectAll().where('tenant_id', '=', tenant_id).orderBy('id').execute()
      const before = await keys()
      const others = `/${userKey.row.id}`
      const answers = [
        await call(secret, 'POST', '', { name: 'k', adminAccess: false, userId: user.id }),
        await call(secret, 'PUT', others, { dailyLimit: null }),
        await call(secret, 'POST', `${others}/rotate`),
      ]
      expect(answers.map(({ status }) => status)).toEqual(level === 'admin' ? [201, 200, 200] : [403, 403, 403])
      if (level !== 'admin') {
        expect(await keys()).toEqual(before)
        const own = 'To create a key for yourself, omit userId.'
        const needed = 'Managing keys of other users requires a key with "user-management" at level "admin".'
        expect(answers.map(({ body }) => body.error)).toEqual([
          { code: 'INSUFFICIENT_PERMISSIONS', message: `${needed} ${own}` },
          { code: 'INSUFFICIENT_PERMISSIONS', message: needed },
          { code: 'INSUFFICIENT_PERMISSIONS', message: needed },
        ])
        // The rejection does not reveal which users exist.
        for (const userId of ['f'.repeat(24), (await addUser(db(), { tenant_id, status: 0 })).id]) {
          const refused = await call(secret, 'POST', '', { name: 'k', adminAccess: false, userId })
          expect(refused.body.error).toEqual(answers[0]?.body.error)
        }
      }
      // Listing and revoking keys requires only "integrations".
      expect((await call(secret, 'GET', others)).status).toBe(200)
      expect((await call(secret, 'GET', `?userId=${user.id}`)).body.apiKeys).toHaveLength(level === 'admin' ? 2 : 1)
      expect((await call(secret, 'DELETE', others)).status).toBe(200)
      expect((await call(secret, 'DELETE', `/${adminKey.row.id}`)).status).toBe(403)
      // Their own keys remain theirs.
      const own = (await call(secret, 'POST', '', { name: 'k', userId: clerk.id })).body
      expect((await call(secret, 'PUT', `/${own.apiKey.id}`, { name: 'x' })).status).toBe(200)
      expect((await call(secret, 'POST', `/${own.apiKey.id}/rotate`)).status).toBe(200)
      expect((await call(secret, 'DELETE', `/${own.apiKey.id}`)).status).toBe(200)
      expect((await call(secret, 'PUT', `/${row.id}`, { name: 'mine' })).status).toBe(200)
    },
  )

  test('a caller without write access to indexes can neither create, extend nor rotate a key that has it', async () => {
    const { user, adminKey, keeperKey, keeper } = await company()
    const writing = { indexAccess: 'write' }
    const owners = [{ userId: user.id }, { userId: keeper.id }]
    const before = await db().selectFrom('api_keys').selectAll().orderBy('id').execute()
    for (const owner of owners) {
      const refused = await call(keeperKey.secret, 'POST', '', { name: 'k', adminAccess: false, ...writing, ...owner })
      expect([refused.status, refused.body.error.code]).toEqual([403, 'INSUFFICIENT_PERMISSIONS'])
      expect(refused.body.error.message).toContain('"indexAccess": "write"')
    }
    expect((await call(keeperKey.secret, 'PUT', `/${keeperKey.row.id}`, writing)).status).toBe(403)
    expect(await db().selectFrom('api_keys').selectAll().orderBy('id').execute()).toEqual(before)
    const given = (await call(adminKey.secret, 'POST', '', { name: 'k', userId: keeper.id, ...writing })).body
    expect(given.apiKey.indexAccess).toBe('write')
    expect((await call(keeperKey.secret, 'POST', `/${given.apiKey.id}/rotate`)).status).toBe(403)
    // A key with this right may grant it to another key of its owner.
    expect((await call(given.secret, 'POST', '', { name: 'k', adminAccess: false, ...writing })).status).toBe(201)
    expect((await call(given.secret, 'PUT', `/${keeperKey.row.id}`, writing)).status).toBe(200)
  })

  test('a key of a custom administrator never has more rights than its owner', async () => {
    const { keeperKey } = await company()
    const { body } = await call(keeperKey.secret, 'POST', '', { name: 'own' })
    expect(await permissions(body.secret)).toEqual([usersAt('admin'), KEEPING])
  })

  test('a caller without chat cannot create a key with it', async () => {
    const { tenant_id, user } = await company()
    const mute = await addUser(db(), { tenant_id })
    await give(mute, await addRole(db(), { tenant_id, can_use_chat: 0, permissions: [KEEPING, usersAt('admin')] }))
    const { secret } = await addKey(db(), mute)
    for (const adminAccess of [true, false]) {
      expect((await call(secret, 'POST', '', { name: 'k', userId: user.id, adminAccess })).status).toBe(403)
    }
    expect((await call(secret, 'POST', '', { name: 'k' })).status).toBe(201)
  })

  test('demoting its owner reduces the rights of a key from the next request on', async () => {
    const { admin, adminKey, tenant_id } = await company()
    const other = await addKey(db(), await addUser(db(), { tenant_id, role: 'admin' }))
    expect((await call(adminKey.secret, 'GET')).status).toBe(200)
    await userUpdate(other.secret, admin, { role: 'user' })
    expect((await call(adminKey.secret, 'GET')).status).toBe(403)
    expect(await permissions(adminKey.secret)).toEqual([])
  })

  test('promoting its owner does not extend a key until it is granted more', async () => {
    const { user, adminKey, keeperKey } = await company()
    const { apiKey, secret } = (await call(keeperKey.secret, 'POST', '', { name: 'k', userId: user.id })).body
    await userUpdate(adminKey.secret, user, { role: 'admin' })
    expect(await permissions(secret)).toEqual([])
    expect((await call(keeperKey.secret, 'PUT', `/${apiKey.id}`, { adminAccess: true })).status).toBe(403)
    expect((await call(adminKey.secret, 'PUT', `/${apiKey.id}`, { adminAccess: true })).status).toBe(200)
    expect(await permissions(secret)).toContainEqual({ section: 'user-management', level: 'admin' })
  })

  test('a rotation during the demotion of the owner does not result in an administrator key', async () => {
    const { tenant_id, adminKey, keeperKey } = await company()
    const second = await addUser(db(), { tenant_id, role: 'admin' })
    const { apiKey } = (await call(adminKey.secret, 'POST', '', { name: 'k', userId: second.id })).body
    await userUpdate(adminKey.secret, second, { role: 'user' })
    const { status, body } = await call(keeperKey.secret, 'POST', `/${apiKey.id}/rotate`)
    expect(status).toBe(200)
    await userUpdate(adminKey.secret, second, { role: 'admin' })
    expect(await permissions(body.secret)).toEqual([])
  })

  test('deactivating its owner disables a key from the next request on', async () => {
    const { user, userKey, adminKey } = await company()
    const whoami = () => gateway.current.call('GET', '/api/external/whoami', undefined, { key: userKey.secret })
    expect((await whoami()).status).toBe(200)
    await userUpdate(adminKey.secret, user, { status: 0 })
    expect((await whoami()).status).toBe(401)
  })

  test('no key can change, rotate or revoke the operator key, including itself', async () => {
    const { adminKey } = gateway.current
    const operator = await db()
      .selectFrom('api_keys')
      .selectAll()
      .where('is_operator', '=', 1)
      .executeTakeFirstOrThrow()
    const colleague = await addKey(db(), await addUser(db(), { tenant_id: operator.tenant_id, role: 'admin' }))
    for (const key of [adminKey, colleague.secret]) {
      const answers = [
        await call(key, 'PUT', `/${operator.id}`, { allowedIPs: ['192.0.2.1'] }),
        await call(key, 'POST', `/${operator.id}/rotate`),
        await call(key, 'DELETE', `/${operator.id}`),
      ]
      expect(answers.map(({ status }) => status)).toEqual([403, 403, 403])
    }
    expect((await call(adminKey, 'GET', `/${operator.id}`)).body.apiKey).toMatchObject({
      isOperator: true,
      status: 'active',
    })
  })

  test('no request body creates an operator key or a key of another tenant, or grants itself rights', async () => {
    const { tenant_id, user, keeper, keeperKey } = await company()
    const stranger = await addTenant(db())
    const privileged = {
      id: 'f'.repeat(24),
      isOperator: true,
      is_operator: 1,
      tenantId: stranger.id,
      tenant_id: stranger.id,
      secret: `sk-${'0'.repeat(64)}`,
      secret_hash: '0'.repeat(64),
      grantedLevels: { settings: 'admin' },
      rights: { levels: { settings: 'admin' } },
      createdAt: '2000-01-01T00:00:00.000Z',
      revokedAt: '2000-01-01T00:00:00.000Z',
      status: 'expired',
    }
    const { body } = await call(keeperKey.secret, 'POST', '', { name: 'k', userId: user.id })
    const keys = () => db().selectFrom('api_keys').selectAll().orderBy('id').execute()
    const before = await keys()
    for (const [name, value] of Object.entries(privileged)) {
      const answers = [
        await call(keeperKey.secret, 'POST', '', { name: 'k', userId: user.id, [name]: value }),
        await call(keeperKey.secret, 'PUT', `/${body.apiKey.id}`, { [name]: value }),
      ]
      expect([name, ...answers.map(({ status }) => status)]).toEqual([name, 400, 400])
    }
    expect((await call(keeperKey.secret, 'PUT', `/${body.apiKey.id}`, { userId: keeper.id })).status).toBe(400)
    expect(await keys()).toEqual(before)
    const row = before.find(({ id }) => id === body.apiKey.id)
    expect(row).toMatchObject({ tenant_id, user_id: user.id, is_operator: 0 })
    expect(JSON.parse(row?.settings ?? '{}').grantedLevels).toEqual({})
    expect(await permissions(body.secret)).toEqual([])
  })

  test("the tenant's last administrator key can neither revoke itself nor give up its administration", async () => {
    const { tenant_id, admin, user, adminKey } = await company()
    const path = `/${adminKey.row.id}`
    const past = '2026-01-01T00:00:00.000Z'
    const inactive = await addUser(db(), { tenant_id, role: 'admin', status: 0 })
    const narrow = JSON.stringify({ grantedLevels: { 'user-management': 'admin', integrations: 'admin' } })
    for (const [owner, given] of [
      [admin, { revoked_at: past }],
      [admin, { expires_at: past }],
      [admin, { settings: { adminAccess: false } }],
      [inactive, {}],
      [user, {}],
    ] as const) {
      await addKey(db(), owner, given)
    }
    const { row } = await addKey(db(), admin)
    await db().updateTable('api_keys').set({ settings: narrow }).where('id', '=', row.id).execute()
    for (const refused of [
      await call(adminKey.secret, 'DELETE', path),
      await call(adminKey.secret, 'PUT', path, { adminAccess: false }),
    ]) {
      expect([refused.status, refused.body.error.code]).toEqual([409, 'LAST_ADMINISTRATOR'])
      expect(refused.body.error.message).toContain('/admin-key')
    }
    expect((await call(adminKey.secret, 'PUT', path, { name: 'still here', adminAccess: true })).status).toBe(200)
    const rotated = await call(adminKey.secret, 'POST', `${path}/rotate`)
    expect(rotated.status).toBe(200)
    expect((await call(rotated.body.secret, 'POST', '', { name: 'second' })).status).toBe(201)
    expect((await call(rotated.body.secret, 'PUT', path, { adminAccess: false })).status).toBe(200)
  })

  test('one of two administrator keys can revoke itself or the other', async () => {
    const { admin, adminKey } = await company()
    const second = await addKey(db(), admin)
    expect((await call(second.secret, 'DELETE', `/${second.row.id}`)).status).toBe(200)
    const third = await addKey(db(), admin)
    expect((await call(third.secret, 'DELETE', `/${adminKey.row.id}`)).status).toBe(200)
    expect((await call(third.secret, 'DELETE', `/${third.row.id}`)).status).toBe(409)
  })

  test('of two administrator keys that revoke themselves concurrently, one remains', async () => {
    const { admin, adminKey } = await company()
    const keys = [adminKey, await addKey(db(), admin)]
    const answers = await Promise.all(keys.map(({ secret, row }) => call(secret, 'DELETE', `/${row.id}`)))
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409])
  })
})
