import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { numbered, usernameOf } from '../../../../src/daemon/identity/users/username.ts'
import { USERNAME } from '../../../../src/shared/spec-limits.ts'
import { describeEachEngine } from '../../../engines.ts'
import { sharedGateway } from '../../../harness.ts'
import { addTestTenant } from '../../../tenant-admin.ts'

const BASE = '/api/external/users'

describe('the username of an email', () => {
  test.each([
    ['ada.lovelace@example.com', 'ada.lovelace'],
    ['ada+news@example.com', 'ada-news'],
    ['o_b@example.com', 'o-b'],
    ['al@example.com', 'user-al'],
    ['_@example.com', 'user'],
    ['"a@b"@example.com', 'a-b'],
    [`${'x'.repeat(64)}@example.com`, 'x'.repeat(30)],
    [`${'x'.repeat(29)}.y@example.com`, 'x'.repeat(29)],
  ])('%s', (email, username) => expect(usernameOf(email)).toBe(username))

  test('is always valid, whatever precedes the @, and with any number appended', () => {
    fc.assert(
      fc.property(fc.string(), fc.integer({ min: 1, max: 1_000_000 }), (local, count) => {
        expect(numbered(usernameOf(`${local}@example.com`), count)).toMatch(USERNAME)
      }),
    )
  })
})

describeEachEngine('concurrent creation', (engine) => {
  const shared = sharedGateway({ engine })

  test('of 50 users with one email one is created; the others get a conflict', async () => {
    const tenant = await addTestTenant(shared.current)
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, at) => tenant.call('POST', BASE, { name: `Ada ${at}`, email: 'ada@example.com' })),
    )
    const created = answers.filter(({ status }) => status === 201)
    expect(created).toHaveLength(1)
    for (const { status, body } of answers.filter((answer) => !created.includes(answer))) {
      expect([status, body.error]).toEqual([409, 'Email already exists'])
    }
    expect(await tenant.audit()).toHaveLength(1)
  })

  test('30 users with similar emails get different usernames', async () => {
    const tenant = await addTestTenant(shared.current)
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, at) =>
        tenant.call('POST', BASE, { name: `I ${at}`, email: `info@${at}.example` }),
      ),
    )
    expect(answers.map(({ status }) => status)).toEqual(Array(30).fill(201))
    const usernames = answers.map(({ body }) => body.user.username)
    expect(new Set(usernames).size).toBe(30)
    expect(usernames).toContain('info')
    expect(usernames).toContain('info2')
    for (const username of usernames) expect(username).toMatch(/^info\d*$/)
  })

  test('of users renamed to one name concurrently one is renamed', async () => {
    const tenant = await addTestTenant(shared.current)
    const users = await Promise.all(Array.from({ length: 10 }, () => tenant.addUser()))
    const answers = await Promise.all(users.map(({ id }) => tenant.call('PUT', `${BASE}/${id}`, { name: 'Ada' })))
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(9).fill(409)])
  })

  test('creating users while their custom role is deleted causes no internal error', async () => {
    const tenant = await addTestTenant(shared.current)
    for (let round = 0; round < 5; round++) {
      const role = await tenant.call('POST', '/api/external/roles', {
        name: `role-${round}`,
        displayName: 'r',
        description: '',
      })
      const roleId = role.body.role.id
      const [created, deleted] = await Promise.all([
        tenant.call('POST', BASE, { name: `u${round}`, email: `u${round}@example.com`, roleId }),
        tenant.call('DELETE', `/api/external/roles/${roleId}`),
      ])
      expect([
        [201, 409],
        [400, 200],
      ]).toContainEqual([created.status, deleted.status])
    }
  })

  test('changing a group while one of its users is deleted leaves a correct count', async () => {
    const tenant = await addTestTenant(shared.current)
    for (let round = 0; round < 5; round++) {
      const user = await tenant.addUser()
      const [created] = await Promise.all([
        tenant.call('POST', '/api/external/groups', { name: `g${round}`, description: '', users: [user.id] }),
        tenant.call('DELETE', `${BASE}/${user.id}`),
      ])
      expect([201, 400]).toContain(created.status)
      if (created.status === 201) {
        const { body } = await tenant.call('GET', `/api/external/groups/${created.body.group.id}`)
        expect(body.group).toMatchObject({ userCount: 0, users: [] })
      }
    }
  })
})
