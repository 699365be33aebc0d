import { isIP } from 'node:net'

/** Whether the text is an IPv4 or IPv6 address without a zone, or a block of such addresses in CIDR notation. */
export function isAddressBlock(text: string): boolean {
  const [address = '', prefix, ...rest] = text.split('/')
  const family = isIP(address)
  if (family === 0 || address.includes('%') || rest.length > 0) return false
  return prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) <= (family === 4 ? 32 : 128))
}
