import type { RecordWithTtl } from 'node:dns'
import { lookup, Resolver } from 'node:dns/promises'
import { LRUCache } from 'lru-cache'
import type { Clock, Timer } from '../../shared/time.ts'

/** The maximum time that DNS results are cached, even if their TTL is longer. */
const WEBHOOK_DNS_CACHE_MS = 5_000
/** Resolution delay (RFC 8305): the maximum wait for the other address family after one family has resolved. */
const WEBHOOK_OTHER_FAMILY_MS = 300

/** Returns all IPv4 and IPv6 addresses of a name. If there are none, the promise rejects with the resolver's `code`. */
export type ResolveHost = (host: string) => Promise<readonly string[]>

export type HostResolver = { resolve: ResolveHost; close(): void }

/** The timeout and the number of tries of one DNS query. The attempt that waits for the query has its own timeout. */
const QUESTION = { timeout: 1_500, tries: 2 } as const
const NAMES_KEPT = 10_000

type Known = { addresses: Promise<readonly string[]>; until: number }

/**
 * Queries the DNS servers of this machine directly. The system lookup would use the thread pool, but the store needs
 * these threads. A few names that time out would then block all other lookups.
 * @param systemNames whether names that DNS does not know are resolved by the system, with its hosts file and search
 * domains. Such names resolve to private addresses, so this is useful only if private addresses are allowed.
 */
export function createHostResolver({
  clock,
  systemNames,
  servers,
}: {
  clock: Clock
  systemNames: boolean
  /** Replaces the DNS servers of this machine. Each server is an address with a port. */
  servers?: readonly string[]
}): HostResolver {
  const resolver = new Resolver(QUESTION)
  if (servers) resolver.setServers(servers)
  const known = new LRUCache<string, Known>({ max: NAMES_KEPT })

  async function ask(host: string): Promise<{ addresses: readonly string[]; ttlMs: number }> {
    const { records, failures } = await bothFamilies([
      resolver.resolve4(host, { ttl: true }),
      resolver.resolve6(host, { ttl: true }),
    ])
    if (records.length > 0) {
      const ttlSeconds = Math.min(...records.map(({ ttl }) => ttl))
      return { addresses: records.map(({ address }) => address), ttlMs: ttlSeconds * 1000 }
    }
    if (systemNames) {
      const found = await lookup(host, { all: true })
      return { addresses: found.map(({ address }) => address), ttlMs: WEBHOOK_DNS_CACHE_MS }
    }
    throw failures[0]
  }

  /**
   * After one family has resolved, waits up to WEBHOOK_OTHER_FAMILY_MS for the other family, because some DNS servers
   * drop IPv6 queries.
   */
  function bothFamilies(
    questions: readonly Promise<RecordWithTtl[]>[],
  ): Promise<{ records: RecordWithTtl[]; failures: unknown[] }> {
    return new Promise((resolve) => {
      const records: RecordWithTtl[] = []
      const failures: unknown[] = []
      let open = questions.length
      let timer: Timer | undefined
      const answered = () => {
        open--
        if (open > 0 && records.length > 0) timer ??= clock.after(WEBHOOK_OTHER_FAMILY_MS, finish)
        else if (open === 0) finish()
      }
      const finish = () => {
        timer?.cancel()
        resolve({ records: [...records], failures })
      }
      for (const question of questions) {
        question.then(
          (found) => {
            records.push(...found)
            answered()
          },
          (error) => {
            failures.push(error)
            answered()
          },
        )
      }
    })
  }

  return {
    resolve(host) {
      const now = clock.monotonic()
      const before = known.get(host)
      if (before && before.until > now) return before.addresses
      // Concurrent lookups of a name share one query. Failures are not cached.
      const entry: Known = { until: Number.POSITIVE_INFINITY, addresses: Promise.resolve([]) }
      entry.addresses = ask(host).then(
        ({ addresses, ttlMs }) => {
          entry.until = clock.monotonic() + Math.min(ttlMs, WEBHOOK_DNS_CACHE_MS)
          return addresses
        },
        (error) => {
          if (known.peek(host) === entry) known.delete(host)
          throw error
        },
      )
      known.set(host, entry)
      return entry.addresses
    },
    close() {
      resolver.cancel()
    },
  }
}
