import { expect, test } from 'vitest'
import { appendChanges } from '../../../../src/daemon/records/evidence/change-entry.ts'
import { listEntries } from '../../../../src/daemon/records/evidence/entry-list.ts'
import { createLogProjector } from '../../../../src/daemon/records/evidence/log-projector.ts'
import { createRetention } from '../../../../src/daemon/records/evidence/retention.ts'
import { DAY_MS, isoTime } from '../../../../src/shared/time.ts'
import { describeEachEngine, storeForEach } from '../../../engines.ts'
import { addEntries, newRequestChain, requestPayload } from '../../../evidence-rows.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { draftOf, newTenant, openChainRig } from './chain-rig.ts'

describeEachEngine('retention', (engine) => {
  const store = storeForEach(engine)

  test('expunges expired requests, also rejected ones, and keeps changes and the chain', async () => {
    const { db } = store
    const clock = createFakeClock()
    const { ledger, keys, verify } = await openChainRig(db, { clock })
    const tenantId = await newTenant(db)
    const categories = ['data_protection', 'security']
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
    expect(await gone()).toEqual(['1-data_protection', '1-security'])
    clock.advance(100 * DAY_MS)
    await retention.run()
    await createRetention({ db, clock, days: 0 }).run()
    expect(await gone()).toEqual(['1-data_protection', '1-security', '2-data_protection', '2-security'])
    expect((await verify(tenantId)).map(({ ok, expunged }) => [ok, expunged])).toEqual([
      [true, 0],
      [true, 4],
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

  test('is visible in the summaries of the log', async () => {
    const { db } = store
    const clock = createFakeClock()
    const tenantId = await newTenant(db)
    const startedMs = clock.now()
    const at = (number: number) => isoTime(startedMs + number * 20_000)
    const chain = newRequestChain()
    for (let from = 0; from < 4_400; from += 1_100) {
      const numbers = Array.from({ length: 1_100 }, (_, offset) => from + offset)
      await addEntries(
        db,
        tenantId,
        chain,
        numbers.map((number) => ({
          createdAt: at(number),
          payload: requestPayload({ user_id: 'ada', key_id: number < 1_000 ? 'kold' : 'knew' }),
        })),
      )
    }
    const log = { error: (details: object) => expect.unreachable(JSON.stringify(details)) }
    await createLogProjector({ db, clock, log }).run()
    const totals = async () => {
      const filters = [{ severity: 'info' }, { userId: 'ada' }, { keyId: 'kold' }, { keyId: 'knew' }, {}]
      const page = { page: 1, limit: 5, sortOrder: 'desc' } as const
      return Promise.all(filters.map(async (filter) => (await listEntries(db, tenantId, filter, page)).total))
    }
    expect(await totals()).toEqual([4_400, 4_400, 1_000, 3_400, 4_400])
    // The first 1,100 entries become older than a day.
    clock.advance(DAY_MS + 1_100 * 20_000)
    await createRetention({ db, clock, days: 1 }).run()
    expect(await totals()).toEqual([3_300, 3_300, 0, 3_300, 4_400])
    const { counts } = await listEntries(db, tenantId, {}, { page: 1, limit: 5, sortOrder: 'desc' })
    expect(counts.find(({ type }) => type === null)?.count).toBe(1_100)
  })
})
