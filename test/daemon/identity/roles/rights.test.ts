import { expect, test } from 'vitest'
import { addKey, addRole, addUser } from '../../../accounts.ts'
import { describeEachEngine } from '../../../engines.ts'
import { sharedGateway } from '../../../harness.ts'
import { addTestTenant, type Call, type TestTenant } from '../../../tenant-admin.ts'

const ROLES = '/api/external/roles'
const USER_ADMIN = [{ section: 'user-management', level: 'admin' }]
const SILENT = { canUseChat: false, canInteractWithAI: false }

describeEachEngine('the rights that a role carries', (engine) => {
  const shared = sharedGateway({ engine })
  const newTenant = () => addTestTenant(shared.current)
  const giveRole = ({ db, id }: Pick<TestTenant, 'db' | 'id'>, userId: string, roleId: string) =>
    db.insertInto('user_roles').values({ tenant_id: id, user_id: userId, role_id: roleId }).execute()

  test('a change of a role cannot affect users with more rights than the caller', async () => {
    const tenant = await newTenant()
    const call = await tenant.callAs({ permissions: USER_ADMIN })
    const role = await addRole(tenant.db, { tenant_id: tenant.id, has_admin_panel_access: 0 })
    const user = await tenant.addUser()
    await giveRole(tenant, user.id, role.id)
    expect((await call('PUT', `${ROLES}/${role.id}`, SILENT)).status).toBe(200)
    await giveRole(tenant, tenant.admin.id, role.id)
    const refused = await call('PUT', `${ROLES}/${role.id}`, { canUseChat: true })
    expect([refused.status, refused.body.error.code]).toEqual([403, 'INSUFFICIENT_PERMISSIONS'])
    expect(refused.body.error.message).toMatch(
      /"integrations" at level "admin".* assign these users another role first/,
    )
    expect((await call('DELETE', `${ROLES}/${role.id}`)).status).toBe(409)
    // They may make changes that affect the rights of no user.
    const harmless = { displayName: 'Quiet', permissions: USER_ADMIN }
    expect((await call('PUT', `${ROLES}/${role.id}`, harmless)).status).toBe(200)
    expect((await tenant.call('PUT', `${ROLES}/${role.id}`, { canUseChat: true })).status).toBe(200)
    expect((await tenant.call('GET', '/api/external/whoami')).body.canUseChat).toBe(true)
  })

  test("a change of a role cannot reduce the rights of the operator key's owner", async () => {
    const { db } = shared.current.app
    const operator = await db.selectFrom('api_keys').selectAll().where('is_operator', '=', 1).executeTakeFirstOrThrow()
    const { tenant_id, user_id } = operator
    const { secret } = await addKey(db, await addUser(db, { tenant_id, role: 'admin' }))
    const colleague: Call = (method, path, body) => shared.current.call(method, path, body, { key: secret })
    const role = await addRole(db, { tenant_id })
    await giveRole({ db, id: tenant_id }, user_id, role.id)
    try {
      for (const call of [colleague, shared.current.call]) {
        const refused = await call('PUT', `${ROLES}/${role.id}`, SILENT)
        expect([refused.status, refused.body.error.code]).toEqual([403, 'INSUFFICIENT_PERMISSIONS'])
        expect(refused.body.error.message).toContain('Assign this user another role first')
      }
      expect(
        (await colleague('PUT', `${ROLES}/${role.id}`, { displayName: 'x', permissions: USER_ADMIN })).status,
      ).toBe(200)
      expect((await colleague('PUT', `${ROLES}/${role.id}`, { permissions: [] })).status).toBe(200)
      expect((await colleague('PUT', `/api/external/users/${user_id}`, { roleId: null })).status).toBe(200)
    } finally {
      await db.deleteFrom('user_roles').where('tenant_id', '=', tenant_id).where('user_id', '=', user_id).execute()
    }
    expect((await colleague('PUT', `${ROLES}/${role.id}`, SILENT)).status).toBe(200)
  })

  test('sections of a role without panel access count as if it had access', async () => {
    const tenant = await newTenant()
    const call = await tenant.callAs({ permissions: USER_ADMIN })
    const named = { name: 'viewer', displayName: 'Viewer', description: '' }
    const permissions = [{ section: 'integrations', level: 'admin' }]
    expect((await call('POST', ROLES, { ...named, permissions })).status).toBe(403)
    const { role } = (await call('POST', ROLES, named)).body
    expect((await call('PUT', `${ROLES}/${role.id}`, { permissions })).status).toBe(403)
    const theirs = await addRole(tenant.db, {
      tenant_id: tenant.id,
      has_admin_panel_access: 0,
      permissions,
    })
    expect((await call('PUT', `${ROLES}/${theirs.id}`, { hasAdminPanelAccess: true })).status).toBe(403)
    expect((await call('DELETE', `${ROLES}/${theirs.id}`)).status).toBe(403)
  })
})
