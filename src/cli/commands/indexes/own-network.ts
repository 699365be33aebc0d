/** Prevents redirects from public sites into the user's own network. */
import { lookup as lookupName } from 'node:dns'
import { BlockList, isIP, isIPv6, type LookupFunction } from 'node:net'

/** Thrown for a redirect from a public site into the user's own network. */
export class OwnNetworkRefused extends Error {
  override name = 'OwnNetworkRefused'
}

/** The addresses that are not public: private, loopback, link-local and special addresses (RFC 6890). */
const OWN = new BlockList()
for (const subnet of [
  ...['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12', '192.0.0.0/24'],
  ...['192.168.0.0/16', '198.18.0.0/15', '224.0.0.0/4', '240.0.0.0/4', '::/127', 'fc00::/7', 'fe80::/9', 'ff00::/8'],
  // The NAT64 (RFC 6052) and 6to4 (RFC 3056) addresses of the IPv4 networks above.
  ...['64:ff9b::/104', '64:ff9b::a00:0/104', '64:ff9b::7f00:0/104', '64:ff9b::a9fe:0/112', '64:ff9b::ac10:0/108'],
  ...['64:ff9b::c0a8:0/112', '64:ff9b:1::/48', '2002:a00::/24', '2002:7f00::/24', '2002:a9fe::/32', '2002:ac10::/28'],
  '2002:c0a8::/32',
]) {
  const [address = '', prefix] = subnet.split('/')
  OWN.addSubnet(address, Number(prefix), isIPv6(address) ? 'ipv6' : 'ipv4')
}

const isOwn = (address: string): boolean => OWN.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')

/** Resolves and checks the hosts of one download. Each connection uses exactly the address that was checked. */
export type Dialling = { lookup: LookupFunction; check(hostname: string): void }

/**
 * If the first host is in the user's own network, redirects to any host are allowed. Otherwise, only redirects to
 * public hosts are allowed. Call `check` for IP addresses, because `lookup` is not called for them.
 * @param resolve resolves host names like dns.lookup
 */
export function createDialling(resolve: typeof lookupName = lookupName): Dialling {
  let mayOwn: boolean | undefined
  const admit = (host: string, addresses: readonly string[]) => {
    const isPrivate = addresses.some(isOwn)
    mayOwn ??= isPrivate
    if (isPrivate && !mayOwn) throw new OwnNetworkRefused(host)
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
