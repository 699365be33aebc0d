import type { Clock } from '../../src/shared/time.ts'
import { deferred } from '../deferred.ts'
import { createFakeClock, type FakeClock } from '../fake-clock.ts'

/** Longer timers belong to background work of the daemon, not to a request. */
export const REQUEST_MS = 1_000
/** Event loop turns after which code without pending I/O is idle. */
const CALM_TURNS = 10

/** A clock that advances to the next timer of the running request as soon as that request only waits. */
export type PatientClock = FakeClock & {
  /** Advances time until `work` settles. `isQuiet` returns whether no I/O is in progress that could end the wait. */
  during<T>(work: Promise<T>, isQuiet: () => boolean): Promise<T>
}

/** @param isOfRequest whether a timer of `ms` belongs to a request. Other timers belong to background work. */
export function createPatientClock(isOfRequest = (ms: number): boolean => ms <= REQUEST_MS): PatientClock {
  const fake = createFakeClock()
  const dueTimes = new Set<{ atMs: number }>()
  let added = deferred()

  const after: Clock['after'] = (ms, run) => {
    if (!isOfRequest(ms)) return fake.after(ms, run)
    const due = { atMs: fake.monotonic() + ms }
    dueTimes.add(due)
    added.resolve()
    const timer = fake.after(ms, () => {
      dueTimes.delete(due)
      run()
    })
    return {
      cancel() {
        dueTimes.delete(due)
        timer.cancel()
      },
    }
  }

  /** Resolves when `isOver()` is true, or when a timer is set and nothing else is pending. */
  async function calm(isOver: () => boolean, isQuiet: () => boolean): Promise<void> {
    for (let turns = 0; turns < CALM_TURNS && dueTimes.size > 0 && !isOver(); ) {
      await new Promise((resolve) => setImmediate(resolve))
      turns = isQuiet() ? turns + 1 : 0
    }
  }

  return {
    now: fake.now,
    monotonic: fake.monotonic,
    advance: fake.advance,
    dueIn: fake.dueIn,
    get pending() {
      return fake.pending
    },
    after,
    async during(work, isQuiet) {
      let over = false
      const end = work.finally(() => {
        over = true
      })
      end.catch(() => {})
      while (!over) {
        if (dueTimes.size === 0) {
          added = deferred()
          await Promise.race([added.promise, end])
        }
        await calm(() => over, isQuiet)
        if (over || dueTimes.size === 0) continue
        const nextMs = Math.min(...[...dueTimes].map(({ atMs }) => atMs))
        fake.advance(Math.max(0, nextMs - fake.monotonic()))
      }
      return end
    },
  }
}
