import { LRUCache } from 'lru-cache'
import { GatewayError } from '../../../shared/errors.ts'
import type { Clock } from '../../../shared/time.ts'

/** A cache for data that nearly every request reads and that seldom changes, such as keys and tenant settings. */
export type FreshCache<T> = {
  /** Returns the cached value synchronously if it is fresh enough; otherwise loads it. @throws errors of `load` */
  of(name: string): T | Promise<T>
  /** Invalidates the entry with this name, or all entries if no name is given. Call this after each change. */
  forget(name?: string): void
}

/**
 * Caches the result of `load` for each name for `maxAgeMs`. Changes by another daemon are therefore visible after at
 * most `maxAgeMs`. If an entry is read after half that age, it is reloaded in the background. Concurrent loads of one
 * name share one query.
 */
export function createFreshCache<T extends object>({
  clock,
  maxAgeMs,
  names = 1_000,
  load,
}: {
  clock: Clock
  maxAgeMs: number
  /** Maximum number of entries. */
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
      // If any entry is invalidated during the query, the result is not cached, because it may lack the change.
      if (startedIn === generation) cache.set(name, { value, loadedAtMs })
      return value
    } catch (error) {
      // The entry is evicted if the value was not found, but kept if the store is down.
      if (startedIn === generation && error instanceof GatewayError) cache.delete(name)
      throw error
    }
  }

  return {
    of(name) {
      const known = cache.get(name)
      const ageMs = known ? clock.monotonic() - known.loadedAtMs : maxAgeMs
      if (!known || ageMs >= maxAgeMs) return loadOnce(name)
      // The error is ignored here: if the store is still down, a later load reports it.
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
