import type { Clock } from '../../../shared/time.ts'
import type { Db } from './db.ts'
import { isMigrated } from './migrate.ts'

/** Whether the store answers, and whether its schema is this binary's. */
export type StoreState = { store: boolean; migrations: boolean }

/** Probes of load balancers give up after a few seconds; ours has an answer before that. */
const STORE_CHECK_MS = 1_500

const AWAY: StoreState = { store: false, migrations: false }

/**
 * Makes the check behind the probes: it answers within STORE_CHECK_MS and never rejects; a store that is later than that
 * is away. Callers share one query, so that probes cannot use up the connections of a store that hangs.
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
