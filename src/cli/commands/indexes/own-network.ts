/** Prevents redirects from public sites into the user's own network. */
import { lookup as lookupName } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import { reachThroughNat64 } from '../../../shared/address-reach.ts'

/** Thrown for a redirect from a public site into the user's own network, and for a special address. */
export class OwnNetworkRefused extends Error {
  override name = 'OwnNetworkRefused'

  constructor(host: string, reach: 'private' | 'special') {
    super(reach === 'private' ? `${host}, which is in your own network` : `${host}, which has a reserved address`)
  }
}

/** Resolves and checks the hosts of one download. Each connection uses exactly the address that was checked. */
export type Dialling = { lookup: LookupFunction; check(hostname: string): void }

/**
 * If all addresses of the first host are in the user's own network, redirects to any host are allowed. Otherwise, only
 * redirects to public hosts are allowed. Special addresses, such as metadata services, are never allowed. Call `check`
 * for IP addresses, because `lookup` is not called for them.
 * @param resolve resolves host names like dns.lookup
 */
export function createDialling(resolve: typeof lookupName = lookupName): Dialling {
  let mayOwn: boolean | undefined
  const admit = (host: string, addresses: readonly string[]) => {
    const reaches = addresses.map(reachThroughNat64)
    // Otherwise, a public site whose name has one private address could redirect to any address of the network.
    mayOwn ??= reaches.every((reach) => reach === 'private')
    if (reaches.includes('special')) throw new OwnNetworkRefused(host, 'special')
    if (reaches.includes('private') && !mayOwn) throw new OwnNetworkRefused(host, 'private')
  }
  return {
    check(hostname) {
      const host = hostname.replace(/^\[|\]$/g, '')
      if (isIP(host)) admit(host, [host])
    },
    lookup(host, options, done) {
      resolve(host, { ...options, all: true }, (error, found) => {
        if (error) return done(error, '')
        try {
          admit(
            host,
            found.map(({ address }) => address),
          )
        } catch (refused) {
          return done(refused as OwnNetworkRefused, '')
        }
        const [first] = found
        if (options.all) done(null, found)
        else done(null, first?.address ?? '', first?.family)
      })
    },
  }
}
