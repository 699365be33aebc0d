import ipaddr from 'ipaddr.js'
import { LRUCache } from 'lru-cache'
import type { Clock } from '../../../shared/time.ts'

/** The length of the window in which requests are counted: a calendar minute. */
export const ADDRESS_WINDOW_MS = 60_000

/** The requests of one network in the current minute. */
export type NetworkCount = {
  /**
   * The IPv4 address, or a /64, /48 or /32 block of IPv6. Empty for connections with an unknown address. Undefined for
   * the requests of all clients.
   */
  network: string | undefined
  requests: number
  /** The limit of this network. */
  limit: number
}

/** The networks of a request with this request, the widest first, and whether each of them is within its limit. */
export type AddressCounts = { windowStartMs: number; isWithin: boolean; counts: readonly NetworkCount[] }

/** Counts requests per client address and minute, in memory. */
export type AddressCounter = {
  /** Counts one request, if all its networks are within their limits. */
  add(address: string | undefined): AddressCounts
  /** Returns the counts that `add` would return, without a change. */
  peek(address: string | undefined): AddressCounts
}

export type AddressLimits = {
  /** The limit of an IPv4 address, or of a /64 of IPv6. */
  limit: number
  /** Maximum number of networks of each size that are counted separately. */
  addresses: number
  /**
   * The limit of all clients together. If it is at most `addresses`, the counts of the current minute are never evicted.
   */
  total?: number
  /**
   * Whether `total` applies only to addresses with requests in this minute. Then an address without such requests always
   * has one, which is counted. By default, `total` applies to all addresses.
   */
  sparesNewAddresses?: boolean
}

/**
 * The networks of IPv6 that are counted, and their limits as multiples of the limit of an address. A client usually
 * controls a whole /64, many a /48, and a provider a /32. Without limits of the wider networks, such a client would have
 * a new limit for each of its blocks, and would evict the counts of all other clients.
 */
const BLOCKS = [
  { bits: 32, factor: 16 },
  { bits: 48, factor: 4 },
  { bits: 64, factor: 1 },
] as const

/**
 * Counts requests. A request over a limit is counted nowhere. One network therefore cannot use up the limit of a wider
 * one, and the number of counts that it can create is bounded.
 */
export function createAddressCounter({
  clock,
  limit,
  addresses,
  total,
  sparesNewAddresses = false,
}: { clock: Clock } & AddressLimits): AddressCounter {
  const tables = new Map<number, LRUCache<string, Count>>()
  const all: Count = { windowStartMs: 0, requests: 0 }

  function tableOf(bits: number): LRUCache<string, Count> {
    let table = tables.get(bits)
    if (table === undefined) {
      table = new LRUCache<string, Count>({ max: addresses })
      tables.set(bits, table)
    }
    return table
  }

  function take(address: string | undefined, isAdded: boolean): AddressCounts {
    const windowStartMs = Math.floor(clock.now() / ADDRESS_WINDOW_MS) * ADDRESS_WINDOW_MS
    const next = (known: Count | undefined) => (known?.windowStartMs === windowStartMs ? known.requests : 0) + 1
    const networks = networksOf(address)
    const counts: NetworkCount[] = networks.map(({ network, bits, factor }) => ({
      network,
      requests: next(tableOf(bits).get(network)),
      limit: factor * limit,
    }))
    const isSpared = sparesNewAddresses && counts.at(-1)?.requests === 1
    if (total !== undefined && !isSpared) counts.unshift({ network: undefined, requests: next(all), limit: total })
    const isWithin = counts.every((count) => count.requests <= count.limit)
    if (isAdded && isWithin) {
      Object.assign(all, { windowStartMs, requests: next(all) })
      for (const { network, bits } of networks) {
        const table = tableOf(bits)
        table.set(network, { windowStartMs, requests: next(table.get(network)) })
      }
    }
    return { windowStartMs, isWithin, counts }
  }

  return { add: (address) => take(address, true), peek: (address) => take(address, false) }
}

type Count = { windowStartMs: number; requests: number }

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
  ...limits
}: { clock: Clock; perMinute: number } & Omit<AddressLimits, 'limit'>): AddressRate {
  const counter = createAddressCounter({ clock, limit: perMinute, ...limits })

  const waitIfMore = ({ isWithin, windowStartMs }: AddressCounts): number | undefined =>
    isWithin ? undefined : Math.ceil((windowStartMs + ADDRESS_WINDOW_MS - clock.now()) / 1000)

  return {
    refuses: (address) => waitIfMore(counter.add(address)),
    wouldRefuse: (address) => waitIfMore(counter.peek(address)),
  }
}

/** The networks of an address, the widest first. All connections with an unknown address count as one network. */
function networksOf(address: string | undefined): { network: string; bits: number; factor: number }[] {
  const whole = { network: '', bits: 128, factor: 1 }
  if (address === undefined || !ipaddr.isValid(address)) return [whole]
  const parsed = ipaddr.process(address)
  if (!(parsed instanceof ipaddr.IPv6)) return [{ ...whole, network: parsed.toString() }]
  return BLOCKS.map(({ bits, factor }) => {
    const parts = parsed.parts.map((part, at) => (at * 16 < bits ? part : 0))
    return { network: `${new ipaddr.IPv6(parts).toString()}/${bits}`, bits, factor }
  })
}
