import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import { WEBHOOK_URL_CHARS } from '../../shared/spec-limits.ts'

/** Thrown if a URL is not allowed or is ambiguous. The message is written for the caller who set the URL. */
export class TargetRefused extends Error {
  override name = 'TargetRefused'
}

/** A URL in an allowed spelling. Its addresses are checked separately (`refuseAddresses`). */
export type Target = {
  url: URL
  /** `https://example.com:8443` */
  origin: string
  /** Path and query, as they are sent. */
  path: string
  /** The host in lower case, without brackets and without a trailing dot. */
  host: string
  port: number
  /** The normalized address if the host is an IP address in any spelling. Undefined for a name. */
  literal: string | undefined
}

/**
 * `public` is always allowed, `private` only if the operator allows it, `special` never. `special` means cloud metadata
 * services, and ranges that are not unicast destinations.
 */
export type Reach = 'public' | 'private' | 'special'

/**
 * Parses a URL from a caller. Rejects ambiguous spellings, because the host that is checked must also be the host that
 * is called.
 * @throws TargetRefused
 */
export function readTarget(text: string): Target {
  if (text.length > WEBHOOK_URL_CHARS) refuse(`is longer than ${WEBHOOK_URL_CHARS} characters`)
  if (/[\p{Cc}\s\\]/u.test(text)) refuse('contains white space, a control character or a backslash')
  const authority = /^https?:\/\/([^/?#]+)/i.exec(text)?.[1]
  if (authority === undefined) refuse('must begin with http:// or https:// and a host')
  if (authority.includes('@')) refuse('must not contain a user name or password')
  if (authority.includes('%')) refuse('must not contain percent signs in its host')
  if (!URL.canParse(text)) refuse('is not a URL')
  const url = new URL(text)
  const bare = url.hostname.replace(/^\[(.*)\]$/, '$1')
  const host = bare.replace(/\.$/, '')
  const literal = isIP(bare) > 0 ? bare : isIP(host) > 0 ? host : undefined
  if (literal === undefined && !isHostName(host)) refuse('has a host that is neither a name nor an address')
  const port = Number(url.port || (url.protocol === 'https:' ? 443 : 80))
  if (REFUSED_PORTS.has(port)) refuse(`uses port ${port}, which belongs to another protocol`)
  return { url, origin: url.origin, path: url.pathname + url.search, host, port, literal }
}

/** Returns the reach that the host name alone determines, regardless of its addresses. */
export function reachOfName(host: string): Reach {
  if (METADATA_NAMES.has(host)) return 'special'
  return !host.includes('.') || PRIVATE_SUFFIX.test(host) || LOOPBACK_NAMES.has(host) ? 'private' : 'public'
}

/** Returns the reach of an IPv4 or IPv6 address. An address counts as public only if it is known to be public. */
export function reachOfAddress(address: string): Reach {
  const parsed = ipaddr.parse(address)
  return parsed instanceof ipaddr.IPv6 ? reachOfIpv6(parsed) : reachOfIpv4(parsed)
}

/**
 * Rejects a host if any of its addresses is not allowed, because a client may fall back from one address to the next.
 * @throws TargetRefused
 */
export function refuseAddresses(addresses: readonly string[], allowPrivate: boolean): void {
  for (const address of addresses) refuseReach(reachOfAddress(address), allowPrivate)
}

/**
 * @throws TargetRefused. If the host is a name, the message omits its address, so that callers cannot map the
 * operator's network.
 */
export function refuseReach(reach: Reach, allowPrivate: boolean): void {
  if (reach === 'special') refuse('points to an address that webhooks must not call')
  if (reach === 'private' && !allowPrivate) refuse('points to a private, loopback or link-local address')
}

/** Returns the canonical spelling of an address, for comparisons. IPv4-mapped IPv6 addresses become IPv4. */
export const normalAddress = (address: string): string => ipaddr.process(address.replace(/%.*$/, '')).toString()

function reachOfIpv4(address: ipaddr.IPv4): Reach {
  if (METADATA_ADDRESSES.has(address.toString())) return 'special'
  const range = address.range()
  if (range === 'unicast') return 'public'
  return PRIVATE_IPV4.has(range) ? 'private' : 'special'
}

function reachOfIpv6(address: ipaddr.IPv6): Reach {
  if (METADATA_ADDRESSES.has(address.toString())) return 'special'
  const range = address.range()
  // Public receivers never publish IPv4-mapped addresses; attackers use them to bypass checks.
  if (range === 'ipv4Mapped') return reachOfIpv4(address.toIPv4Address()) === 'special' ? 'special' : 'private'
  if (PRIVATE_IPV6.has(range)) return 'private'
  // Only 2000::/3 is global unicast (RFC 4291 and the IANA registry); the library also classifies other ranges as
  // `unicast`.
  return range === 'unicast' && ((address.parts[0] ?? 0) & 0xe000) === 0x2000 ? 'public' : 'special'
}

function isHostName(host: string): boolean {
  return host.length <= 253 && host.split('.').every((label) => /^(?!-)[a-z0-9_-]{1,63}(?<!-)$/.test(label))
}

function refuse(reason: string): never {
  throw new TargetRefused(`The URL ${reason}.`)
}

const PRIVATE_IPV4: ReadonlySet<string> = new Set([
  'private',
  'loopback',
  'linkLocal',
  'carrierGradeNat',
  // 0.0.0.0/8: refers to this machine on most systems.
  'unspecified',
])
const PRIVATE_IPV6: ReadonlySet<string> = new Set(['loopback', 'linkLocal', 'uniqueLocal', 'unspecified'])

/** Private suffixes: RFC 6761, RFC 6762, RFC 8375, and the name that ICANN has reserved for private use. */
const PRIVATE_SUFFIX = /(^|\.)(localhost|local|internal|home\.arpa)$/
const LOOPBACK_NAMES: ReadonlySet<string> = new Set(['localhost.localdomain', 'localhost6.localdomain6'])

/** Addresses at which clouds and container platforms serve credentials, according to their documentation. */
const METADATA_ADDRESSES: ReadonlySet<string> = new Set([
  '169.254.169.254',
  '169.254.169.253',
  '169.254.169.250',
  '169.254.170.2',
  '169.254.170.23',
  '169.254.0.23',
  '169.254.42.42',
  '100.100.100.200',
  '168.63.129.16',
  'fd00:ec2::254',
  'fd00:ec2::253',
  'fd00:ec2::23',
  'fd20:ce::254',
  'fd00:c1::a9fe:a9fe',
  'fd00:42::42',
  'fd00:a9fe:a9fe::1',
  'fe80::a9fe:a9fe',
])
const METADATA_NAMES: ReadonlySet<string> = new Set([
  'metadata',
  'metadata.google.internal',
  'metadata.goog',
  'metadata.azure.internal',
  'metadata.azure.com',
  'metadata.oraclecloud.com',
  'metadata.tencentyun.com',
  'metadata.packet.net',
  'metadata.platformequinix.com',
  'rancher-metadata',
  'instance-data',
  'instance-data.ec2.internal',
])

/** Ports of services that do not use HTTP. Browsers block the same ports (Fetch standard, port blocking). */
const REFUSED_PORTS: ReadonlySet<number> = new Set([
  0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
  111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532,
  540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061,
  6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
])
