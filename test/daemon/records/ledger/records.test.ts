import { expect, test } from 'vitest'
import { modelFailover } from '../../../../src/daemon/records/events/events.ts'
import { isStored, type LedgerRecords, writeRecords } from '../../../../src/daemon/records/ledger/records.ts'
import { describeEachEngine, storeForEach } from '../../../engines.ts'
import { incidentRow } from './rows.ts'

const createdAt = '2026-01-01T00:00:00.000Z'

const hop = (requestId: string, step: number) =>
  modelFailover(
    { tenantId: 'tenant', createdAt, requestId, step },
    { failedModel: 'p/a', reason: 'timeout', nextModel: 'p/b', latencyMs: 5, userId: 'user', apiKeyId: 'key' },
  )

test('a step of a request is one event, however often it is reported, and unique', () => {
  expect(hop('req-1', 0)).toEqual(hop('req-1', 0))
  expect(new Set([hop('req-1', 0), hop('req-1', 1), hop('req-2', 0)].map(({ id }) => id)).size).toBe(3)
})

describeEachEngine('events', (engine) => {
  const store = storeForEach(engine)

  const records: LedgerRecords = {
    incidents: [incidentRow('req-1')],
    events: [hop('req-1', 0), hop('req-1', 1)],
  }

  test('are stored with their bill, and the result is known', async () => {
    const { db } = store
    expect(await isStored(db, records)).toBe(false)
    await writeRecords(db, [records, { incidents: [incidentRow('req-2')] }])
    expect(await isStored(db, records)).toBe(true)
    expect(await isStored(db, { ...records, events: [hop('req-1', 0), hop('req-1', 2)] })).toBe(false)
  })

  test('are not stored when their bill is rejected, and vice versa', async () => {
    const { db } = store
    await writeRecords(db, [{ incidents: [incidentRow('req-1')] }])
    await expect(writeRecords(db, [records])).rejects.toThrow()
    expect(await db.selectFrom('outbox_events').selectAll().execute()).toEqual([])
    await writeRecords(db, [{ events: [hop('req-2', 0)] }])
    await expect(writeRecords(db, [{ incidents: [incidentRow('req-2')], events: [hop('req-2', 0)] }])).rejects.toThrow()
    expect(await db.selectFrom('incidents').selectAll().execute()).toHaveLength(1)
  })
})
