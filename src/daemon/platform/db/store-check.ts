import type { Clock } from '../../../shared/time.ts'
import type { Db } from './db.ts'
import { isMigrated } from './migrate.ts'

/** Whether the store answers and accepts writes, and whether its schema matches this version. */
export type StoreState = { store: boolean; migrations: boolean }

/** Probes of load balancers time out after a few seconds, so this check times out earlier. */
const STORE_CHECK_MS = 1_500

const AWAY: StoreState = { store: false, migrations: false }

/**
 * Creates the store check for the probes. The check resolves within STORE_CHECK_MS and never rejects. A store that does
 * not respond within this time counts as down. Concurrent callers share one query. If the store hangs, probes therefore
 * cannot exhaust its connections.
 */
export function createStoreCheck({
  db,
  clock,
  isWritable,
}: {
  db: Db
  clock: Clock
  /** Never rejects. */
  isWritable(): Promise<boolean>
}): () => Promise<StoreState> {
  let asked: Promise<StoreState> | undefined

  function ask(): Promise<StoreState> {
    asked ??= isMigrated(db)
      .then(
        // The check writes to a table that might be missing before the migrations.
        async (migrations) => ({ store: !migrations || (await isWritable()), migrations }),
        () => AWAY,
      )
      .finally(() => {
        asked = undefined
      })
    return asked
  }

  return () =>
    new Promise((resolve) => {
      const late = clock.after(STORE_CHECK_MS, () => resolve(AWAY))
      ask().then((state) => {
        late.cancel()
        resolve(state)
      })
    })
}
