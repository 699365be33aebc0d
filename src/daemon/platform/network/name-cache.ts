import { LRUCache } from 'lru-cache'
import type { Clock } from '../../../shared/time.ts'

/** Returns all IPv4 and IPv6 addresses of a name. If the name has no address, rejects with the resolver's `code`. */
export type ResolveHost = (host: string) => Promise<readonly string[]>

/** The addresses of a name, and how long they are valid. */
export type Resolved = { addresses: readonly string[]; ttlMs: number }

const NAMES_KEPT = 10_000
/** The delay between a failed lookup and the next lookup; stale addresses are used in the meantime. */
const RETRY_MS = 1_000

type Known = { answer: Promise<readonly string[]>; freshUntil: number; staleUntil: number }

/**
 * Caches the addresses of names.
 * - Addresses are fresh for their TTL, at most `maxTtlMs`.
 * - For another `staleMs`, callers get the stale addresses immediately, while one lookup refreshes them.
 * - Concurrent lookups of a name share one query. Failures are not cached.
 */
export function createNameCache({
  clock,
  ask,
  maxTtlMs,
  staleMs = 0,
}: {
  clock: Clock
  ask: (host: string) => Promise<Resolved>
  maxTtlMs: number
  staleMs?: number
}): ResolveHost {
  const cache = new LRUCache<string, Known>({ max: NAMES_KEPT })
  const lookups = new Map<string, Promise<readonly string[]>>()

  function lookUpOnce(host: string): Promise<readonly string[]> {
    const running = lookups.get(host)
    if (running) return running
    const answer = lookUp(host).finally(() => lookups.delete(host))
    lookups.set(host, answer)
    return answer
  }

  async function lookUp(host: string): Promise<readonly string[]> {
    try {
      const { addresses, ttlMs } = await ask(host)
      const freshUntil = clock.monotonic() + Math.min(ttlMs, maxTtlMs)
      cache.set(host, { answer: Promise.resolve(addresses), freshUntil, staleUntil: freshUntil + staleMs })
      return addresses
    } catch (error) {
      const known = cache.peek(host)
      if (known) known.freshUntil = Math.min(clock.monotonic() + RETRY_MS, known.staleUntil)
      throw error
    }
  }

  return (host) => {
    const now = clock.monotonic()
    const known = cache.get(host)
    if (known && known.freshUntil > now) return known.answer
    const answer = lookUpOnce(host)
    if (!known || known.staleUntil <= now) return answer
    answer.catch(() => {})
    return known.answer
  }
}
