import type { Clock } from '../src/shared/time.ts'
import { deferred } from './deferred.ts'
import type { FakeClock } from './fake-clock.ts'

/** A clock that reports when code starts to wait for `ms` milliseconds. */
export type WatchedClock<T extends Clock> = T & { waits(ms: number): Promise<void> }

export function watched<T extends Clock>(clock: T): WatchedClock<T> {
  const watching: { ms: number; resolve(): void }[] = []
  return {
    ...clock,
    after(ms: number, run: () => void) {
      const timer = clock.after(ms, run)
      for (const watch of watching.splice(0)) {
        if (watch.ms === ms) watch.resolve()
        else watching.push(watch)
      }
      return timer
    },
    waits(ms: number): Promise<void> {
      const { promise, resolve } = deferred()
      watching.push({ ms, resolve })
      return promise
    },
  }
}

/** Advances the clock by `ms` for each wait of that length, until `done` settles. */
export async function advanceUntil(done: Promise<unknown>, clock: WatchedClock<FakeClock>, ms: number): Promise<void> {
  let isDone = false
  const end = done.finally(() => {
    isDone = true
  })
  while (!isDone) {
    const next = clock.waits(ms)
    clock.advance(ms)
    await Promise.race([next, end])
  }
}
