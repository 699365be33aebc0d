import ipaddr from 'ipaddr.js'

/** Ranges of nobody's servers but one's own: RFC 1918, 4193, 3927, 6598 and loopback. */
const PRIVATE_RANGES = new Set(['loopback', 'private', 'uniqueLocal', 'linkLocal', 'carrierGradeNat'])
/** Names that public DNS does not know: RFC 6761, 6762, 8375, and those of a cluster or a home. */
const PRIVATE_NAME = /^[^.]+$|\.(?:localhost|local|internal|lan|home\.arpa)$/

/** Whether the server at this URL is the operator's own, as far as its address tells. */
export function isPrivateHost(url: string): boolean {
  const host = new URL(url).hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '')
  return ipaddr.isValid(host) ? PRIVATE_RANGES.has(ipaddr.process(host).range()) : PRIVATE_NAME.test(host)
}
