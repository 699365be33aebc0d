import type { Clock } from '../../../shared/time.ts'
import type { Db } from './db.ts'
import { isMigrated } from './migrate.ts'

/** Whether the store answers, and whether its schema matches this version. */
export type StoreState = { store: boolean; migrations: boolean }

/** Load balancers' probes time out after a few seconds; this check answers earlier. */
const STORE_CHECK_MS = 1_500

const AWAY: StoreState = { store: false, migrations: false }

/**
 * Creates the check behind the probes. It answers within STORE_CHECK_MS and never rejects; a slower store counts as
 * down. Callers share one query, so probes cannot use up the connections of a store that hangs.
 */
export function createStoreCheck({ db, clock }: { db: Db; clock: Clock }): () => Promise<StoreState> {
  let asked: Promise<StoreState> | undefined

  function ask(): Promise<StoreState> {
    asked ??= isMigrated(db)
      .then(
        (migrations) => ({ store: true, migrations }),
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
