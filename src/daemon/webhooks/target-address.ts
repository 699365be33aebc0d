import { isIP } from 'node:net'
import { normalAddress, type Reach, reachOfAddress } from '../../shared/address-reach.ts'
import { WEBHOOK_URL_CHARS } from '../../shared/spec-limits.ts'
import { parseUrl } from '../../shared/url.ts'
import type { AddressList } from '../platform/http/client-address.ts'

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

/** The private addresses that the operator allows. */
export type AllowedPrivate = {
  /** `WEBHOOKS_ALLOW_PRIVATE`: allows private, loopback and link-local addresses, but not special addresses. */
  allowPrivate: boolean
  /** `webhooks.allow`: allows only these private addresses. Names of the operator's network are allowed then too. */
  allow?: AddressList | undefined
}

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
  const url = parseUrl(text)
  if (url === undefined) refuse('is not a URL')
  const bare = url.hostname.replace(/^\[(.*)\]$/, '$1')
  const host = bare.replace(/\.$/, '')
  const literal = isIP(bare) > 0 ? bare : isIP(host) > 0 ? host : undefined
  if (literal === undefined && !isHostName(host)) refuse('has a host that is neither a name nor an address')
  const port = Number(url.port || (url.protocol === 'https:' ? 443 : 80))
  if (REFUSED_PORTS.has(port)) refuse(`uses port ${port}, which belongs to another protocol`)
  return { url, origin: url.origin, path: url.pathname + url.search, host, port, literal }
}

/** Returns the reach that the host name alone determines, regardless of its addresses. */
function reachOfName(host: string): Reach {
  if (METADATA_NAMES.has(host)) return 'special'
  return !host.includes('.') || PRIVATE_SUFFIX.test(host) || LOOPBACK_NAMES.has(host) ? 'private' : 'public'
}

/**
 * Rejects a host if any of its addresses is not allowed, because a client may fall back from one address to the next.
 * @throws TargetRefused. If the host is a name, the message omits its address, so that callers cannot map the
 * operator's network.
 */
export function refuseAddresses(addresses: readonly string[], { allowPrivate, allow }: AllowedPrivate): void {
  for (const address of addresses) refuseReach(reachOfAddress(address), allowPrivate || isListed(address, allow))
}

/**
 * Rejects a name that refers to a private network or to a metadata service, regardless of its addresses.
 * @throws TargetRefused
 */
export function refuseName(host: string, { allowPrivate, allow }: AllowedPrivate): void {
  // With a list, the addresses of the name decide.
  refuseReach(reachOfName(host), allowPrivate || allow !== undefined)
}

const isListed = (address: string, allow: AddressList | undefined): boolean =>
  allow?.has(normalAddress(address)) === true

function refuseReach(reach: Reach, mayBePrivate: boolean): void {
  if (reach === 'special') refuse('points to an address that webhooks must not call')
  if (reach === 'private' && !mayBePrivate)
    refuse(
      'points to a private, loopback or link-local address. The operator of the gateway can allow such addresses with webhooks.allow in its configuration, or with WEBHOOKS_ALLOW_PRIVATE=true',
    )
}

function isHostName(host: string): boolean {
  return host.length <= 253 && host.split('.').every((label) => /^(?!-)[a-z0-9_-]{1,63}(?<!-)$/.test(label))
}

function refuse(reason: string): never {
  throw new TargetRefused(`The URL ${reason}.`)
}

/** Private suffixes: RFC 6761, RFC 6762, RFC 8375, and the name that ICANN has reserved for private use. */
const PRIVATE_SUFFIX = /(^|\.)(localhost|local|internal|home\.arpa)$/
const LOOPBACK_NAMES: ReadonlySet<string> = new Set(['localhost.localdomain', 'localhost6.localdomain6'])

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
