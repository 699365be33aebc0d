import { expect, test } from 'vitest'
import { describeEachEngine } from '../../../engines.ts'
import { sharedGateway } from '../../../harness.ts'
import { addTestTenant } from '../../../tenant-admin.ts'

const BASE = '/api/external/users'

describeEachEngine('licence pools', (engine) => {
  const shared = sharedGateway({ engine, licenses: { Growth: 5, Ultra: 1 } })

  test('20 concurrent users for a pool of 5: exactly 5 are created', async () => {
    const tenant = await addTestTenant(shared.current)
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, at) =>
        tenant.call('POST', BASE, { name: `User ${at}`, email: `u${at}@example.com`, license: 'Growth' }),
      ),
    )
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(5)
    for (const { status, body } of answers) {
      if (status === 201) continue
      expect([status, body.error, body.message]).toEqual([400, 'License unavailable', expect.stringContaining('5/5')])
    }
    const { body } = await tenant.call('GET', '/api/external/licenses/availability')
    expect(body).toMatchObject({
      limits: { Growth: 5, Ultra: 1, Essential: 0 },
      usage: { Growth: 5, Ultra: 0 },
      remaining: { Growth: 0, Ultra: 1, Essential: null },
    })
  })

  test('a change of licence moves the user between pools; without a change the pools stay the same', async () => {
    const tenant = await addTestTenant(shared.current)
    const [ada, bea] = [await tenant.addUser({ license: 'Ultra' }), await tenant.addUser()]
    const update = (id: string, body: object) => tenant.call('PUT', `${BASE}/${id}`, body)
    expect((await update(ada.id, { license: 'Ultra', status: 0 })).status).toBe(200)
    const refused = await update(bea.id, { license: 'Ultra' })
    expect([refused.status, refused.body.error, refused.body.message]).toEqual([
      400,
      'License unavailable',
      expect.stringContaining('1/1'),
    ])
    expect((await update(ada.id, { license: 'Growth' })).status).toBe(200)
    expect((await update(bea.id, { license: 'Ultra' })).status).toBe(200)
  })

  test('two concurrent users for the last licence: one gets it', async () => {
    const tenant = await addTestTenant(shared.current)
    const users = [await tenant.addUser(), await tenant.addUser()]
    const answers = await Promise.all(users.map(({ id }) => tenant.call('PUT', `${BASE}/${id}`, { license: 'Ultra' })))
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 400])
  })

  test('each tenant has its own pool, and a reduced pool takes no licence away', async () => {
    const [one, two] = [await addTestTenant(shared.current), await addTestTenant(shared.current)]
    await one.addUser({ license: 'Ultra' })
    await one.addUser({ license: 'Ultra' })
    expect((await two.call('POST', BASE, { name: 'a', email: 'a@example.com', license: 'Ultra' })).status).toBe(201)
    const { body } = await one.call('GET', '/api/external/licenses/availability')
    expect([body.usage.Ultra, body.remaining.Ultra]).toEqual([2, 0])
  })
})
