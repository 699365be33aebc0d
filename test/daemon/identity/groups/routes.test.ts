import fc from 'fast-check'
import { expect, test } from 'vitest'
import { GROUP_BODY_BYTES } from '../../../../src/daemon/identity/groups/routes.ts'
import { insertRows } from '../../../../src/daemon/platform/db/insert-rows.ts'
import { newId } from '../../../../src/shared/ids.ts'
import { GROUP_LIST_USERS, GROUP_USERS } from '../../../../src/shared/spec-limits.ts'
import { DoneResponse, StructuredError } from '../../../../src/shared/wire/common.ts'
import { type Group, GroupResponse, ListGroupsResponse, ShowGroupResponse } from '../../../../src/shared/wire/groups.ts'
import { userRow } from '../../../accounts.ts'
import { describeEachEngine } from '../../../engines.ts'
import { sharedGateway } from '../../../harness.ts'
import { addTestTenant, type TestTenant } from '../../../tenant-admin.ts'

const BASE = '/api/external/groups'
const UNKNOWN = 'f'.repeat(24)

describeEachEngine('groups', (engine) => {
  const shared = sharedGateway({ engine })
  const newTenant = () => addTestTenant(shared.current)

  async function create(tenant: TestTenant, body: Record<string, unknown>) {
    const answer = await tenant.call('POST', BASE, { description: '', ...body })
    expect(answer.status, answer.text).toBe(201)
    return GroupResponse.strict().parse(answer.body).group
  }
  async function show(tenant: TestTenant, id: string) {
    const answer = await tenant.call('GET', `${BASE}/${id}`)
    expect(answer.status, answer.text).toBe(200)
    return ShowGroupResponse.strict().parse(answer.body).group
  }
  async function list(tenant: TestTenant, query: Record<string, string> = {}) {
    const answer = await tenant.call('GET', `${BASE}?${new URLSearchParams(query)}`)
    expect(answer.status, answer.text).toBe(200)
    return ListGroupsResponse.strict().parse(answer.body)
  }
  const namesOf = async (tenant: TestTenant, query: Record<string, string>) =>
    (await list(tenant, query)).groups.map(({ name }) => name)
  const storedCounts = (tenant: TestTenant) =>
    tenant.db
      .selectFrom('groups')
      .select((the) => [
        'id',
        'user_count',
        the
          .selectFrom('group_members as m')
          .whereRef('m.group_id', '=', 'groups.id')
          .select((inner) => inner.fn.countAll<number>().as('n'))
          .as('members'),
      ])
      .where('tenant_id', '=', tenant.id)
      .execute()

  test('a group is created with its users, deduplicated and sorted by name, and is visible at once', async () => {
    const tenant = await newTenant()
    const bea = await tenant.addUser({ name: 'Bea' })
    const ada = await tenant.addUser({ name: 'Ada' })
    const group = await create(tenant, {
      name: '  Ops ',
      description: ' On call ',
      users: [bea.id, ada.id.toUpperCase(), bea.id],
    })
    expect(group).toEqual({
      id: expect.stringMatching(/^[0-9a-f]{24}$/),
      name: 'Ops',
      description: 'On call',
      status: 'Active',
      userCount: 2,
      users: [
        { id: ada.id, name: 'Ada', email: ada.email },
        { id: bea.id, name: 'Bea', email: bea.email },
      ],
      createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      updatedAt: group.createdAt,
    })
    expect(await show(tenant, group.id)).toEqual(group)
    expect(await show(tenant, group.id.toUpperCase())).toEqual(group)
    expect((await list(tenant)).groups).toEqual([group])
    expect((await storedCounts(tenant))[0]).toMatchObject({ user_count: 2, members: 2 })
  })

  test('optional fields may be missing or null', async () => {
    const tenant = await newTenant()
    expect(await create(tenant, { name: 'a', users: null, status: null })).toMatchObject({
      status: 'Active',
      userCount: 0,
      users: [],
    })
    expect(await create(tenant, { name: 'b', status: 'Inactive', users: [] })).toMatchObject({ status: 'Inactive' })
  })

  test.each([
    [{ description: '' }, 'name'],
    [{ name: '', description: '' }, 'name'],
    [{ name: '   ', description: '' }, 'name'],
    [{ name: 'x'.repeat(101), description: '' }, 'name'],
    [{ name: 7, description: '' }, 'name'],
    [{ name: 'nul\0', description: '' }, 'name'],
    [{ name: 'x' }, 'description'],
    [{ name: 'x', description: null }, 'description'],
    [{ name: 'x', description: 'x'.repeat(2001) }, 'description'],
    [{ name: 'x', description: '', status: 'Archived' }, 'status'],
    [{ name: 'x', description: '', users: 'all' }, 'users'],
    [{ name: 'x', description: '', users: ['nobody'] }, 'users.0'],
    [{ name: 'x', description: '', users: Array(GROUP_USERS + 1).fill(UNKNOWN) }, 'users'],
  ])('POST /groups rejects body %#, naming the field', async (body, field) => {
    const tenant = await newTenant()
    const answer = await tenant.call('POST', BASE, body)
    expect(answer.status).toBe(400)
    const { error } = StructuredError.parse(answer.body)
    expect(error).toMatchObject({ code: 'VALIDATION_ERROR', details: { field } })
    expect((await list(tenant)).groups).toEqual([])
    expect(await tenant.audit()).toEqual([])
  })

  test('users who are unknown, or of another tenant, are rejected by id, and nothing is created or changed', async () => {
    const tenant = await newTenant()
    const member = await tenant.addUser()
    const stranger = (await newTenant()).admin
    const group = await create(tenant, { name: 'mine', users: [member.id] })
    for (const wrong of [UNKNOWN, stranger.id]) {
      const users = [tenant.admin.id, wrong, UNKNOWN]
      for (const answer of [
        await tenant.call('POST', BASE, { name: 'theirs', description: '', users }),
        await tenant.call('PUT', `${BASE}/${group.id}`, { name: 'renamed', users }),
      ]) {
        expect(answer.status).toBe(400)
        const { error } = StructuredError.parse(answer.body)
        expect(error).toMatchObject({ code: 'VALIDATION_ERROR', details: { field: 'users', value: wrong } })
        expect(error.message).toContain(wrong)
      }
    }
    expect((await list(tenant)).groups).toEqual([group])
    expect(await storedCounts(tenant)).toEqual([{ id: group.id, user_count: 1, members: 1 }])
    expect(await tenant.audit()).toHaveLength(1)
  })

  test('of 50 administrators who create one name concurrently, one gets 201 and the others 409', async () => {
    const tenant = await newTenant()
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, at) =>
        tenant.call('POST', BASE, { name: 'ops', description: `${at}`, users: at % 2 ? [tenant.admin.id] : [] }),
      ),
    )
    expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array(49).fill(409)])
    for (const { body } of answers.filter(({ status }) => status === 409)) {
      expect(StructuredError.parse(body).error).toMatchObject({
        code: 'GROUP_NAME_EXISTS',
        details: { field: 'name', value: 'ops' },
      })
    }
    expect(await namesOf(tenant, {})).toEqual(['ops'])
    expect(await tenant.audit()).toHaveLength(1)
  })

  test('a name is unique only within its tenant, and free again after its group is deleted', async () => {
    const [one, two] = [await newTenant(), await newTenant()]
    const { id } = await create(one, { name: 'ops' })
    await create(two, { name: 'ops' })
    expect((await one.call('DELETE', `${BASE}/${id}`)).status).toBe(200)
    await create(one, { name: 'ops' })
  })

  test('PUT changes only the sent fields', async () => {
    const tenant = await newTenant()
    const group = await create(tenant, { name: 'before', description: 'Old', users: [tenant.admin.id] })
    const put = async (body: object) => {
      const answer = await tenant.call('PUT', `${BASE}/${group.id}`, body)
      expect(answer.status, answer.text).toBe(200)
      return GroupResponse.strict().parse(answer.body).group
    }
    const { updatedAt: _, ...kept } = group
    expect(await put({})).toMatchObject(kept)
    expect(await put({ name: null, users: null })).toMatchObject(kept)
    expect(await put({ status: 'Inactive' })).toMatchObject({ ...kept, status: 'Inactive' })
    expect(await put({ name: 'after' })).toMatchObject({ ...kept, status: 'Inactive', name: 'after' })
    expect(await put({ description: '' })).toMatchObject({ name: 'after', description: '', userCount: 1 })
    const last = await put({ users: [] })
    expect(last).toMatchObject({ name: 'after', userCount: 0, users: [] })
    expect(last.updatedAt >= group.updatedAt).toBe(true)
    expect(await show(tenant, group.id)).toEqual(last)
    expect(await namesOf(tenant, { search: 'AFTER' })).toEqual(['after'])
    expect(await namesOf(tenant, { search: 'before' })).toEqual([])
  })

  test('PUT to a name of another group returns 409 and changes nothing', async () => {
    const tenant = await newTenant()
    await create(tenant, { name: 'taken' })
    const group = await create(tenant, { name: 'mine' })
    const answer = await tenant.call('PUT', `${BASE}/${group.id}`, { name: 'taken', description: 'x', users: [] })
    expect(answer.status).toBe(409)
    expect(StructuredError.parse(answer.body).error).toMatchObject({
      code: 'GROUP_NAME_EXISTS',
      details: { field: 'name', value: 'taken' },
    })
    expect(await show(tenant, group.id)).toEqual(group)
    expect(await tenant.audit()).toHaveLength(2)
    const own = await tenant.call('PUT', `${BASE}/${group.id}`, { name: 'mine' })
    expect(own.status).toBe(200)
  })

  test('of ten groups renamed to one name concurrently, one gets it', async () => {
    const tenant = await newTenant()
    const groups = []
    for (let at = 0; at < 10; at++) groups.push(await create(tenant, { name: `g${at}` }))
    const answers = await Promise.all(groups.map(({ id }) => tenant.call('PUT', `${BASE}/${id}`, { name: 'one' })))
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(9).fill(409)])
  })

  test('PUT replaces the members: some stay, some join and some leave', async () => {
    const tenant = await newTenant()
    const users: string[] = []
    for (const name of ['a', 'b', 'c', 'd']) users.push((await tenant.addUser({ name: `${name} ${tenant.id}` })).id)
    const [a, b, c, d] = users as [string, string, string, string]
    const group = await create(tenant, { name: 'ops', users: [a, b] })
    for (const next of [[b, c, d], [a], [d, c, b, a], []]) {
      const answer = await tenant.call('PUT', `${BASE}/${group.id}`, { users: next })
      expect(answer.status, answer.text).toBe(200)
      const changed = GroupResponse.parse(answer.body).group
      expect(changed.users.map(({ id }) => id)).toEqual(users.filter((id) => next.includes(id)))
      expect(changed.userCount).toBe(next.length)
      expect(await storedCounts(tenant)).toEqual([{ id: group.id, user_count: next.length, members: next.length }])
    }
  })

  test('any sequence of member lists leaves exactly the last one', async () => {
    const tenant = await newTenant()
    const users: string[] = []
    for (let at = 0; at < 5; at++) users.push((await tenant.addUser()).id)
    const group = await create(tenant, { name: 'ops' })
    await fc.assert(
      fc.asyncProperty(fc.subarray(users), async (members) => {
        const answer = await tenant.call('PUT', `${BASE}/${group.id}`, { users: members })
        expect(answer.status, answer.text).toBe(200)
        expect(answer.body.group.users.map(({ id }: { id: string }) => id).sort()).toEqual([...members].sort())
        expect(await storedCounts(tenant)).toEqual([
          { id: group.id, user_count: members.length, members: members.length },
        ])
      }),
      { numRuns: 20 },
    )
  })

  test('concurrent changes of members neither deadlock nor miscount', async () => {
    const tenant = await newTenant()
    const users: string[] = []
    for (let at = 0; at < 20; at++) users.push((await tenant.addUser()).id)
    const groups = [await create(tenant, { name: 'one', users }), await create(tenant, { name: 'two' })]
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, at) => {
        const chosen = users.filter((_, position) => (position + at) % 3 > 0)
        return tenant.call('PUT', `${BASE}/${groups[at % 2]?.id}`, { users: at % 4 < 2 ? chosen : chosen.reverse() })
      }),
    )
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
    for (const { user_count, members } of await storedCounts(tenant)) expect(user_count).toBe(members)
  })

  test('a group may have 10,000 users, the maximum of the body', async () => {
    const tenant = await newTenant()
    const users = Array.from({ length: GROUP_USERS }, () => newId())
    await insertRows(
      tenant.db,
      'users',
      users.map((id) => userRow({ id, tenant_id: tenant.id })),
    )
    const group = await create(tenant, { name: 'everyone', description: '€'.repeat(2000), users })
    expect(group.userCount).toBe(GROUP_USERS)
    const fewer = await tenant.call('PUT', `${BASE}/${group.id}`, { users: users.slice(1) })
    expect(fewer.body.group.userCount).toBe(GROUP_USERS - 1)
    const none = await tenant.call('PUT', `${BASE}/${group.id}`, { users: [] })
    expect(none.body.group.userCount).toBe(0)
    const tooLarge = await tenant.call('POST', BASE, { name: 'x', description: 'x'.repeat(GROUP_BODY_BYTES) })
    expect(tooLarge.status).toBe(413)
    expect(StructuredError.parse(tooLarge.body).error.code).toBe('PAYLOAD_TOO_LARGE')
  })

  test('DELETE removes the group and its memberships, and keeps the users', async () => {
    const tenant = await newTenant()
    const group = await create(tenant, { name: 'ops', users: [tenant.admin.id] })
    const answer = await tenant.call('DELETE', `${BASE}/${group.id.toUpperCase()}`)
    expect(answer.status).toBe(200)
    expect(DoneResponse.strict().parse(answer.body).success).toBe(true)
    expect((await list(tenant)).groups).toEqual([])
    expect(await storedCounts(tenant)).toEqual([])
    for (const method of ['GET', 'DELETE']) {
      expect((await tenant.call(method, `${BASE}/${group.id}`)).body.error.code).toBe('GROUP_NOT_FOUND')
    }
    expect((await tenant.call('GET', BASE)).status).toBe(200)
  })

  test.each([UNKNOWN, 'nonsense', '%20', "1' or '1'='1"])('404 GROUP_NOT_FOUND for the id %s', async (id) => {
    const tenant = await newTenant()
    for (const [method, body] of [['GET'], ['PUT', { name: 'x' }], ['DELETE']] as const) {
      const answer = await tenant.call(method, `${BASE}/${encodeURIComponent(id)}`, body)
      expect(answer.status).toBe(404)
      expect(StructuredError.parse(answer.body).error.code).toBe('GROUP_NOT_FOUND')
    }
  })

  test('lists are paged in every order, with ties sorted by id', async () => {
    const tenant = await newTenant()
    const second = await tenant.addUser()
    const sizes = [[tenant.admin.id], [], [tenant.admin.id, second.id], []]
    const created: Group[] = []
    for (const [at, users] of sizes.entries()) {
      created.push(await create(tenant, { name: `g${(at * 3) % 4}`, users, status: at % 2 ? 'Inactive' : 'Active' }))
    }
    const names = (order: number[]) => order.map((at) => created[at]?.name)
    // created in the same millisecond, perhaps: then the ascending ids decide
    expect(await namesOf(tenant, {})).toEqual(names([3, 2, 1, 0]))
    expect(await namesOf(tenant, { sortOrder: 'asc' })).toEqual(names([0, 1, 2, 3]))
    expect(await namesOf(tenant, { sortBy: 'updatedAt', sortOrder: 'asc' })).toEqual(names([0, 1, 2, 3]))
    expect(await namesOf(tenant, { sortBy: 'name', sortOrder: 'asc' })).toEqual(['g0', 'g1', 'g2', 'g3'])
    expect(await namesOf(tenant, { sortBy: 'name' })).toEqual(['g3', 'g2', 'g1', 'g0'])
    expect(await namesOf(tenant, { sortBy: 'userCount', sortOrder: 'asc' })).toEqual(names([1, 3, 0, 2]))
    expect(await namesOf(tenant, { sortBy: 'userCount' })).toEqual(names([2, 0, 3, 1]))
    expect(await namesOf(tenant, { status: 'Inactive' })).toEqual(names([3, 1]))
    expect(await namesOf(tenant, { status: 'Inactive', search: created[1]?.name ?? '' })).toEqual(names([1]))

    const page = await list(tenant, { limit: '3', page: '2' })
    expect(page.groups.map(({ name }) => name)).toEqual(names([0]))
    expect(page.pagination).toEqual({ page: 2, limit: 3, total: 4, pages: 2 })
    expect((await list(tenant, { limit: '3', page: '3' })).groups).toEqual([])
    expect((await list(tenant, { limit: '5000', page: '0' })).pagination).toMatchObject({ page: 1, limit: 100 })
    const shown = (await list(tenant, { sortBy: 'userCount', limit: '1' })).groups[0]
    expect(shown?.users.map(({ id }) => id).sort()).toEqual([tenant.admin.id, second.id].sort())
  })

  test.each([
    ['sortBy', 'description'],
    ['sortBy', 'name; drop table groups'],
    ['sortOrder', 'desc, (select 1)'],
    ['status', 'Archived'],
    ['limit', 'ten'],
    ['page', '1.5'],
    ['search', 'x'.repeat(201)],
    ['search', '\0'],
  ])('GET /groups rejects %s=%s', async (name, value) => {
    const tenant = await newTenant()
    const answer = await tenant.call('GET', `${BASE}?${new URLSearchParams({ [name]: value })}`)
    expect(answer.status).toBe(400)
    expect(StructuredError.parse(answer.body).error).toMatchObject({
      code: 'VALIDATION_ERROR',
      details: { field: name },
    })
  })

  test('names and searches are literal, including SQL syntax', async () => {
    const tenant = await newTenant()
    const hostile = [
      '100%',
      'a_b',
      'back\\slash',
      "O'Brien",
      '"quoted"',
      "'); drop table groups; --",
      'Größe 😀',
      '日本',
    ]
    for (const name of hostile) await create(tenant, { name, description: `About ${name}` })
    await create(tenant, { name: 'plain 100 axb' })
    for (const name of hostile) {
      expect(await namesOf(tenant, { search: name })).toEqual([name])
      expect(await namesOf(tenant, { search: `out ${name.toLowerCase()}` })).toEqual([name])
      expect((await tenant.call('POST', BASE, { name, description: '' })).status).toBe(409)
    }
    expect(await namesOf(tenant, { search: 'GRÖSSE' })).toEqual([])
    expect(await namesOf(tenant, { search: 'GRÖßE' })).toEqual(['Größe 😀'])
    // The name and the description are separate fields: no match spans both.
    expect(await namesOf(tenant, { search: '100%About' })).toEqual([])
    expect((await list(tenant)).pagination.total).toBe(hostile.length + 1)
  })

  test('every change leaves an audit entry with caller and action', async () => {
    const tenant = await newTenant()
    const user = await tenant.addUser()
    const { id } = await create(tenant, { name: 'ops', description: 'd', users: [user.id] })
    await tenant.call('PUT', `${BASE}/${id}`, { name: 'dev', users: [tenant.admin.id] })
    await tenant.call('DELETE', `${BASE}/${id}`)
    const entries = await tenant.audit()
    expect(entries.map(({ operation, endpoint, description }) => [operation, endpoint, description])).toEqual([
      ['create', 'POST /api/external/groups', 'External API: created group "ops"'],
      ['update', 'PUT /api/external/groups/{groupId}', 'External API: updated group "ops"'],
      ['delete', 'DELETE /api/external/groups/{groupId}', 'External API: deleted group "dev"'],
    ])
    for (const entry of entries) {
      expect(entry).toMatchObject({
        type: 'group_management',
        resource_type: 'group',
        resource_id: id,
        user_id: tenant.admin.id,
      })
    }
    expect(entries.map(({ metadata }) => metadata)).toEqual([
      { description: 'd', status: 'Active', usersAdded: [user.id] },
      { name: 'dev', usersAdded: [tenant.admin.id], usersRemoved: [user.id] },
      { userCount: 1 },
    ])
  })

  test('read-only fields are rejected', async () => {
    const [tenant, other] = [await newTenant(), await newTenant()]
    const privileged = {
      id: UNKNOWN,
      tenant_id: other.id,
      tenantId: other.id,
      userCount: 99,
      user_count: 99,
      createdAt: '1999-01-01T00:00:00.000Z',
      updatedAt: '1999-01-01T00:00:00.000Z',
      search_text: 'x',
    }
    const group = await create(tenant, { name: 'ops' })
    for (const [name, value] of Object.entries(privileged)) {
      const made = await tenant.call('POST', BASE, { name: 'other', description: '', [name]: value })
      expect([name, made.status]).toEqual([name, 400])
      // These change asynchronously, so a GET may return older values.
      const isMoving = name === 'userCount' || name === 'updatedAt'
      const changed = await tenant.call('PUT', `${BASE}/${group.id}`, { [name]: value })
      expect([name, changed.status]).toEqual([name, isMoving ? 200 : 400])
    }
    const [shown, ...others] = (await list(tenant)).groups
    expect([shown, others]).toEqual([{ ...group, updatedAt: shown?.updatedAt }, []])
    expect((await list(other)).groups).toEqual([])
    expect(await storedCounts(tenant)).toEqual([{ id: group.id, user_count: 0, members: 0 }])
  })

  test('a list shows at most 100 members of a group and their total; the group itself shows all', async () => {
    const tenant = await newTenant()
    const users = Array.from({ length: 2 * GROUP_LIST_USERS }, (_, at) =>
      userRow({ tenant_id: tenant.id, name: `User ${String(900 - at)}` }),
    )
    await insertRows(tenant.db, 'users', users)
    const idsOf = (given: readonly { id: string }[]) => given.map(({ id }) => id)
    for (const size of [GROUP_LIST_USERS - 1, GROUP_LIST_USERS, GROUP_LIST_USERS + 1, users.length]) {
      const members = idsOf(users.slice(0, size))
      const group = await create(tenant, { name: `of ${size}`, users: members })
      // The last user has the first name.
      expect(idsOf(group.users)).toEqual(members.toReversed())
      expect(await show(tenant, group.id)).toEqual(group)
      const [listed] = (await list(tenant, { search: `of ${size}` })).groups
      expect(listed).toEqual({ ...group, users: group.users.slice(-GROUP_LIST_USERS) })
      const { body } = await tenant.call('PUT', `${BASE}/${group.id}`, { description: 'changed' })
      expect(body.group.users).toEqual(group.users)
    }
  })
})
