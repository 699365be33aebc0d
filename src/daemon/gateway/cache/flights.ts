import type { Clock } from '../../../shared/time.ts'
import type { CachedAnswer } from './cached-answer.ts'

/** The outcome of a leader: its answer, and whether the answer was already stored before. Undefined if it has none. */
export type Landed = { answer: CachedAnswer; wasStored: boolean } | undefined

/** The right to get the answer for all identical requests of this daemon. */
export type Lead = {
  /** Ends the flight and passes the outcome to all followers. Further calls have no effect. */
  land(outcome: Landed): void
}

// The requests with one key:
//   no leader -> leader: `lead` succeeds. It fails while there is a leader.
//   leader -> no leader: `land`. Its followers get the answer. Without an answer, the first follower becomes the
//     leader, and the others follow it.
//   follower -> alone: its leaders together need longer than CACHE_WAIT_MS, for example because its client reads slowly.
export type Flights = {
  /** Returns undefined if another request leads. */
  lead(key: string): Lead | undefined
  /**
   * Waits for the leader of this key. Returns undefined at once if there is none. The outcome is `late` if the leader
   * needs longer than `waitMs`.
   * @throws the signal's reason
   */
  follow(key: string, signal: AbortSignal, waitMs: number): Promise<Landed | 'late'> | undefined
}

/** Joins identical requests, so that only one of them calls the model. */
export function createFlights(clock: Clock): Flights {
  const landings = new Map<string, Promise<Landed>>()
  return {
    lead(key) {
      if (landings.has(key)) return undefined
      let resolve: (outcome: Landed) => void = () => {}
      const landing = new Promise<Landed>((onLanded) => {
        resolve = onLanded
      })
      landings.set(key, landing)
      return {
        land(outcome) {
          if (landings.get(key) === landing) landings.delete(key)
          resolve(outcome)
        },
      }
    },
    follow(key, signal, waitMs) {
      const landing = landings.get(key)
      return landing && waitFor(landing, clock, signal, waitMs)
    },
  }
}

function waitFor(
  landing: Promise<Landed>,
  clock: Clock,
  signal: AbortSignal,
  waitMs: number,
): Promise<Landed | 'late'> {
  if (signal.aborted) return Promise.reject(signal.reason)
  return new Promise((resolve, reject) => {
    const timer = clock.after(Math.max(0, waitMs), () => end(() => resolve('late')))
    const onAbort = () => end(() => reject(signal.reason))
    function end(settle: () => void): void {
      timer.cancel()
      signal.removeEventListener('abort', onAbort)
      settle()
    }
    signal.addEventListener('abort', onAbort, { once: true })
    void landing.then((outcome) => end(() => resolve(outcome)))
  })
}
