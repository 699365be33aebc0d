// Which calls to models use a proxy.
import { BlockList, isIP } from 'node:net'
import { isAddressBlock } from '../../shared/address-block.ts'

/** Proxies are http or https URLs. They may contain a user and a password. */
export type ProxySettings = {
  /** The proxy for servers with an http URL. */
  http?: string | undefined
  /** The proxy for servers with an https URL. */
  https?: string | undefined
  /**
   * Hosts that are called directly: `*`, names (which include their subdomains), addresses and blocks in CIDR notation.
   * Names and addresses may have a port.
   */
  except?: readonly string[] | undefined
}

/**
 * Returns the proxy for calls to `url`. Returns undefined for a direct call. Loopback addresses are always called
 * directly.
 */
export function proxyFor(url: URL, { http, https, except = [] }: ProxySettings): string | undefined {
  const host = bare(url.hostname.toLowerCase()).replace(/\.$/, '')
  const port = url.port || (url.protocol === 'https:' ? '443' : '80')
  if (isLoopback(host) || except.some((entry) => covers(entry.toLowerCase(), host, port))) return undefined
  return url.protocol === 'https:' ? https : http
}

function covers(entry: string, host: string, port: string): boolean {
  if (entry === '*') return true
  if (isAddressBlock(entry)) return isInBlock(host, entry)
  const [, name = '', entryPort] = /^(.*?)(?::(\d+))?$/.exec(entry) ?? []
  if (entryPort !== undefined && entryPort !== port) return false
  const wanted = bare(name).replace(/^\*?\./, '')
  return wanted !== '' && (host === wanted || (isIP(host) === 0 && host.endsWith(`.${wanted}`)))
}

/** A single address also counts as a block. */
function isInBlock(host: string, block: string): boolean {
  const [address = '', prefix] = block.split('/')
  const family = isIP(address)
  if (isIP(host) !== family) return false
  const kind = family === 4 ? 'ipv4' : 'ipv6'
  const list = new BlockList()
  list.addSubnet(address, Number(prefix ?? (family === 4 ? 32 : 128)), kind)
  return list.check(host, kind)
}

const isLoopback = (host: string): boolean =>
  host === 'localhost' || host.endsWith('.localhost') || isInBlock(host, '127.0.0.0/8') || isInBlock(host, '::1')

/** An IPv6 address without the brackets that it has in a URL. */
const bare = (host: string): string => host.replace(/^\[(.*)\]$/, '$1')
