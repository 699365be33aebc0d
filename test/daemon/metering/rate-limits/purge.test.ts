import { expect, test } from 'vitest'
import { purgeCounters } from '../../../../src/daemon/metering/rate-limits/purge.ts'
import { newId } from '../../../../src/shared/ids.ts'
import { addKey, addTenant, addUser } from '../../../accounts.ts'
import { describeEachEngine } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { sharedStore } from '../../knowledge/indexes/trained-store.ts'

const NOW = Date.parse('2026-06-15T12:00:00Z')
const OLD = '2026-03-01T00:00:00.000Z'
const RECENT = '2026-04-01T00:00:00.000Z'

describeEachEngine('counters whose window is long over', (engine) => {
  const store = sharedStore(engine, async () => undefined)

  test('are deleted, except the one with the last use of a key', async () => {
    const { db } = store
    const { id: tenant_id } = await addTenant(db)
    const { row: key } = await addKey(db, await addUser(db, { tenant_id }))
    const add = (api_key_id: string, counter: string, window_start: string) =>
      db
        .insertInto('rate_counters')
        .values({ tenant_id, api_key_id, counter, window_start, used: 1, last_used_at: window_start })
        .execute()
    for (const counter of ['minute', 'month', 'GET /api/external/groups day']) await add(key.id, counter, OLD)
    await add(key.id, 'hour', RECENT)
    const deleted = newId()
    await add(deleted, 'minute', OLD)
    await add(deleted, 'day', RECENT)
    // More than one batch.
    for (let at = 0; at < 600; at++) await add(newId(), 'day', OLD)

    await purgeCounters({ db, clock: createFakeClock(NOW) })

    const left = await db.selectFrom('rate_counters').select(['api_key_id', 'counter']).orderBy('counter').execute()
    expect(left).toEqual([
      { api_key_id: deleted, counter: 'day' },
      { api_key_id: key.id, counter: 'hour' },
      { api_key_id: key.id, counter: 'minute' },
    ])
  })
})
