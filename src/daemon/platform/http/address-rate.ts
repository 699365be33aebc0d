import ipaddr from 'ipaddr.js'
import { LRUCache } from 'lru-cache'
import type { Clock } from '../../../shared/time.ts'

const MINUTE_MS = 60_000

/** How often an address may ask what is open to everyone. */
export type AddressRate = {
  /** Counts one request. Answers with the seconds to wait when there were too many in this minute. */
  refuses(address: string | undefined): number | undefined
}

/**
 * Counts by the minute and in memory: a bound on what strangers cost this daemon, and no quota. Whoever holds one address of
 * IPv6 holds all that begin with its first 64 bits, so these count as one.
 */
export function createAddressRate({
  clock,
  perMinute,
  addresses,
}: {
  clock: Clock
  perMinute: number
  /** So many are remembered. */
  addresses: number
}): AddressRate {
  const counts = new LRUCache<string, { minute: number; requests: number }>({ max: addresses })
  return {
    refuses(address) {
      const now = clock.now()
      const minute = Math.floor(now / MINUTE_MS)
      const name = networkOf(address)
      const known = counts.get(name)
      const count = known?.minute === minute ? known : { minute, requests: 0 }
      count.requests += 1
      counts.set(name, count)
      return count.requests > perMinute ? Math.ceil(((minute + 1) * MINUTE_MS - now) / 1000) : undefined
    },
  }
}

/** Connections whose address is not known count as one. */
function networkOf(address: string | undefined): string {
  if (address === undefined || !ipaddr.isValid(address)) return ''
  const parsed = ipaddr.process(address)
  if (!(parsed instanceof ipaddr.IPv6)) return parsed.toString()
  return parsed.parts.slice(0, 4).join(':')
}
