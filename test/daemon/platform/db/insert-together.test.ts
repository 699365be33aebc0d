import { expect, test } from 'vitest'
import { openDatabase } from '../../../../src/daemon/platform/db/database.ts'
import { UnstorableValueError } from '../../../../src/daemon/platform/db/engine.ts'
import type { TableRows } from '../../../../src/daemon/platform/db/insert-rows.ts'
import { insertEach, insertTogether } from '../../../../src/daemon/platform/db/insert-together.ts'
import { describeEachEngine, storeForEach } from '../../../engines.ts'
import { incidentRow, rateCounter } from '../../records/ledger/rows.ts'

const usage = (...ids: string[]): TableRows => ({ table: 'incidents', rows: ids.map((id) => incidentRow(id)) })
const counters = (used: number): TableRows => ({
  table: 'rate_counters',
  rows: [rateCounter('minute', { used }), rateCounter('hour', { used })],
  onConflict: { replace: ['tenant_id', 'api_key_id', 'counter'] },
})

describeEachEngine('insertTogether', (engine) => {
  const store = storeForEach(engine)

  const stored = async () => {
    const bills = await store.db.selectFrom('incidents').select('id').orderBy('id').execute()
    const counts = await store.db.selectFrom('rate_counters').select('used').execute()
    return { bills: bills.map((row) => row.id), used: counts.map((row) => row.used) }
  }

  test('stores the rows of every table, repeatedly with the same statement', async () => {
    await insertTogether(store.db, [usage('a', 'b'), counters(2)])
    await insertTogether(store.db, [usage('c'), counters(3)])
    expect(await stored()).toEqual({ bills: ['a', 'b', 'c'], used: [3, 3] })
  })

  test('stores no row when one is rejected, and the next ones are stored', async () => {
    await insertTogether(store.db, [usage('a'), counters(1)])
    await expect(insertTogether(store.db, [counters(2), usage('b', 'a')])).rejects.toThrow(/unique/i)
    await expect(insertTogether(store.db, [usage('c'), counters(0.5)])).rejects.toThrow(UnstorableValueError)
    expect(await stored()).toEqual({ bills: ['a'], used: [1, 1] })
    await insertTogether(store.db, [counters(4), usage('d')])
    expect(await stored()).toEqual({ bills: ['a', 'd'], used: [4, 4] })
  })

  test('is visible to every other connection when it has resolved', async () => {
    const other = await openDatabase(store.place.options)
    await Promise.all([
      insertTogether(store.db, [usage('a'), counters(1)]),
      insertTogether(other, [usage('b'), counters(1)]),
    ])
    expect(await other.selectFrom('incidents').select('id').orderBy('id').execute()).toEqual([{ id: 'a' }, { id: 'b' }])
    await other.destroy()
  })

  test('an empty insert does nothing, and one table accepts what insertRows accepts', async () => {
    await insertTogether(store.db, [])
    await insertTogether(store.db, [usage('a')])
    expect(await stored()).toEqual({ bills: ['a'], used: [] })
  })

  test('insertEach is a part of its transaction', async () => {
    const refused = store.db.transaction().execute(async (tx) => {
      await insertEach(tx, [usage('a'), counters(1)])
      throw new Error('changed my mind')
    })
    await expect(refused).rejects.toThrow('changed my mind')
    expect(await stored()).toEqual({ bills: [], used: [] })
  })
})
