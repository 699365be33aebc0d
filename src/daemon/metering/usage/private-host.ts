import ipaddr from 'ipaddr.js'

/** Private address ranges (RFC 1918, 4193, 3927, 6598) and loopback. */
const PRIVATE_RANGES = new Set(['loopback', 'private', 'uniqueLocal', 'linkLocal', 'carrierGradeNat'])
/** Names outside public DNS: RFC 6761, 6762, 8375, and common internal suffixes. */
const PRIVATE_NAME = /^[^.]+$|\.(?:localhost|local|internal|lan|home\.arpa)$/

/**
 * Whether the host of this URL is a private address or name. A server at such a host is assumed to belong to the
 * operator.
 */
export function isPrivateHost(url: string): boolean {
  const host = new URL(url).hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '')
  return ipaddr.isValid(host) ? PRIVATE_RANGES.has(ipaddr.process(host).range()) : PRIVATE_NAME.test(host)
}
