import { LRUCache } from 'lru-cache'
import { GatewayError } from '../../../shared/errors.ts'
import type { Clock } from '../../../shared/time.ts'

/** A cache for data that nearly every request reads and that seldom changes, such as keys and tenant settings. */
export type FreshCache<T> = {
  /**
   * Returns the cached value synchronously if it is fresh enough; otherwise loads it. @throws errors of `load`, also
   * synchronously if the error is cached
   */
  of(name: string): T | Promise<T>
  /** Whether the value existed when it was last loaded, even if its entry has expired. */
  knows(name: string): boolean
  /**
   * Invalidates one entry, or all entries if no name is given. A test invalidates the entries whose value matches it,
   * and all names without a value. Call it after each change.
   */
  forget(which?: string | ((value: T) => boolean)): void
}

/**
 * Caches the result of `load` for each name for `maxAgeMs`. Changes by another daemon are therefore visible within
 * `maxAgeMs`. An entry that is read after half that age is reloaded in the background. Concurrent loads of one name
 * share one query. If `load` throws a GatewayError, the name has no value. Up to `absentNames` such errors are cached
 * separately, so that unknown names cannot evict values.
 */
export function createFreshCache<T extends object>({
  clock,
  maxAgeMs,
  names = 1_000,
  absentNames = 0,
  load,
}: {
  clock: Clock
  maxAgeMs: number
  /** Maximum number of entries. */
  names?: number
  /** Maximum number of names without a value; 0 caches none. */
  absentNames?: number
  load: (name: string) => Promise<T>
}): FreshCache<T> {
  const cache = new LRUCache<string, { value: T; loadedAtMs: number }>({ max: names })
  const absent =
    absentNames > 0
      ? new LRUCache<string, { error: GatewayError; loadedAtMs: number }>({ max: absentNames })
      : undefined
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
      // A change during the query may be missing from its result, so the result is not cached.
      if (startedIn === generation) {
        cache.set(name, { value, loadedAtMs })
        absent?.delete(name)
      }
      return value
    } catch (error) {
      // The entry is evicted if the value was not found, but kept if the store is down.
      if (startedIn === generation && error instanceof GatewayError) {
        cache.delete(name)
        absent?.set(name, { error, loadedAtMs })
      }
      throw error
    }
  }

  return {
    of(name) {
      const missing = absent?.get(name)
      if (missing && clock.monotonic() - missing.loadedAtMs < maxAgeMs) throw missing.error
      const known = cache.get(name)
      const ageMs = known ? clock.monotonic() - known.loadedAtMs : maxAgeMs
      if (!known || ageMs >= maxAgeMs) return loadOnce(name)
      // The error is ignored here: if the store is still down, a later load reports it.
      if (ageMs >= maxAgeMs / 2) loadOnce(name).catch(() => {})
      return known.value
    },
    knows: (name) => cache.has(name),
    forget(which) {
      generation += 1
      if (typeof which === 'string') {
        cache.delete(which)
        absent?.delete(which)
        loads.delete(which)
        return
      }
      absent?.clear()
      loads.clear()
      if (which === undefined) cache.clear()
      else for (const entry of cache.values()) if (which(entry.value)) entry.loadedAtMs = Number.NEGATIVE_INFINITY
    },
  }
}
