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
 * Like `reachOfAddress`, but a NAT64 address of the well-known prefix (RFC 6052) or of the local-use prefix (RFC 8215) has
 * the reach of the IPv4 address that it contains. On networks without IPv4, the resolver translates the addresses of all
 * IPv4 hosts to this form.
 */
export function reachThroughNat64(address: string): Reach {
  const parsed = ipaddr.parse(address)
  if (!(parsed instanceof ipaddr.IPv6)) return reachOfIpv4(parsed)
  const last = lastFourBytes(parsed)
  if (parsed.match(WELL_KNOWN_NAT64)) return reachOfIpv4(last)
  if (!parsed.match(LOCAL_NAT64)) return reachOfIpv6(parsed)
  // Operators divide this prefix, so its length is unknown. The narrowest reading counts.
  const inPrefix = translatedIn(parsed).filter(({ prefixBits, isExact }) => prefixBits >= 48 && isExact)
  const readings = [...inPrefix.map(({ ipv4 }) => ipv4), ...(isZero(last) ? [] : [last])]
  return readings.map(reachOfIpv4).reduce(narrower, 'public')
}

function reachOfIpv4(address: ipaddr.IPv4): Reach {
  if (METADATA_IPV4.some((block) => address.match(block))) return 'special'
  const range = address.range()
  if (range === 'unicast') return 'public'
  return PRIVATE_IPV4.has(range) ? 'private' : 'special'
}

function reachOfIpv6(address: ipaddr.IPv6): Reach {
  const last = lastFourBytes(address)
  // A translator of the operator's own network (NAT64) may have any prefix, so every place of an IPv4 address counts.
  const translated = translatedIn(address)
  const isMetadata = [last, ...translated.map(({ ipv4 }) => ipv4)].some((ipv4) =>
    METADATA_IPV4.some((block) => ipv4.match(block)),
  )
  if (isMetadata || METADATA_IPV6.some((block) => address.match(block))) return 'special'
  const range = address.range()
  // Public receivers never publish IPv4-mapped addresses; attackers use them to bypass checks.
  if (range === 'ipv4Mapped') return reachOfIpv4(last) === 'special' ? 'special' : 'private'
  const outer = reachOfRange(address, range)
  if (isIsatap(address)) return narrower(outer, reachOfIpv4(last))
  const inside = translated.find(
    ({ ipv4, isExact }) => isExact && PRIVATE_IPV4.has(ipv4.range()) && ipv4.octets[0] !== 0,
  )
  return inside === undefined ? outer : narrower(outer, 'private')
}

/**
 * The bytes of the IPv4 address in a NAT64 address, by the length of the prefix (RFC 6052). Byte 8 is never one of them. A
 * prefix of 96 bits has the last four bytes.
 */
const NAT64_BYTES = [
  [32, [4, 5, 6, 7]],
  [40, [5, 6, 7, 9]],
  [48, [6, 7, 9, 10]],
  [56, [7, 9, 10, 11]],
  [64, [9, 10, 11, 12]],
] as const

/**
 * The IPv4 addresses that a NAT64 address with a prefix of 32 to 64 bits may contain. `isExact`: all other bytes behind
 * the prefix are zero, as RFC 6052 demands. Otherwise, most public addresses would contain a private one by chance.
 */
function translatedIn(address: ipaddr.IPv6): { prefixBits: number; ipv4: ipaddr.IPv4; isExact: boolean }[] {
  const bytes = address.toByteArray()
  return NAT64_BYTES.map(([prefixBits, at]) => ({
    prefixBits,
    ipv4: new ipaddr.IPv4(at.map((index) => bytes[index] as number)),
    isExact: bytes[8] === 0 && bytes.slice(at[3] + 1).every((byte) => byte === 0),
  }))
}

const isZero = ({ octets }: ipaddr.IPv4): boolean => octets.every((octet) => octet === 0)

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
const LOCAL_NAT64 = ipaddr.IPv6.parseCIDR('64:ff9b:1::/48')

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
