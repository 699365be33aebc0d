import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { createAuthenticator } from '../../../../src/daemon/identity/keys/authenticate.ts'
import { createMasterKey } from '../../../../src/daemon/platform/secrets/seal.ts'
import { type Activity, type ChangeDeps, change } from '../../../../src/daemon/records/audit/change.ts'
import { openSigningKeys } from '../../../../src/daemon/records/evidence/signing-keys.ts'
import { secretHash } from '../../../../src/shared/ids.ts'
import { isoTime, systemClock } from '../../../../src/shared/time.ts'
import { addKey, addRole } from '../../../accounts.ts'
import { describeEachEngine, postgresEngine } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { sharedGateway, startGateway } from '../../../harness.ts'
import { holdRequest } from '../../../held-request.ts'
import { addTestTenant, type TestTenant } from '../../../tenant-admin.ts'
import { TEST_MASTER_KEY } from '../../../webhook-rows.ts'

const USERS = '/api/external/users'
const KEYS = '/api/admin/api-keys'
const BACKDOOR = JSON.stringify({ name: 'backdoor', email: 'b@example.com', role: 'admin' })

describeEachEngine('a change asks for the rights its caller has when it is made', (engine) => {
  const shared = sharedGateway({ engine })

  async function companyWithTwo() {
    const tenant = await addTestTenant(shared.current)
    const other = await tenant.addUser({ role: 'admin' })
    const key = await addKey(tenant.db, other)
    const hold = (path = USERS, body = BACKDOOR, method = 'POST') =>
      holdRequest(shared.current.url, { key: key.secret, method, path, body })
    return { tenant, other, key, hold }
  }
  const written = async ({ db, id }: TestTenant) => {
    const users = await db.selectFrom('users').select('id').where('tenant_id', '=', id).execute()
    const keys = await db.selectFrom('api_keys').select('id').where('tenant_id', '=', id).execute()
    return [users.length, keys.length]
  }

  const ways: [string, number, (company: Awaited<ReturnType<typeof companyWithTwo>>) => Promise<number>][] = [
    [
      'its key is revoked',
      401,
      async ({ tenant, key }) => (await tenant.call('DELETE', `${KEYS}/${key.row.id}`)).status,
    ],
    [
      'its key gets a new secret',
      401,
      async ({ tenant, key }) => (await tenant.call('POST', `${KEYS}/${key.row.id}/rotate`)).status,
    ],
    [
      'its key loses administration',
      403,
      async ({ tenant, key }) => (await tenant.call('PUT', `${KEYS}/${key.row.id}`, { adminAccess: false })).status,
    ],
    [
      'its owner is deactivated',
      401,
      async ({ tenant, other }) => (await tenant.call('PUT', `${USERS}/${other.id}`, { status: 0 })).status,
    ],
    [
      'its owner is demoted',
      403,
      async ({ tenant, other }) => (await tenant.call('PUT', `${USERS}/${other.id}`, { role: 'user' })).status,
    ],
    [
      'its owner is deleted',
      401,
      async ({ tenant, other }) => (await tenant.call('DELETE', `${USERS}/${other.id}`)).status,
    ],
    [
      'its tenant is disabled',
      401,
      async ({ tenant }) =>
        (await shared.current.call('PUT', `/api/admin/tenants/${tenant.id}`, { status: 'Disabled' })).status,
    ],
  ]
  test.each(ways)('while the body of a request arrives, %s: %i, and nothing is written', async (_, status, stop) => {
    const company = await companyWithTwo()
    const held = [
      await company.hold(),
      await company.hold(KEYS, JSON.stringify({ name: 'backdoor' })),
      await company.hold('/api/external/roles', JSON.stringify({ name: 'planted', displayName: 'x', description: '' })),
      await company.hold('/api/external/groups', JSON.stringify({ name: 'planted', description: '' })),
      await company.hold('/api/external/indexes', JSON.stringify({ name: 'planted' })),
    ]
    expect(await stop(company)).toBe(200)
    const before = await written(company.tenant)
    const entries = (await company.tenant.audit()).length
    for (const request of held) expect((await request.finish()).status).toBe(status)
    expect(await written(company.tenant)).toEqual(before)
    expect(await company.tenant.audit()).toHaveLength(entries)
  })

  test('while the body of a request arrives, its key expires: 401, and nothing is written', async () => {
    const clock = createFakeClock()
    const gateway = await startGateway({ engine, clock })
    const tenant = await addTestTenant(gateway)
    const expires_at = isoTime(clock.now() + 3_000)
    const key = await addKey(tenant.db, await tenant.addUser({ role: 'admin' }), { expires_at })
    const bodies = { [USERS]: BACKDOOR, [KEYS]: JSON.stringify({ name: 'backdoor' }) }
    const held = await Promise.all(
      Object.entries(bodies).map(([path, body]) =>
        holdRequest(gateway.url, { key: key.secret, method: 'POST', path, body }),
      ),
    )
    const before = await written(tenant)
    clock.advance(3_000)
    const answers = await Promise.all(held.map((request) => request.finish()))
    expect(answers.map(({ status }) => status)).toEqual([401, 401])
    for (const { text } of answers) expect(text).toContain('has expired')
    expect(await written(tenant)).toEqual(before)
  })

  test('a caller who has lost rights cannot grant them', async () => {
    const company = await companyWithTwo()
    const { tenant, other } = company
    const held = await company.hold()
    const role = await addRole(tenant.db, {
      tenant_id: tenant.id,
      permissions: [{ section: 'user-management', level: 'admin' }],
    })
    expect((await tenant.call('PUT', `${USERS}/${other.id}`, { role: 'user', roleId: role.id })).status).toBe(200)
    const { status, text } = await held.finish()
    expect([status, text]).toEqual([403, expect.stringContaining('has rights that your key lacks')])
  })

  test('training stops when its key, or the right to the index, is revoked', async () => {
    const tenant = await addTestTenant(shared.current)
    expect((await tenant.call('POST', '/api/external/indexes', { name: 'docs' })).status).toBe(201)
    const user = await tenant.addUser()
    const document = JSON.stringify([{ name: 'p.txt', type: 'text/plain', content: 'poison', size: 6 }])
    const body = `--XX\r\ncontent-disposition: form-data; name="text_inputs"\r\n\r\n${document}\r\n--XX--\r\n`
    const stops: [number, (id: string) => ReturnType<typeof tenant.call>][] = [
      [401, (id) => tenant.call('DELETE', `${KEYS}/${id}`)],
      [403, (id) => tenant.call('PUT', `${KEYS}/${id}`, { allowedIndexes: ['other'] })],
      [403, (id) => tenant.call('PUT', `${KEYS}/${id}`, { indexAccess: 'read' })],
    ]
    for (const [expected, stop] of stops) {
      const { secret, row } = await addKey(tenant.db, user, { settings: { indexAccess: 'write' } })
      const path = '/api/external/indexes/docs/train'
      const type = 'multipart/form-data; boundary=XX'
      const held = await holdRequest(shared.current.url, { key: secret, method: 'POST', path, body, type })
      expect((await stop(row.id)).status).toBe(200)
      expect((await held.finish()).status).toBe(expected)
      const found = await tenant.call('GET', '/api/external/indexes/docs/search?query=poison')
      expect(found.body.results.matches).toEqual([])
    }
  })

  test('cached keys are invalidated by changes that affect them, not by others', async () => {
    const tenant = await addTestTenant(shared.current)
    const { actor, deps } = await changing(tenant)
    const forgotten: string[] = []
    const counting = { ...deps, forgetKeys: (tenantId: string) => void forgotten.push(tenantId) }
    for (const [type, times] of [
      ['index_management', 0],
      // The members of groups are cached with the keys, for the budgets of groups.
      ['group_management', 1],
      ['user_management', 2],
      ['role_management', 3],
      ['key_management', 4],
      ['tenant_management', 5],
    ] as const) {
      await change(counting, actor, ({ record }) => record({ ...ACTIVITY, type }))
      expect([type, forgotten]).toEqual([type, Array(times).fill(actor.caller.tenantId)])
    }
    const elsewhere = { ...ACTIVITY, type: 'tenant_management', tenantId: 'other' } as const
    await change(counting, actor, ({ record }) => record(elsewhere))
    expect(forgotten.slice(5)).toEqual(['other'])
  })
})

