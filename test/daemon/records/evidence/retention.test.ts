import { expect, test } from 'vitest'
import { appendChanges } from '../../../../src/daemon/records/evidence/change-entry.ts'
import { createRetention } from '../../../../src/daemon/records/evidence/retention.ts'
import { DAY_MS } from '../../../../src/shared/time.ts'
import { describeEachEngine, storeForEach } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { draftOf, newTenant, openChainRig } from './chain-rig.ts'

describeEachEngine('retention', (engine) => {
  const store = storeForEach(engine)

  test('expunges expired requests, and keeps changes, security entries and the chain', async () => {
    const { db } = store
    const clock = createFakeClock()
    const { ledger, keys, verify } = await openChainRig(db, { clock })
    const tenantId = await newTenant(db)
    const categories = ['data_protection', 'security', 'pii', 'phi', 'authorization']
    const write = async (round: number) => {
      for (const compliance_category of categories) {
        const draft = draftOf(tenantId, `${round}-${compliance_category}`, { compliance_category }, clock.now())
        await ledger.commit({ evidence: [draft] })
      }
      const change = draftOf(tenantId, `${round}-change`, {}, clock.now())
      await db.transaction().execute((tx) => appendChanges(tx, [change], { keys, clock, lockedTenantId: tenantId }))
    }
    const gone = async () =>
      (await db.selectFrom('evidence_entries').select('id').where('payload', 'is', null).orderBy('id').execute()).map(
        ({ id }) => id,
      )
    const retention = createRetention({ db, clock, days: 30 })
    await write(1)
    clock.advance(10 * DAY_MS)
    await write(2)
    clock.advance(20 * DAY_MS)
    await retention.run()
    expect(await gone()).toEqual([])
    clock.advance(1)
    await retention.run()
    expect(await gone()).toEqual(['1-data_protection'])
    clock.advance(100 * DAY_MS)
    await retention.run()
    await createRetention({ db, clock, days: 0 }).run()
    expect(await gone()).toEqual(['1-data_protection', '2-data_protection'])
    expect((await verify(tenantId)).map(({ ok, expunged }) => [ok, expunged])).toEqual([
      [true, 0],
      [true, 2],
    ])
    await ledger.close()
  })

  test('skips unreadable entries', async () => {
    const clock = createFakeClock()
    const { ledger } = await openChainRig(store.db, { clock })
    const tenants = [await newTenant(store.db), await newTenant(store.db)]
    for (const tenant of tenants) {
      for (const id of ['one', 'two'])
        await ledger.commit({ evidence: [draftOf(tenant, `${tenant}-${id}`, {}, clock.now())] })
    }
    const broken = tenants.map((tenant) => `${tenant}-one`)
    await store.db.updateTable('evidence_entries').set({ payload: '{' }).where('id', 'in', broken).execute()
    clock.advance(2 * DAY_MS)
    await createRetention({ db: store.db, clock, days: 1 }).run()
    const kept = await store.db.selectFrom('evidence_entries').select('id').where('payload', 'is not', null).execute()
    expect(kept.map(({ id }) => id).sort()).toEqual(broken.sort())
    await ledger.close()
  })

  test('processes more than one batch', async () => {
    const clock = createFakeClock()
    const { ledger, verify } = await openChainRig(store.db, { clock })
    const tenantId = await newTenant(store.db)
    await Promise.all(
      Array.from({ length: 1_100 }, (_, at) =>
        ledger.commit({ evidence: [draftOf(tenantId, `jti-${at}`, {}, clock.now())] }),
      ),
    )
    clock.advance(2 * DAY_MS)
    await createRetention({ db: store.db, clock, days: 1 }).run()
    expect(await verify(tenantId)).toMatchObject([{ ok: true, size: 1_100, expunged: 1_100 }])
    await ledger.close()
  })
})
