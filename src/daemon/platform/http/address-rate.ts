import ipaddr from 'ipaddr.js'
import { LRUCache } from 'lru-cache'
import type { Clock } from '../../../shared/time.ts'

/** The length of the window in which requests are counted: a calendar minute. */
export const ADDRESS_WINDOW_MS = 60_000

/** The requests of one address in the current minute. */
export type AddressCount = {
  /** The address. For IPv6, the /64 block. Empty for connections with an unknown address. */
  network: string
  windowStartMs: number
  requests: number
}

/** Counts requests per client address and minute, in memory. */
export type AddressCounter = {
  /** Counts one request. */
  add(address: string | undefined): Readonly<AddressCount>
  /** Returns the count without a change. */
  peek(address: string | undefined): Readonly<AddressCount>
}

/**
 * Counts the requests of at most `addresses` addresses. An IPv6 client usually controls a whole /64, so all addresses
 * of a /64 count as one.
 */
export function createAddressCounter({ clock, addresses }: { clock: Clock; addresses: number }): AddressCounter {
  const counts = new LRUCache<string, AddressCount>({ max: addresses })

  function peek(address: string | undefined): AddressCount {
    const network = networkOf(address)
    const windowStartMs = Math.floor(clock.now() / ADDRESS_WINDOW_MS) * ADDRESS_WINDOW_MS
    const known = counts.get(network)
    return known?.windowStartMs === windowStartMs ? known : { network, windowStartMs, requests: 0 }
  }

  return {
    peek,
    add(address) {
      const count = peek(address)
      count.requests += 1
      counts.set(count.network, count)
      return count
    },
  }
}

/** Counts one rejected request of a client address. */
export type CountRejection = (address: string | undefined) => void

/** The rate limit per client address on public routes. */
export type AddressRate = {
  /** Counts one request. Returns the seconds to wait if the limit for this minute is exceeded, else undefined. */
  refuses(address: string | undefined): number | undefined
  /** Like `refuses` for the next request, but does not count this request. */
  wouldRefuse(address: string | undefined): number | undefined
}

/** Limits the requests per address and minute. The limit bounds the cost of unauthenticated clients; it is not a quota. */
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
  const counter = createAddressCounter({ clock, addresses })

  const waitIfMore = (requests: number, windowStartMs: number): number | undefined =>
    requests > perMinute ? Math.ceil((windowStartMs + ADDRESS_WINDOW_MS - clock.now()) / 1000) : undefined

  return {
    refuses(address) {
      const { requests, windowStartMs } = counter.add(address)
      return waitIfMore(requests, windowStartMs)
    },
    wouldRefuse(address) {
      const { requests, windowStartMs } = counter.peek(address)
      return waitIfMore(requests + 1, windowStartMs)
    },
  }
}

/** All connections with an unknown address count as one address. */
function networkOf(address: string | undefined): string {
  if (address === undefined || !ipaddr.isValid(address)) return ''
  const parsed = ipaddr.process(address)
  if (!(parsed instanceof ipaddr.IPv6)) return parsed.toString()
  return `${new ipaddr.IPv6([...parsed.parts.slice(0, 4), 0, 0, 0, 0]).toString()}/64`
}
