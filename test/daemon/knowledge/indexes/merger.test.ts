import { expect, test } from 'vitest'
import { createMerger } from '../../../../src/daemon/knowledge/indexes/merger.ts'
import { findUnmerged, insertSegment } from '../../../../src/daemon/knowledge/indexes/segment-store.ts'
import { systemClock } from '../../../../src/shared/time.ts'
import { deferred } from '../../../deferred.ts'
import { sqliteEngine } from '../../../engines.ts'
import { insertNamedIndex, insertTenant, NOW, sharedStore } from './trained-store.ts'

const store = sharedStore(sqliteEngine, async (db) => {
  await insertTenant(db, 'a')
  for (const name of ['zoo', 'park']) await insertNamedIndex(db, 'a', name)
})

async function insertSegments(indexId: string): Promise<{ tenantId: string; indexId: string }> {
  const index = { tenantId: 'a', indexId }
  const passages = { ids: Float64Array.of(1), lengths: Uint16Array.of(1), pageCount: 1 }
  for (let at = 0; at < 8; at++) {
    const id = `${indexId}-${at}`
    await insertSegment(store.db, index, { id, documentId: null, state: 'published', ...passages }, NOW)
  }
  return index
}

test('a merge runs in the background, and the next caller waits for it', async () => {
  const merger = createMerger({ db: store.db, clock: systemClock, log: { error: fail } })
  const zoo = await insertSegments('zoo')
  const begun = deferred<void>()
  const release = deferred<void>()
  const writing = store.db.transaction().execute(() => {
    begun.resolve()
    return release.promise
  })
  await begun.promise
  // It cannot start, because only one writer exists.
  await merger.merge(zoo)
  release.resolve()
  await merger.merge(zoo)
  expect(await findUnmerged(store.db, zoo)).toHaveLength(1)
  await merger.close()
  await writing
})

test('closing waits for running merges', async () => {
  const merger = createMerger({ db: store.db, clock: systemClock, log: { error: fail } })
  const park = await insertSegments('park')
  await merger.merge(park)
  await merger.close()
  expect(await findUnmerged(store.db, park)).toHaveLength(1)
})

test('a merge that fails is logged and affects no caller', async () => {
  const closed = await sqliteEngine.open()
  await closed.close()
  const logged: unknown[] = []
  const merger = createMerger({ db: closed.db, clock: systemClock, log: { error: (...line) => logged.push(line) } })
  await merger.merge({ tenantId: 'a', indexId: 'zoo' })
  await merger.close()
  expect(logged).toEqual([[expect.objectContaining({ index: 'zoo' }), 'segments could not be merged']])
})

function fail(fields: object): never {
  throw new Error(`nothing should be logged: ${JSON.stringify(fields)}`)
}
