// Another daemon may start while this one checks the history. Only PostgreSQL has several daemons on one store.
import type { KyselyPlugin } from 'kysely'
import { expect, test } from 'vitest'
import type { Db } from '../../../../src/daemon/platform/db/db.ts'
import { createMasterKey } from '../../../../src/daemon/platform/secrets/seal.ts'
import { openSigningKeys } from '../../../../src/daemon/records/evidence/signing-keys.ts'
import { checkHistory } from '../../../../src/daemon/records/evidence/start-check.ts'
import { addTenant } from '../../../accounts.ts'
import { postgresEngine } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { TEST_MASTER_KEY } from '../../../webhook-rows.ts'

const clock = createFakeClock()

/** Runs a check. The other daemon starts after this number of its queries. Returns what was found. */
async function checkWhileAnotherStarts(queries: number, isUpgraded: boolean) {
  const store = await postgresEngine.open()
  const { db } = store
  if (isUpgraded) {
    await db.insertInto('evidence_unsigned').values({ upgraded_at: '2026-01-01T00:00:00.000Z' }).execute()
    await addTenant(db)
  }
  let seen = 0
  const startsBetween: KyselyPlugin = {
    transformQuery: ({ node }) => node,
    async transformResult({ result }) {
      seen += 1
      if (seen !== queries) return result
      await openSigningKeys(db, { masterKey: createMasterKey(TEST_MASTER_KEY), name: 'other', clock })
      await addTenant(db)
      return result
    },
  }
  const watched: Db = db.withPlugin(startsBetween)
  const found = await checkHistory({ db: watched, clock, file: undefined, daemonId: '0123456789ab' })
  await store.close()
  return { found, isStarted: seen >= queries }
}

test.each([
  ['an empty store', false],
  ['a store that was upgraded and has no key yet', true],
])('another daemon that starts on %s at any moment of the check causes no loss', async (_, isUpgraded) => {
  let queries = 1
  for (; ; queries++) {
    const { found, isStarted } = await checkWhileAnotherStarts(queries, isUpgraded)
    expect([queries, found]).toEqual([queries, []])
    if (!isStarted) break
  }
  expect(queries).toBeGreaterThan(4)
})