const ACTIVITY: Activity = {
  type: 'group_management',
  operation: 'create',
  resourceType: 'group',
  resourceId: 'f'.repeat(24),
  description: 'did something',
}

/** The parameters of a change by an administrator of the tenant. */
async function changing({ db, admin }: TestTenant) {
  const { secret } = await addKey(db, admin)
  const authenticator = createAuthenticator({ db, clock: systemClock })
  const headers = { authorization: `Bearer ${secret}` }
  const caller = await authenticator.authenticate({ headers, socket: { remoteAddress: '127.0.0.1' } } as never)
  expect(caller.secretHash).toBe(secretHash(secret))
  const masterKey = createMasterKey(TEST_MASTER_KEY)
  const signingKeys = await openSigningKeys(db, { masterKey, name: 'test', clock: systemClock })
  const deps: ChangeDeps = { db, clock: systemClock, signingKeys, ...authenticator }
  return { deps, actor: { caller, requestId: 'req-1', endpoint: 'POST /x', access: 'key' as const } }
}

describe('on PostgreSQL', () => {
  test('a change whose transaction was rolled back is retried exactly once', async () => {
    const gateway = await startGateway({ engine: postgresEngine })
    const tenant = await addTestTenant(gateway)
    const { deps, actor } = await changing(tenant)
    let runs = 0
    const breakingUntil = (last: number) =>
      change(deps, actor, async ({ tx, record }) => {
        runs += 1
        await record(ACTIVITY)
        if (runs < last) await sql`do $$ begin raise exception 'deadlock' using errcode = '40P01'; end $$`.execute(tx)
      })
    await breakingUntil(2)
    expect([runs, (await tenant.audit()).length]).toEqual([2, 1])
    runs = 0
    await expect(breakingUntil(3)).rejects.toThrow('deadlock')
    expect([runs, (await tenant.audit()).length]).toEqual([2, 1])
  })

  test('a change that failed in its commit, which may have happened, is not retried', async () => {
    const gateway = await startGateway({ engine: postgresEngine })
    const tenant = await addTestTenant(gateway)
    const { deps, actor } = await changing(tenant)
    await sql`create function refuse() returns trigger language plpgsql as
      $$ begin raise exception 'lost' using errcode = '40003'; end $$`.execute(tenant.db)
    await sql`create constraint trigger refuse after insert on evidence_entries
      deferrable initially deferred for each row execute function refuse()`.execute(tenant.db)
    let runs = 0
    let forgotten = 0
    const run = change({ ...deps, forgetKeys: () => (forgotten += 1) }, actor, async ({ record }) => {
      runs += 1
      await record({ ...ACTIVITY, type: 'key_management' })
    })
    await expect(run).rejects.toThrow('lost')
    expect([runs, forgotten]).toEqual([1, 1])
  })

  test('concurrent changes of the same rows wait for one another and never fail', async () => {
    const gateway = await startGateway({ engine: postgresEngine })
    const tenant = await addTestTenant(gateway)
    const groups = []
    for (const name of ['a', 'b']) {
      groups.push((await tenant.call('POST', '/api/external/groups', { name, description: '' })).body.group.id)
    }
    for (let round = 0; round < 8; round++) {
      const user = await tenant.addUser()
      const keys = [await addKey(tenant.db, user), await addKey(tenant.db, user)]
      const paths = keys.map(({ row }) => `${KEYS}/${row.id}`) as [string, string]
      const answers = await Promise.all([
        tenant.call('PUT', paths[0], { name: 'x' }),
        tenant.call('DELETE', `${USERS}/${user.id}`),
        tenant.call('POST', `${paths[1]}/rotate`),
        tenant.call('PUT', `/api/external/groups/${groups[0]}`, { name: 'b' }),
        tenant.call('PUT', `/api/external/groups/${groups[1]}`, { name: 'a' }),
        tenant.call('POST', '/api/external/groups', { name: `g${round}`, description: '', users: [tenant.admin.id] }),
        gateway.call('PUT', `/api/admin/tenants/${tenant.id}`, { name: `t-${round}-${tenant.id}` }),
      ])
      const [changed, deleted, rotated, ...others] = answers.map(({ status }) => status)
      expect([200, 404]).toContain(changed)
      expect([200, 404]).toContain(rotated)
      expect([deleted, ...others]).toEqual([200, 409, 409, 201, 200])
    }
  })
})
