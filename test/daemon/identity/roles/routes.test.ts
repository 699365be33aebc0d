import { expect, test } from 'vitest'
import { SECTIONS } from '../../../../src/shared/permissions.ts'
import { DoneResponse, StructuredError } from '../../../../src/shared/wire/common.ts'
import { ListRolesResponse, RoleResponse, ShowRoleResponse } from '../../../../src/shared/wire/roles.ts'
import { addRole } from '../../../accounts.ts'
import { describeEachEngine } from '../../../engines.ts'
import { sharedGateway } from '../../../harness.ts'
import { addTestTenant, type TestTenant } from '../../../tenant-admin.ts'

const BASE = '/api/external/roles'
const UNKNOWN = 'f'.repeat(24)

describeEachEngine('roles', (engine) => {
  const shared = sharedGateway({ engine })
  const newTenant = () => addTestTenant(shared.current)
  const named = (name: string) => ({ name, displayName: `The ${name}`, description: `About ${name}` })

  async function create(tenant: TestTenant, body: Record<string, unknown>) {
    const answer = await tenant.call('POST', BASE, body)
    expect(answer.status, answer.text).toBe(201)
    return RoleResponse.strict().parse(answer.body).role
  }
  async function show(tenant: TestTenant, id: string) {
    const answer = await tenant.call('GET', `${BASE}/${id}`)
    expect(answer.status, answer.text).toBe(200)
    return ShowRoleResponse.strict().parse(answer.body).role
  }
  async function list(tenant: TestTenant, query: Record<string, string> = {}) {
    const answer = await tenant.call('GET', `${BASE}?${new URLSearchParams(query)}`)
    expect(answer.status, answer.text).toBe(200)
    return ListRolesResponse.strict().parse(answer.body)
  }
  const namesOf = async (tenant: TestTenant, query: Record<string, string> = {}) =>
    (await list(tenant, query)).roles.map(({ name }) => name)
  const give = (tenant: TestTenant, userId: string, roleId: string) =>
    tenant.db.insertInto('user_roles').values({ tenant_id: tenant.id, user_id: userId, role_id: roleId }).execute()

  test('a role is created with the defaults of the contract, and is visible at once', async () => {
    const tenant = await newTenant()
    const role = await create(tenant, { name: 'ops', displayName: ' Operations ', description: ' On call ' })
    expect(role).toEqual({
      id: expect.stringMatching(/^[0-9a-f]{24}$/),
      name: 'ops',
      displayName: 'Operations',
      description: 'On call',
      isSystem: false,
      hasAdminPanelAccess: false,
      permissions: [],
      canInteractWithAI: true,
      canUseChat: true,
      userCount: 0,
      createdBy: { id: tenant.admin.id, name: tenant.admin.name, email: tenant.admin.email },
      createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      updatedAt: role.createdAt,
    })
    expect(await show(tenant, role.id)).toEqual(role)
    expect(await show(tenant, role.id.toUpperCase())).toEqual(role)
    expect((await list(tenant, { isSystem: 'false' })).roles).toEqual([role])
  })

  test('the texts of a role are stored unchanged', async () => {
    const tenant = await newTenant()
    const permissions = [
      { section: 'settings', level: 'admin' },
      { section: 'analytics', level: 'reader' },
      { section: 'home', level: 'none' },
    ]
    const flags = { hasAdminPanelAccess: true, canInteractWithAI: false, canUseChat: false }
    expect(await create(tenant, { ...named('ops'), permissions, ...flags })).toMatchObject({ permissions, ...flags })
    const nulls = { hasAdminPanelAccess: null, permissions: null, canInteractWithAI: null, canUseChat: null }
    expect(await create(tenant, { ...named('dev'), ...nulls })).toMatchObject({
      hasAdminPanelAccess: false,
      permissions: [],
      canInteractWithAI: true,
      canUseChat: true,
    })
  })

  test.each([
    [{ name: undefined }, 'name'],
    [{ name: 'Ops' }, 'name'],
    [{ name: 'two words' }, 'name'],
    [{ name: '1st' }, 'name'],
    [{ name: 'x' }, 'name'],
    [{ name: 'x'.repeat(65) }, 'name'],
    [{ displayName: '' }, 'displayName'],
    [{ displayName: undefined }, 'displayName'],
    [{ description: undefined }, 'description'],
    [{ hasAdminPanelAccess: 'yes' }, 'hasAdminPanelAccess'],
    [{ canUseChat: 1 }, 'canUseChat'],
    [{ permissions: {} }, 'permissions'],
    [{ permissions: ['settings'] }, 'permissions.0'],
    [{ permissions: [{ section: 'everything', level: 'admin' }] }, 'permissions.0.section'],
    [{ permissions: [{ section: 'home', level: 'owner' }] }, 'permissions.0.level'],
    [{ permissions: Array(2).fill({ section: 'home', level: 'admin' }) }, 'permissions'],
  ])('POST /roles rejects %j, naming the field', async (wrong, field) => {
    const tenant = await newTenant()
    const answer = await tenant.call('POST', BASE, { ...named('ops'), ...wrong })
    expect(answer.status).toBe(400)
    expect(StructuredError.parse(answer.body).error).toMatchObject({ code: 'VALIDATION_ERROR', details: { field } })
    expect(await namesOf(tenant, { isSystem: 'false' })).toEqual([])
    expect(await tenant.audit()).toEqual([])
  })

  test('of 50 administrators who create one name concurrently, one gets 201 and the others 409', async () => {
    const tenant = await newTenant()
    const answers = await Promise.all(Array.from({ length: 50 }, () => tenant.call('POST', BASE, named('ops'))))
    expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array(49).fill(409)])
    for (const { body } of answers.filter(({ status }) => status === 409)) {
      expect(StructuredError.parse(body).error).toMatchObject({
        code: 'ROLE_NAME_EXISTS',
        details: { field: 'name', value: 'ops' },
      })
    }
    expect(await namesOf(tenant, { isSystem: 'false' })).toEqual(['ops'])
    expect(await tenant.audit()).toHaveLength(1)
  })

  test('a name is unique within its tenant; names of system roles are reserved', async () => {
    const [one, two] = [await newTenant(), await newTenant()]
    const { id } = await create(one, named('ops'))
    await create(two, named('ops'))
    for (const name of ['admin', 'user']) {
      expect((await one.call('POST', BASE, named(name))).body.error.code).toBe('ROLE_NAME_EXISTS')
    }
    expect((await one.call('DELETE', `${BASE}/${id}`)).status).toBe(200)
    await create(one, named('ops'))
  })

  test('system roles are listed with their users, and cannot be changed or deleted', async () => {
    const tenant = await newTenant()
    await tenant.addUser({ role: 'globalReader' })
    for (let at = 0; at < 3; at++) await tenant.addUser()
    const { roles } = await list(tenant, { isSystem: 'true', sortBy: 'name', sortOrder: 'asc' })
    expect(roles.map(({ name, userCount, isSystem, createdBy }) => [name, userCount, isSystem, createdBy])).toEqual([
      ['admin', 1, true, null],
      ['globalReader', 1, true, null],
      ['user', 3, true, null],
    ])
    const [admin, reader, user] = roles
    expect(admin?.permissions).toEqual(SECTIONS.map((section) => ({ section, level: 'admin' })))
    expect(reader?.permissions).toEqual(SECTIONS.map((section) => ({ section, level: 'reader' })))
    expect([admin, reader, user].map((role) => role?.hasAdminPanelAccess)).toEqual([true, true, false])
    for (const { id } of roles) {
      for (const [method, body] of [['PUT', { displayName: 'Mine' }], ['DELETE']] as const) {
        const answer = await tenant.call(method, `${BASE}/${id}`, body)
        expect(answer.status).toBe(403)
        const { error } = StructuredError.parse(answer.body)
        expect(error.code).toBe('INSUFFICIENT_PERMISSIONS')
        expect(error.message).toContain('system role')
      }
    }
    expect((await list(tenant, { isSystem: 'true', sortBy: 'name', sortOrder: 'asc' })).roles).toEqual(roles)
    expect(await tenant.audit()).toEqual([])
  })

  test('PUT changes only the sent fields, never the name', async () => {
    const tenant = await newTenant()
    const permissions = [{ section: 'home', level: 'reader' }]
    const role = await create(tenant, { ...named('ops'), permissions, hasAdminPanelAccess: true })
    const put = async (body: object) => {
      const answer = await tenant.call('PUT', `${BASE}/${role.id}`, body)
      expect(answer.status, answer.text).toBe(200)
      const { updatedAt: _, ...changed } = RoleResponse.strict().parse(answer.body).role
      return changed
    }
    const { updatedAt: _, ...kept } = role
    expect(await put({})).toEqual(kept)
    expect(await put({ name: 'ops', permissions: null, canUseChat: null })).toEqual(kept)
    expect(await put({ canUseChat: false })).toEqual({ ...kept, canUseChat: false })
    expect(await put({ permissions: [] })).toEqual({ ...kept, canUseChat: false, permissions: [] })
    const last = await put({ displayName: 'Night shift', description: '', hasAdminPanelAccess: false })
    expect(last).toEqual({
      ...kept,
      canUseChat: false,
      permissions: [],
      displayName: 'Night shift',
      description: '',
      hasAdminPanelAccess: false,
    })
    expect(await show(tenant, role.id)).toMatchObject(last)
    expect(await namesOf(tenant, { search: 'NIGHT' })).toEqual(['ops'])
    expect(await namesOf(tenant, { search: 'About' })).toEqual([])
    const refused = await tenant.call('PUT', `${BASE}/${role.id}`, { displayName: ' ' })
    expect([refused.status, refused.body.error.details.field]).toEqual([400, 'displayName'])
  })

  test('a change of a role applies from the next request of its users on', async () => {
    const tenant = await newTenant()
    const permissions = [{ section: 'user-management', level: 'reader' }]
    const role = await create(tenant, { ...named('helpdesk'), permissions, hasAdminPanelAccess: true })
    const call = await tenant.callAs({})
    await tenant.db.updateTable('user_roles').set({ role_id: role.id }).where('tenant_id', '=', tenant.id).execute()
    const allowed = async () => (await call('GET', BASE)).status
    const put = (body: object) => tenant.call('PUT', `${BASE}/${role.id}`, body)
    await put({})
    expect(await allowed()).toBe(200)
    await put({ permissions: [] })
    expect(await allowed()).toBe(403)
    await put({ permissions })
    expect(await allowed()).toBe(200)
    await put({ hasAdminPanelAccess: false })
    expect(await allowed()).toBe(403)
  })

  test('callers cannot create, change or delete a role with more rights than their own', async () => {
    const tenant = await newTenant()
    const own = [
      { section: 'user-management', level: 'admin' },
      { section: 'settings', level: 'reader' },
    ]
    const call = await tenant.callAs({ permissions: own, can_use_chat: 0 })
    const modest = { ...named('modest'), hasAdminPanelAccess: true, permissions: own, canUseChat: false }
    const beyond: [object, string][] = [
      [{ permissions: [{ section: 'settings', level: 'admin' }] }, '"settings" at level "admin"'],
      [{ permissions: [{ section: 'home', level: 'reader' }] }, '"home" at level "reader"'],
      [{ canUseChat: true }, '"canUseChat"'],
    ]
    const expectRefusal = (answer: Awaited<ReturnType<typeof call>>, named: string) => {
      expect(answer.status, answer.text).toBe(403)
      const { error } = StructuredError.parse(answer.body)
      expect(error.code).toBe('INSUFFICIENT_PERMISSIONS')
      expect(error.message).toContain(named)
    }

    for (const [more, named] of beyond) expectRefusal(await call('POST', BASE, { ...modest, ...more }), named)
    const made = await call('POST', BASE, modest)
    expect(made.status, made.text).toBe(201)
    const { id } = RoleResponse.parse(made.body).role
    for (const [more, named] of beyond) expectRefusal(await call('PUT', `${BASE}/${id}`, more), named)
    expect((await call('PUT', `${BASE}/${id}`, { description: 'Mine' })).status).toBe(200)

    const greater = await create(tenant, { ...named('greater'), ...modest, name: 'greater', ...beyond[0]?.[0] })
    expectRefusal(await call('PUT', `${BASE}/${greater.id}`, { permissions: [] }), '"settings" at level "admin"')
    expectRefusal(await call('DELETE', `${BASE}/${greater.id}`), '"settings" at level "admin"')
    expect(await show(tenant, greater.id)).toEqual(greater)
    expect((await call('DELETE', `${BASE}/${id}`)).status).toBe(200)
    const described = (await tenant.audit()).map(({ operation }) => operation)
    expect(described).toEqual(['create', 'update', 'create', 'delete'])
  })

  test('a role with users cannot be deleted until they have another role', async () => {
    const tenant = await newTenant()
    const role = await create(tenant, named('ops'))
    await give(tenant, tenant.admin.id, role.id)
    expect((await show(tenant, role.id)).userCount).toBe(1)
    const refused = await tenant.call('DELETE', `${BASE}/${role.id}`)
    expect([refused.status, refused.body.error.code]).toEqual([409, 'ROLE_IN_USE'])
    expect(await show(tenant, role.id)).toMatchObject({ userCount: 1, updatedAt: role.updatedAt })
    expect(await tenant.audit()).toHaveLength(1)

    await tenant.db.deleteFrom('user_roles').where('role_id', '=', role.id).execute()
    const deleted = await tenant.call('DELETE', `${BASE}/${role.id}`)
    expect(deleted.status).toBe(200)
    expect(DoneResponse.strict().parse(deleted.body).success).toBe(true)
    for (const method of ['GET', 'DELETE']) {
      const gone = await tenant.call(method, `${BASE}/${role.id}`)
      expect([gone.status, gone.body.error.code]).toEqual([404, 'ROLE_NOT_FOUND'])
    }
  })

  test('a role that is being assigned concurrently is not deleted', async () => {
    const tenant = await newTenant()
    const role = await create(tenant, named('ops'))
    let deletion: ReturnType<TestTenant['call']> | undefined
    await tenant.db.transaction().execute(async (tx) => {
      await give({ ...tenant, db: tx }, tenant.admin.id, role.id)
      deletion = tenant.call('DELETE', `${BASE}/${role.id}`)
      await tenant.db.selectFrom('roles').select('id').where('id', '=', role.id).execute()
    })
    expect((await deletion)?.status).toBe(409)
    expect((await show(tenant, role.id)).userCount).toBe(1)
  })

  test('an unknown role, or a system role of another tenant, is 404', async () => {
    const [one, two] = [await newTenant(), await newTenant()]
    const { roles } = await list(one, { isSystem: 'true' })
    for (const id of [roles[0]?.id ?? '', UNKNOWN, 'nonsense', "1' or '1'='1"]) {
      for (const [method, body] of [['GET'], ['PUT', { displayName: 'x' }], ['DELETE']] as const) {
        const answer = await two.call(method, `${BASE}/${encodeURIComponent(id)}`, body)
        expect(answer.status).toBe(404)
        expect(StructuredError.parse(answer.body).error.code).toBe('ROLE_NOT_FOUND')
      }
    }
  })

  test('createdBy is null after that user was deleted', async () => {
    const tenant = await newTenant()
    const stored = await addRole(tenant.db, { tenant_id: tenant.id, created_by: UNKNOWN })
    expect((await show(tenant, stored.id)).createdBy).toBeNull()
  })

  test('lists are paged in every order, with ties sorted by id', async () => {
    const tenant = await newTenant()
    const created = []
    for (const [at, name] of ['cc', 'aa', 'dd', 'bb'].entries()) {
      created.push(await create(tenant, { ...named(name), displayName: `${at % 2}` }))
    }
    await give(tenant, tenant.admin.id, created[0]?.id ?? '')
    await give(tenant, (await tenant.addUser()).id, created[3]?.id ?? '')
    await give(tenant, (await tenant.addUser()).id, created[3]?.id ?? '')
    const sorted = (sortBy: string, sortOrder: string) => namesOf(tenant, { isSystem: 'false', sortBy, sortOrder })
    expect(await namesOf(tenant, { isSystem: 'false' })).toEqual(['bb', 'dd', 'aa', 'cc'])
    expect(await sorted('createdAt', 'asc')).toEqual(['cc', 'aa', 'dd', 'bb'])
    expect(await sorted('updatedAt', 'asc')).toEqual(['cc', 'aa', 'dd', 'bb'])
    expect(await sorted('name', 'asc')).toEqual(['aa', 'bb', 'cc', 'dd'])
    expect(await sorted('displayName', 'asc')).toEqual(['cc', 'dd', 'aa', 'bb'])
    expect(await sorted('userCount', 'asc')).toEqual(['aa', 'dd', 'cc', 'bb'])
    expect(await sorted('userCount', 'desc')).toEqual(['bb', 'cc', 'dd', 'aa'])
    expect((await list(tenant)).pagination).toEqual({ page: 1, limit: 20, total: 7, pages: 1 })

    const page = await list(tenant, { isSystem: 'false', limit: '3', page: '2' })
    expect(page.roles.map(({ name }) => name)).toEqual(['cc'])
    expect(page.pagination).toEqual({ page: 2, limit: 3, total: 4, pages: 2 })
  })

  test('searches cover name, display name and description, and are literal', async () => {
    const tenant = await newTenant()
    const texts = ['100%', 'a_b', 'back\\slash', "O'Brien", "'); drop table roles; --", 'Größe 😀']
    for (const [at, text] of texts.entries()) {
      await create(tenant, { name: `role-${at}`, displayName: text, description: `About ${text}` })
    }
    for (const [at, text] of texts.entries()) {
      expect(await namesOf(tenant, { search: text.toUpperCase().replace('SS', 'ß') })).toEqual([`role-${at}`])
      expect(await namesOf(tenant, { search: `out ${text}` })).toEqual([`role-${at}`])
    }
    expect(await namesOf(tenant, { search: 'ROLE-3' })).toEqual(['role-3'])
    expect(await namesOf(tenant, { search: 'globalr' })).toEqual(['globalReader'])
  })

  test.each([
    ['sortBy', 'permissions'],
    ['sortBy', 'name; drop table roles'],
    ['sortOrder', 'up'],
    ['isSystem', 'yes'],
    ['limit', '{}'],
  ])('GET /roles rejects %s=%s', async (name, value) => {
    const tenant = await newTenant()
    const answer = await tenant.call('GET', `${BASE}?${new URLSearchParams({ [name]: value })}`)
    expect(answer.status).toBe(400)
    expect(StructuredError.parse(answer.body).error.details).toMatchObject({ field: name })
  })

  test('every change leaves an audit entry with caller and action', async () => {
    const tenant = await newTenant()
    const { id } = await create(tenant, named('ops'))
    await tenant.call('PUT', `${BASE}/${id}`, { canUseChat: false })
    await tenant.call('DELETE', `${BASE}/${id}`)
    const entries = await tenant.audit()
    expect(entries.map(({ operation, endpoint, description }) => [operation, endpoint, description])).toEqual([
      ['create', 'POST /api/external/roles', 'External API: created role "ops"'],
      ['update', 'PUT /api/external/roles/{roleId}', 'External API: updated role "ops"'],
      ['delete', 'DELETE /api/external/roles/{roleId}', 'External API: deleted role "ops"'],
    ])
    for (const entry of entries) {
      expect(entry).toMatchObject({
        type: 'role_management',
        resource_type: 'role',
        resource_id: id,
        user_id: tenant.admin.id,
      })
    }
    expect(entries[1]?.metadata).toEqual({ canUseChat: false })
  })

  test('read-only fields are rejected', async () => {
    const [tenant, other] = [await newTenant(), await newTenant()]
    const privileged = {
      id: UNKNOWN,
      tenant_id: other.id,
      isSystem: true,
      is_system: 1,
      userCount: 99,
      createdBy: { id: other.admin.id },
      created_by: other.admin.id,
      createdAt: '1999-01-01T00:00:00.000Z',
    }
    const role = await create(tenant, named('ops'))
    for (const [name, value] of Object.entries(privileged)) {
      const made = await tenant.call('POST', BASE, { ...named('other'), [name]: value })
      expect([name, made.status]).toEqual([name, 400])
      // Counts change asynchronously, so a GET may return an older one.
      const changed = await tenant.call('PUT', `${BASE}/${role.id}`, { [name]: value })
      expect([name, changed.status]).toEqual([name, name === 'userCount' ? 200 : 400])
    }
    const [shown, ...others] = (await list(tenant, { isSystem: 'false' })).roles
    expect([shown, others]).toEqual([{ ...role, updatedAt: shown?.updatedAt }, []])
    expect(await namesOf(other, { isSystem: 'false' })).toEqual([])
  })
})
