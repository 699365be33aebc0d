import { sql } from 'kysely'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openDatabase } from '../../../../src/daemon/platform/db/database.ts'
import type { Db } from '../../../../src/daemon/platform/db/db.ts'
import { describeEachEngine, storeForEach } from '../../../engines.ts'
import { incidentRow } from '../ledger/rows.ts'
import { type ChainRig, draftOf, newTenant, openChainRig, problemsOf } from './chain-rig.ts'

const entriesOf = (db: Db, tenantId: string) =>
  db
    .selectFrom('evidence_entries')
    .selectAll()
    .where('tenant_id', '=', tenantId)
    .orderBy('chain')
    .orderBy('seq')
    .execute()

describeEachEngine('evidence in the ledger', (engine) => {
  const store = storeForEach(engine)
  let rig: ChainRig
  let tenants: [string, string]
  beforeEach(async () => {
    rig = await openChainRig(store.db)
    tenants = [await newTenant(store.db), await newTenant(store.db)]
  })
  afterEach(() => rig.ledger.close())

  const commit = (id: string, tenantId: string) =>
    rig.ledger.commit({ incidents: [incidentRow(id)], evidence: [draftOf(tenantId, `jti-${id}`)] })

  test('of 200 concurrent requests gives one complete chain per tenant, with fewer signatures than entries', async () => {
    await Promise.all(Array.from({ length: 200 }, (_, at) => commit(`r${at}`, tenants[at % 2] as string)))
    for (const tenantId of tenants) {
      const [chain, ...others] = await rig.verify(tenantId)
      expect([chain?.ok, chain?.size, others]).toEqual([true, 100, []])
    }
    const commits = await store.db.selectFrom('evidence_commits').select('id').execute()
    expect(commits.length).toBeLessThan(20)
  })

  test('of rejected records is not written, and leaves no gap between others', async () => {
    await commit('taken', tenants[0])
    const all = Array.from({ length: 60 }, (_, at) =>
      commit(at % 10 === 3 ? 'taken' : `r${at}`, tenants[at % 2] as string),
    )
    const settled = await Promise.allSettled(all)
    expect(settled.filter(({ status }) => status === 'rejected')).toHaveLength(6)
    await Promise.all(Array.from({ length: 20 }, (_, at) => commit(`later${at}`, tenants[0])))
    for (const tenantId of tenants) expect(problemsOf(await rig.verify(tenantId))).toEqual([])
    const found = [...(await entriesOf(store.db, tenants[0])), ...(await entriesOf(store.db, tenants[1]))]
    expect(found).toHaveLength(1 + 54 + 20)
    const billed = await store.db.selectFrom('incidents').select('id').execute()
    expect(found.map(({ id }) => id).sort()).toEqual(billed.map(({ id }) => `jti-${id}`).sort())
  })

  test('continues in the same chain after a restart', async () => {
    const daemonId = 'abcdefabcdef'
    for (const run of ['a', 'b']) {
      const daemon = await openChainRig(store.db, { daemonId })
      await daemon.ledger.commit({ evidence: [draftOf(tenants[0], `jti-${run}`)] })
      await daemon.ledger.close()
    }
    const entries = await entriesOf(store.db, tenants[0])
    expect(entries.map(({ id, seq, chain }) => [id, seq, chain])).toEqual([
      ['jti-a', 0, `requests-${daemonId}`],
      ['jti-b', 1, `requests-${daemonId}`],
    ])
    expect(problemsOf(await rig.verify(tenants[0]))).toEqual([])
  })

  test('of two daemons with the same name stays complete, in more than one chain', async () => {
    const both = [
      await openChainRig(store.db, { daemonId: 'abcdefabcdef' }),
      await openChainRig(store.db, { daemonId: 'abcdefabcdef' }),
    ]
    await Promise.all(
      Array.from({ length: 200 }, (_, at) =>
        both[at % 2]?.ledger.commit({
          incidents: [incidentRow(`r${at}`)],
          evidence: [draftOf(tenants[0], `jti-${at}`)],
        }),
      ),
    )
    for (let round = 0; round < 10; round++) {
      for (const [at, { ledger }] of both.entries()) {
        await ledger.commit({ evidence: [draftOf(tenants[0], `jti-${round}-of-${at}`)] })
      }
    }
    for (const { ledger } of both) await ledger.close()
    const chains = await rig.verify(tenants[0])
    expect(problemsOf(chains)).toEqual([])
    expect(chains.reduce((sum, { size }) => sum + size, 0)).toBe(220)
  })

  test('with the id of an existing entry is rejected, whatever its content', async () => {
    await rig.ledger.commit({ evidence: [draftOf(tenants[0], 'jti-1')] })
    await expect(rig.ledger.commit({ evidence: [draftOf(tenants[0], 'jti-1')] })).rejects.toThrow()
    await expect(rig.ledger.commit({ evidence: [draftOf(tenants[1], 'jti-1', { other: 1 })] })).rejects.toThrow()
    expect(problemsOf(await rig.verify(tenants[0]))).toEqual([])
    expect(await rig.verify(tenants[1])).toEqual([])
  })

  test('is rejected with its request when the chain cannot be written, and the chain continues later', async () => {
    await commit('before', tenants[0])
    await sql`create unique index one_signature on evidence_commits (kid)`.execute(store.db)
    await expect(commit('lost', tenants[0])).rejects.toThrow()
    await sql`drop index one_signature`.execute(store.db)
    await commit('after', tenants[0])
    expect((await entriesOf(store.db, tenants[0])).map(({ id }) => id)).toEqual(['jti-before', 'jti-after'])
    expect(problemsOf(await rig.verify(tenants[0]))).toEqual([])
    expect(await store.db.selectFrom('incidents').select('id').orderBy('id').execute()).toEqual([
      { id: 'after' },
      { id: 'before' },
    ])
  })

  test('of several entries in one request is written completely', async () => {
    const drafts = [draftOf(tenants[0], 'jti-1'), draftOf(tenants[1], 'jti-2'), draftOf(tenants[0], 'jti-3')]
    await rig.ledger.commit({ evidence: drafts })
    expect((await entriesOf(store.db, tenants[0])).map(({ seq, leaf_index }) => [seq, leaf_index])).toEqual([
      [0, 0],
      [1, 2],
    ])
    for (const tenantId of tenants) expect(problemsOf(await rig.verify(tenantId))).toEqual([])
  })

  test('of separate daemons is in separate chains', async () => {
    const other = await openDatabase(store.place.options)
    const second = await openChainRig(other)
    await Promise.all([
      ...Array.from({ length: 50 }, (_, at) => commit(`a${at}`, tenants[0])),
      ...Array.from({ length: 50 }, (_, at) => second.ledger.commit({ evidence: [draftOf(tenants[0], `jti-b${at}`)] })),
    ])
    await second.ledger.close()
    await other.destroy()
    expect((await rig.verify(tenants[0])).map(({ ok, size }) => [ok, size])).toEqual([
      [true, 50],
      [true, 50],
    ])
  })
})
