import ipaddr from 'ipaddr.js'

/**
 * `public` is always allowed, `private` only if the operator allows it, `special` never. `special` means cloud metadata
 * services, and ranges that are not unicast destinations.
 */
export type Reach = 'public' | 'private' | 'special'

/** Returns the reach of an IPv4 or IPv6 address. An address counts as public only if it is known to be public. */
export function reachOfAddress(address: string): Reach {
  const parsed = ipaddr.parse(address)
  return parsed instanceof ipaddr.IPv6 ? reachOfIpv6(parsed) : reachOfIpv4(parsed)
}

/** Returns the canonical spelling of an address, for comparisons. IPv4-mapped IPv6 addresses become IPv4. */
export const normalAddress = (address: string): string => ipaddr.process(address.replace(/%.*$/, '')).toString()

/**
 * Returns the IPv4 address inside a NAT64 address of the well-known prefix (RFC 6052), otherwise the address itself. On
 * networks without IPv4, the resolver translates the addresses of all IPv4 hosts to this form.
 */
export function withoutNat64(address: string): string {
  const parsed = ipaddr.parse(address)
  const isNat64 = parsed instanceof ipaddr.IPv6 && parsed.match(WELL_KNOWN_NAT64)
  return isNat64 ? lastFourBytes(parsed).toString() : address
}

function reachOfIpv4(address: ipaddr.IPv4): Reach {
  if (METADATA_IPV4.some((block) => address.match(block))) return 'special'
  const range = address.range()
  if (range === 'unicast') return 'public'
  return PRIVATE_IPV4.has(range) ? 'private' : 'special'
}

function reachOfIpv6(address: ipaddr.IPv6): Reach {
  const last = lastFourBytes(address)
  // A translator of the operator's own network (NAT64) ends its addresses with the IPv4 address, behind any prefix.
  if (METADATA_IPV4.some((block) => last.match(block)) || METADATA_IPV6.some((block) => address.match(block)))
    return 'special'
  const range = address.range()
  // Public receivers never publish IPv4-mapped addresses; attackers use them to bypass checks.
  if (range === 'ipv4Mapped') return reachOfIpv4(last) === 'special' ? 'special' : 'private'
  const outer = reachOfRange(address, range)
  return isIsatap(address) ? narrower(outer, reachOfIpv4(last)) : outer
}

function reachOfRange(address: ipaddr.IPv6, range: string): Reach {
  if (PRIVATE_IPV6.has(range)) return 'private'
  // Only 2000::/3 is global unicast (RFC 4291 and the IANA registry); the library also classifies other ranges as
  // `unicast`.
  return range === 'unicast' && ((address.parts[0] ?? 0) & 0xe000) === 0x2000 ? 'public' : 'special'
}

/** ISATAP (RFC 5214): a tunnel to the IPv4 address in the last four bytes. The first half is any prefix. */
const isIsatap = ({ parts }: ipaddr.IPv6): boolean => ((parts[4] ?? 0) & ~0x0300) === 0 && parts[5] === 0x5efe

const lastFourBytes = (address: ipaddr.IPv6): ipaddr.IPv4 => new ipaddr.IPv4(address.toByteArray().slice(12))

const NARROWEST_FIRST: readonly Reach[] = ['special', 'private', 'public']
const narrower = (one: Reach, other: Reach): Reach =>
  NARROWEST_FIRST.find((reach) => reach === one || reach === other) ?? 'special'

const PRIVATE_IPV4: ReadonlySet<string> = new Set([
  'private',
  'loopback',
  'linkLocal',
  'carrierGradeNat',
  // 0.0.0.0/8: refers to this machine on most systems.
  'unspecified',
])
const PRIVATE_IPV6: ReadonlySet<string> = new Set(['loopback', 'linkLocal', 'uniqueLocal', 'unspecified'])

const WELL_KNOWN_NAT64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96')

/**
 * Addresses at which clouds and container platforms serve credentials, according to their documentation. Some platforms
 * use several addresses of one network, so such a network is listed as a block.
 */
const METADATA_IPV4 = [
  '169.254.169.0/24',
  '169.254.170.0/24',
  '169.254.0.23/32',
  '169.254.42.42/32',
  '100.96.0.96/32',
  '100.100.100.200/32',
  '168.63.129.16/32',
  '192.0.0.192/32',
].map((block) => ipaddr.IPv4.parseCIDR(block))
const METADATA_IPV6 = [
  'fd00:ec2::/32',
  'fd20:ce::254/128',
  'fd00:c1::a9fe:a9fe/128',
  'fd00:42::42/128',
  'fd00:a9fe:a9fe::1/128',
].map((block) => ipaddr.IPv6.parseCIDR(block))
