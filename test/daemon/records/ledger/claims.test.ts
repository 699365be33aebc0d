import { afterEach, beforeEach, expect, test } from 'vitest'
import type { IdempotencyResultRow } from '../../../../src/daemon/platform/db/tables.ts'
import { createLedger, type Ledger } from '../../../../src/daemon/records/ledger/ledger.ts'
import { ClaimLostError } from '../../../../src/daemon/records/ledger/records.ts'
import { systemClock } from '../../../../src/shared/time.ts'
import { describeEachEngine, storeForEach } from '../../../engines.ts'
import { idempotencyResult, incidentRow } from './rows.ts'

const claimOf = (id: string): IdempotencyResultRow => ({
  ...idempotencyResult(id, id),
  status: 0,
  body: '',
  lease_until: '2026-01-01T00:00:10.000Z',
})

/** The record of a request that ran under a claim. */
const claimed = (id: string) => ({ incidents: [incidentRow(id)], idempotency: idempotencyResult(id, id), claim: id })

describeEachEngine('a commit under a claim', (engine) => {
  const store = storeForEach(engine)
  let ledger: Ledger
  beforeEach(async () => {
    ledger = createLedger({ db: store.db, clock: systemClock, log: { error: () => {}, info: () => {} } })
  })
  afterEach(() => ledger.close())

  const claim = (...ids: string[]) => store.db.insertInto('idempotency_results').values(ids.map(claimOf)).execute()
  const billed = async () =>
    (await store.db.selectFrom('incidents').select('id').orderBy('id').execute()).map((row) => row.id)
  const kept = () => store.db.selectFrom('idempotency_results').selectAll().orderBy('request_id').execute()

  test('replaces the claim by the answer', async () => {
    await claim('a')
    await ledger.commit(claimed('a'))
    expect([await billed(), await kept()]).toEqual([['a'], [idempotencyResult('a', 'a')]])
  })

  test('that was lost stores nothing and does not affect the rest of the transaction', async () => {
    await claim('a', 'c')
    const [a, b, c] = await Promise.allSettled(['a', 'b', 'c'].map((id) => ledger.commit(claimed(id))))
    expect([a?.status, c?.status]).toEqual(['fulfilled', 'fulfilled'])
    expect(b).toMatchObject({ status: 'rejected', reason: expect.any(ClaimLostError) })
    expect(await billed()).toEqual(['a', 'c'])
    expect((await kept()).map((row) => [row.request_id, row.lease_until])).toEqual([
      ['a', null],
      ['c', null],
    ])
  })

  test('that was lost to another answer leaves that answer unchanged', async () => {
    await claim('a')
    await ledger.commit(claimed('a'))
    const late = { incidents: [incidentRow('late')], idempotency: idempotencyResult('late', 'a'), claim: 'late' }
    await expect(ledger.commit(late)).rejects.toThrow(ClaimLostError)
    // An answer does not count as a claim either.
    await expect(ledger.commit({ ...claimed('a'), incidents: [incidentRow('again')] })).rejects.toThrow(ClaimLostError)
    expect([await billed(), await kept()]).toEqual([['a'], [idempotencyResult('a', 'a')]])
  })

  test('without an answer bills and releases the key', async () => {
    await claim('a')
    await ledger.commit({ incidents: [incidentRow('a', { category: 'truncated' })], claim: 'a' })
    expect([await billed(), await kept()]).toEqual([['a'], []])
  })
})
