import type { RecordWithTtl } from 'node:dns'
import { lookup, Resolver } from 'node:dns/promises'
import { LRUCache } from 'lru-cache'
import type { Clock, Timer } from '../../shared/time.ts'

/** Maximum time that DNS results are cached, whatever their TTL. */
const WEBHOOK_DNS_CACHE_MS = 5_000
/** How long the addresses of one family wait for the other. */
const WEBHOOK_OTHER_FAMILY_MS = 300

/** All IPv4 and IPv6 addresses of a name. Rejects when there is none, with the resolver's `code`. */
export type ResolveHost = (host: string) => Promise<readonly string[]>

export type HostResolver = { resolve: ResolveHost; close(): void }

/** The timeout of one DNS query. The attempt that waits for it has its own limit. */
const QUESTION = { timeout: 1_500, tries: 2 } as const
const NAMES_KEPT = 10_000

type Known = { addresses: Promise<readonly string[]>; until: number }

/**
 * Queries the DNS servers of this machine directly. The system's lookup would use the thread pool that the store needs,
 * so a few names that time out would block all others.
 * @param systemNames whether names that DNS does not know are looked up by the system, with its hosts file and search
 * domains. Such names lead to private addresses, so this helps only where those are allowed.
 */
export function createHostResolver({
  clock,
  systemNames,
  servers,
}: {
  clock: Clock
  systemNames: boolean
  /** Overrides this machine's DNS servers: addresses with ports. */
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

  /** When one family has addresses, the other gets WEBHOOK_OTHER_FAMILY_MS: some DNS servers drop IPv6 queries. */
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
      // Concurrent lookups of a name share one query. A failure is not cached.
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
