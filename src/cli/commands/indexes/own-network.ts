import { lookup as lookupName } from 'node:dns'
import { BlockList, isIP, isIPv6, type LookupFunction } from 'node:net'

/** A redirect led from a site of others into the network of whoever runs the command. */
export class OwnNetworkRefused extends Error {
  override name = 'OwnNetworkRefused'
}

/** Addresses that other sites have no business with: private, loopback, link-local and special ones (RFC 6890). */
const OWN = new BlockList()
for (const subnet of [
  ...['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12', '192.0.0.0/24'],
  ...['192.168.0.0/16', '198.18.0.0/15', '224.0.0.0/4', '240.0.0.0/4', '::/127', 'fc00::/7', 'fe80::/9', 'ff00::/8'],
  // The same IPv4 networks behind NAT64 (RFC 6052) and 6to4 (RFC 3056).
  ...['64:ff9b::/104', '64:ff9b::a00:0/104', '64:ff9b::7f00:0/104', '64:ff9b::a9fe:0/112', '64:ff9b::ac10:0/108'],
  ...['64:ff9b::c0a8:0/112', '64:ff9b:1::/48', '2002:a00::/24', '2002:7f00::/24', '2002:a9fe::/32', '2002:ac10::/28'],
  '2002:c0a8::/32',
]) {
  const [address = '', prefix] = subnet.split('/')
  OWN.addSubnet(address, Number(prefix), isIPv6(address) ? 'ipv6' : 'ipv4')
}

const isOwn = (address: string): boolean => OWN.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')

/** Resolves names for one download, so that what is checked is what is dialled. */
export type Dialling = { lookup: LookupFunction; check(hostname: string): void }

/**
 * Whoever types an address of their own network may be led through it. Any other first address may lead to public ones only:
 * the first host that is asked about decides. `check` is for hosts that are no names, which nobody looks up.
 * @param resolve looks names up as dns.lookup does
 */
export function createDialling(resolve: typeof lookupName = lookupName): Dialling {
  let mayOwn: boolean | undefined
  const admit = (host: string, addresses: readonly string[]) => {
    const leadsHome = addresses.some(isOwn)
    mayOwn ??= leadsHome
    if (leadsHome && !mayOwn) throw new OwnNetworkRefused(host)
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
