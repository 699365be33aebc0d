import ipaddr from 'ipaddr.js'
import { LRUCache } from 'lru-cache'
import type { Clock } from '../../../shared/time.ts'

const MINUTE_MS = 60_000

/** The rate limit per client address on public routes. */
export type AddressRate = {
  /** Counts one request. Returns the seconds to wait if the limit for this minute is exceeded, else undefined. */
  refuses(address: string | undefined): number | undefined
  /** Like `refuses` for the next request, but does not count this request. */
  wouldRefuse(address: string | undefined): number | undefined
}

/**
 * Counts requests per minute, in memory. The limit bounds the cost of unauthenticated clients; it is not a quota. An
 * IPv6 client usually controls a whole /64, so all addresses of a /64 count as one.
 */
export function createAddressRate({
  clock,
  perMinute,
  addresses,
}: {
  clock: Clock
  perMinute: number
  /** Maximum number of addresses to count separately. */
  addresses: number
}): AddressRate {
  const counts = new LRUCache<string, { minute: number; requests: number }>({ max: addresses })

  function countOf(name: string): { minute: number; requests: number } {
    const minute = Math.floor(clock.now() / MINUTE_MS)
    const known = counts.get(name)
    return known?.minute === minute ? known : { minute, requests: 0 }
  }

  const waitIfMore = (requests: number, minute: number): number | undefined =>
    requests > perMinute ? Math.ceil(((minute + 1) * MINUTE_MS - clock.now()) / 1000) : undefined

  return {
    refuses(address) {
      const name = networkOf(address)
      const count = countOf(name)
      count.requests += 1
      counts.set(name, count)
      return waitIfMore(count.requests, count.minute)
    },
    wouldRefuse(address) {
      const { requests, minute } = countOf(networkOf(address))
      return waitIfMore(requests + 1, minute)
    },
  }
}

/** All connections with an unknown address count as one address. */
function networkOf(address: string | undefined): string {
  if (address === undefined || !ipaddr.isValid(address)) return ''
  const parsed = ipaddr.process(address)
  if (!(parsed instanceof ipaddr.IPv6)) return parsed.toString()
  return parsed.parts.slice(0, 4).join(':')
}
