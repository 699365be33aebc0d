import { LRUCache } from 'lru-cache'
import { GatewayError } from '../../../shared/errors.ts'
import type { Clock } from '../../../shared/time.ts'

/** What is read with nearly every request and seldom changes: keys, or what tenants have set up. */
export type FreshCache<T> = {
  /** Answers at once with what was loaded within the time given. @throws what loading throws */
  of(name: string): T | Promise<T>
  /** Loads it again next time, or everything: called after any change of it. */
  forget(name?: string): void
}

/**
 * Remembers what `load` answers for each name, for `maxAgeMs`: the bound on how late a change is seen that another daemon
 * made. What is in use is loaded again from half that age on while requests go on with what is known, and once for all who
 * ask, so that a crowd neither waits nor asks the store once each.
 */
export function createFreshCache<T extends object>({
  clock,
  maxAgeMs,
  names = 1_000,
  load,
}: {
  clock: Clock
  maxAgeMs: number
  /** So many are remembered. */
  names?: number
  load: (name: string) => Promise<T>
}): FreshCache<T> {
  const cache = new LRUCache<string, { value: T; loadedAtMs: number }>({ max: names })
  const loads = new Map<string, Promise<T>>()
  let generation = 0

  function loadOnce(name: string): Promise<T> {
    const running = loads.get(name)
    if (running) return running
    const loaded = loadNow(name).finally(() => {
      if (loads.get(name) === loaded) loads.delete(name)
    })
    loads.set(name, loaded)
    return loaded
  }

  async function loadNow(name: string): Promise<T> {
    const loadedAtMs = clock.monotonic()
    const startedIn = generation
    try {
      const value = await load(name)
      // A change that came while the store was asked may or may not be in its answer.
      if (startedIn === generation) cache.set(name, { value, loadedAtMs })
      return value
    } catch (error) {
      // What is not there any more must not be answered with; a store that is gone says nothing about it.
      if (startedIn === generation && error instanceof GatewayError) cache.delete(name)
      throw error
    }
  }

  return {
    of(name) {
      const known = cache.get(name)
      const ageMs = known ? clock.monotonic() - known.loadedAtMs : maxAgeMs
      if (!known || ageMs >= maxAgeMs) return loadOnce(name)
      // When it fails, the next request finds out why.
      if (ageMs >= maxAgeMs / 2) loadOnce(name).catch(() => {})
      return known.value
    },
    forget(name) {
      generation += 1
      if (name === undefined) {
        cache.clear()
        loads.clear()
      } else {
        cache.delete(name)
        loads.delete(name)
      }
    },
  }
}
