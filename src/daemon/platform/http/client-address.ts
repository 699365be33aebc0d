import type { IncomingMessage } from 'node:http'
import { BlockList, isIP } from 'node:net'

/** A set of IPv4 and IPv6 addresses and blocks. An IPv4-mapped IPv6 address counts as IPv4. */
export type AddressList = { has(address: string): boolean }

/** @param blocks each must pass `isAddressBlock` */
export function createAddressList(blocks: readonly string[]): AddressList {
  const list = new BlockList()
  for (const block of blocks) {
    const [address = '', prefix] = block.split('/')
    if (prefix === undefined) list.addAddress(address, familyOf(address))
    else list.addSubnet(address, Number(prefix), familyOf(address))
  }
  return { has: (address) => list.check(address, familyOf(address)) }
}

const familyOf = (address: string) => (isIP(address) === 4 ? 'ipv4' : 'ipv6')

export type ClientRequest = Pick<IncomingMessage, 'headers'> & {
  socket: Pick<IncomingMessage['socket'], 'remoteAddress'>
}

/**
 * The client's address. By default, this is the connection's address. If that address is a trusted proxy, the last
 * untrusted entry of X-Forwarded-For is used instead, because the client may have written all earlier entries. If all
 * entries are trusted, the first entry is used. Undefined if the header is not a list of addresses, or the connection
 * is closed.
 */
export function clientAddress(request: ClientRequest, trustedProxies: AddressList): string | undefined {
  const peer = request.socket.remoteAddress
  if (peer === undefined || isIP(peer) === 0 || !trustedProxies.has(peer)) return peer
  const header = request.headers['x-forwarded-for']
  if (header === undefined) return peer
  let client: string | undefined = peer
  for (const entry of String(header).split(',').reverse()) {
    client = addressOf(entry.trim())
    if (client === undefined || !trustedProxies.has(client)) break
  }
  return client
}

/** Some proxies append the port, and put brackets around IPv6 addresses. */
function addressOf(entry: string): string | undefined {
  const [, address = entry, port = '0'] =
    /^\[([^\]]*)\](?::(\d{1,5}))?$/.exec(entry) ?? /^([\d.]+):(\d{1,5})$/.exec(entry) ?? []
  return isIP(address) === 0 || Number(port) > 65_535 ? undefined : address
}
