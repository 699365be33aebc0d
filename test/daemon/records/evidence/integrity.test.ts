import { expect, test } from 'vitest'
import { createMasterKey } from '../../../../src/daemon/platform/secrets/seal.ts'
import { createIntegrity } from '../../../../src/daemon/records/evidence/integrity.ts'
import { openSigningKeys } from '../../../../src/daemon/records/evidence/signing-keys.ts'
import { newId } from '../../../../src/shared/ids.ts'
import { systemClock } from '../../../../src/shared/time.ts'
import { addTenant } from '../../../accounts.ts'
import { deferred } from '../../../deferred.ts'
import { sqliteEngine } from '../../../engines.ts'
import { addEntries, changePayload } from '../../../evidence-rows.ts'
import { TEST_MASTER_KEY } from '../../../webhook-rows.ts'

test('concurrent checks of a log share one run, one log at a time, and a failure is not cached', async () => {
  const store = await sqliteEngine.open()
  try {
    const { db } = store
    const clock = systemClock
    const keys = await openSigningKeys(db, { masterKey: createMasterKey(TEST_MASTER_KEY), name: undefined, clock })
    const tenants = [await addTenant(db), await addTenant(db)]
    for (const { id } of tenants) await addEntries(db, id, 'changes', [{ id: newId(), payload: changePayload() }])
    const [first = '', second = ''] = tenants.map(({ id }) => id)

    let walks = 0
    const started = deferred<void>()
    const mayFail = deferred<void>()
    const integrity = createIntegrity({
      db,
      clock,
      keys: {
        async published() {
          walks += 1
          if (walks > 1) return keys.published()
          started.resolve()
          await mayFail.promise
          throw new Error('the store is gone')
        },
      },
    })
    const crowd = [1, 2, 3].map(() => integrity.check(first))
    const other = integrity.check(second)
    await started.promise
    expect(walks).toBe(1)
    mayFail.resolve()
    expect((await Promise.allSettled(crowd)).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
    expect(await other).toMatchObject({ chainIntegrity: 'maintained', treeSize: 1 })
    expect(walks).toBe(2)
    expect(integrity.last(first)).toBeUndefined()
    const found = await integrity.check(first)
    expect(integrity.last(first)).toBe(found)
    expect(walks).toBe(3)
  } finally {
    await store.close()
  }
})
