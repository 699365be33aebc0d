// Resolves the host names of all outgoing calls.
import dns, { type RecordWithTtl } from 'node:dns'
import { Resolver } from 'node:dns/promises'
import type { LookupFunction } from 'node:net'
import type { Clock, Timer } from '../../../shared/time.ts'
import { createNameCache, type Resolved, type ResolveHost } from './name-cache.ts'

/** The system reports no TTL for its addresses. undici uses the same limit. */
export const SYSTEM_TTL_MS = 10_000
/** How long stale addresses of the operator's names are used while a lookup refreshes them. */
export const SYSTEM_STALE_MS = 3_600_000
/** The maximum time for which DNS results are cached, even if their TTL is longer. */
const DNS_TTL_MAX_MS = 5_000
/** Resolution delay (RFC 8305): the maximum wait for the other address family after one family has resolved. */
const OTHER_FAMILY_MS = 300
/**
 * The timeout of one DNS query, and its number of tries. The connection attempt that waits for the query has its own
 * timeout.
 */
const QUESTION = { timeout: 1_500, tries: 2 } as const

/** The caches are separate, because the system and DNS may resolve the same name to different addresses. */
export type Names = {
  /**
   * For names that the operator configures: asks the system, which applies the hosts file and search domains. A lookup
   * occupies a libuv thread until it ends, so each name has at most one lookup at a time. Stale addresses are used
   * during a lookup.
   */
  ofOperator: ResolveHost
  /**
   * For names that callers configure: asks the DNS servers directly, so that a slow lookup never blocks a libuv thread.
   * Stale addresses are not used.
   */
  ofCaller: ResolveHost
  /**
   * Like `ofCaller`, but asks the system for names that DNS does not know. These names resolve to private addresses.
   */
  ofTrustedCaller: ResolveHost
  close(): void
}

/**
 * @param servers DNS servers for the callers' names, as addresses with ports; default: the DNS servers of this machine
 */
export function openNames({ clock, servers }: { clock: Clock; servers?: readonly string[] }): Names {
  const resolver = new Resolver(QUESTION)
  if (servers) resolver.setServers(servers)

  async function askDns(host: string): Promise<Resolved> {
    const { records, failures } = await bothFamilies(clock, [
      resolver.resolve4(host, { ttl: true }),
      resolver.resolve6(host, { ttl: true }),
    ])
    if (records.length === 0) throw failures[0]
    const ttlSeconds = Math.min(...records.map(({ ttl }) => ttl))
    return { addresses: records.map(({ address }) => address), ttlMs: ttlSeconds * 1000 }
  }

  return {
    ofOperator: createNameCache({ clock, ask: askSystem, maxTtlMs: SYSTEM_TTL_MS, staleMs: SYSTEM_STALE_MS }),
    ofCaller: createNameCache({ clock, ask: askDns, maxTtlMs: DNS_TTL_MAX_MS }),
    ofTrustedCaller: createNameCache({
      clock,
      ask: (host) => askDns(host).catch(() => askSystem(host)),
      maxTtlMs: DNS_TTL_MAX_MS,
    }),
    close() {
      resolver.cancel()
    },
  }
}

/** Returns a `lookup` function for sockets, which resolves every name with `resolve`. */
export const lookupWith =
  (resolve: ResolveHost): LookupFunction =>
  (host, wanted, answer) => {
    resolve(host).then(
      (addresses) => {
        const found = addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))
        if (wanted.all) answer(null, found)
        else answer(null, found[0]?.address ?? '', found[0]?.family)
      },
      (error) => answer(error, []),
    )
  }

const askSystem = (host: string): Promise<Resolved> =>
  new Promise((resolve, reject) => {
    dns.lookup(host, { all: true }, (error, found) => {
      if (error) reject(error)
      else resolve({ addresses: found.map(({ address }) => address), ttlMs: SYSTEM_TTL_MS })
    })
  })

/**
 * After one address family has resolved, waits at most OTHER_FAMILY_MS for the other family. Some DNS servers drop IPv6
 * queries.
 */
function bothFamilies(
  clock: Clock,
  questions: readonly Promise<RecordWithTtl[]>[],
): Promise<{ records: RecordWithTtl[]; failures: unknown[] }> {
  return new Promise((resolve) => {
    const records: RecordWithTtl[] = []
    const failures: unknown[] = []
    let open = questions.length
    let timer: Timer | undefined
    const answered = () => {
      open--
      if (open > 0 && records.length > 0) timer ??= clock.after(OTHER_FAMILY_MS, finish)
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
