// Runs the searches of a daemon on the ranking thread (decision 0033).
import { GatewayError } from '../../../shared/errors.ts'
import type { Clock, Timer } from '../../../shared/time.ts'
import { createGates } from '../../platform/concurrency/gates.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Log } from '../../platform/log.ts'
import type { IndexKey } from '../indexes/document-types.ts'
import { queryText } from './query.ts'
import type { Ranked } from './rank.ts'
import { type Match, toMatch } from './search.ts'
import { rankInSnapshot } from './stored-index.ts'
import { type RankingThread, RankingTimeout, startThread, ThreadEnded } from './thread/thread.ts'

/** How many searches run at once. While one waits for the store, another one ranks. */
const RUNNING_SEARCHES = 2
/** How many searches of one tenant may wait. */
const WAITING_SEARCHES = 1_000
/** How long a search waits for its turn. */
export const SEARCH_WAIT_MS = 10_000
/** How long an idle thread is kept. Its cache of index terms is lost when it ends. */
export const RANKING_IDLE_MS = 60_000
const RETRY_AFTER_SECONDS = 2

/** Ranks the passages of an index on the thread. Same results as `searchPassages`. */
export type Ranker = {
  /**
   * Tenants take turns if several searches wait.
   * @throws OVERLOADED if too many searches wait or the thread fails twice, and the signal's reason
   */
  search(index: IndexKey, query: string, limit: number, signal?: AbortSignal): Promise<Match[]>
  /** Ends the thread. */
  close(): Promise<void>
}

export type RankerDeps = {
  db: Db
  clock: Clock
  log: Pick<Log, 'warn'>
  /** The program that the thread runs (thread/ranking-thread.ts). */
  program?: URL | undefined
}

const GATE = 'ranking'

/** Creates a ranker. Its thread starts at the first search, and ends after RANKING_IDLE_MS without one. */
export function createRanker({ db, clock, log, program }: RankerDeps): Ranker {
  const limits = { slots: RUNNING_SEARCHES, waitingPerQueue: WAITING_SEARCHES, waitMs: SEARCH_WAIT_MS }
  const gates = createGates(limits, clock, `the daemon may run ${RUNNING_SEARCHES}`, { work: 'searches' })
  let thread: RankingThread | undefined
  let idle: Timer | undefined
  let isClosed = false
  let lastRepeat: Promise<unknown> = Promise.resolve()

  function runningThread(): RankingThread {
    if (isClosed) throw new ThreadEnded('the daemon is closing')
    if (thread) return thread
    const started = startThread({ program, clock }, (error) => {
      if (thread === started) thread = undefined
      if (error !== undefined) log.warn({ error }, 'the thread that ranks has failed; the next search starts a new one')
    })
    thread = started
    return started
  }

  const rank = (index: IndexKey, query: string, limit: number, signal: AbortSignal): Promise<readonly Ranked[]> =>
    rankInSnapshot(db, index, (stored) => runningThread().rank(stored, query, limit, signal))

  /**
   * Repeats a search whose thread has ended, because another search may have ended it. Repeated searches run one at a
   * time, so that a search that ends every thread cannot end the repeats of others.
   */
  function repeat(...search: Parameters<typeof rank>): Promise<readonly Ranked[]> {
    const repeated = lastRepeat.then(() => rank(...search))
    lastRepeat = repeated.catch(() => undefined)
    return repeated
  }

  async function endThread(): Promise<void> {
    const ending = thread
    thread = undefined
    await ending?.end()
  }

  return {
    async search(index, query, limit, signal = new AbortController().signal) {
      await gates.enter(GATE, { tenantId: index.tenantId, keyId: '' }, signal)
      idle?.cancel()
      const search = [index, queryText(query), limit, signal] as const
      try {
        const ranked = await rank(...search).catch((error: unknown) => {
          if (error instanceof ThreadEnded && !isClosed) return repeat(...search)
          throw error
        })
        return ranked.map(toMatch)
      } catch (error) {
        if (!(error instanceof ThreadEnded || error instanceof RankingTimeout)) throw error
        if (!isClosed) log.warn({ error, index: index.indexId }, 'a search of a knowledge base failed')
        throw failed(error)
      } finally {
        gates.leave(GATE)
        if (gates.busy === 0 && thread && !isClosed) idle = clock.after(RANKING_IDLE_MS, () => void endThread())
      }
    },
    async close() {
      isClosed = true
      idle?.cancel()
      await endThread()
    },
  }
}

const failed = (cause: unknown) =>
  new GatewayError('OVERLOADED', 'The search of the knowledge base failed. Retry in a moment.', {
    retryAfterSeconds: RETRY_AFTER_SECONDS,
    cause,
  })
