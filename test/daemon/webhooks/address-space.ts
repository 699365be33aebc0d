// What the registries say about addresses, written down without the library that the gateway uses.

/** `public` is called with either setting, `private` only if private addresses are allowed, `never` with neither. */
export type Verdict = 'public' | 'private' | 'never'

/**
 * The blocks of the IANA special-purpose registries (IPv4 and IPv6), the address families that contain IPv4 addresses,
 * and the addresses of metadata services. The longest matching block decides.
 */
export const BLOCKS: readonly (readonly [block: string, verdict: Verdict, reason: string])[] = [
  ['0.0.0.0/0', 'public', 'IPv4'],
  ['0.0.0.0/8', 'private', 'this network, RFC 791'],
  ['10.0.0.0/8', 'private', 'private use, RFC 1918'],
  ['100.64.0.0/10', 'private', 'shared address space, RFC 6598'],
  ['127.0.0.0/8', 'private', 'loopback, RFC 1122'],
  ['169.254.0.0/16', 'private', 'link local, RFC 3927'],
  ['172.16.0.0/12', 'private', 'private use, RFC 1918'],
  ['192.0.0.0/24', 'never', 'IETF protocol assignments, RFC 6890'],
  ['192.0.0.0/29', 'never', 'service continuity, RFC 7335'],
  ['192.0.0.8/32', 'never', 'dummy address, RFC 7600'],
  ['192.0.0.9/32', 'never', 'port control anycast, RFC 7723'],
  ['192.0.0.10/32', 'never', 'TURN anycast, RFC 8155'],
  ['192.0.0.170/31', 'never', 'NAT64 discovery, RFC 7050'],
  ['192.0.2.0/24', 'never', 'documentation, RFC 5737'],
  ['192.31.196.0/24', 'never', 'AS112, RFC 7535'],
  ['192.52.193.0/24', 'never', 'AMT, RFC 7450'],
  ['192.88.99.0/24', 'never', '6to4 relay, RFC 7526'],
  ['192.168.0.0/16', 'private', 'private use, RFC 1918'],
  ['192.175.48.0/24', 'never', 'AS112, RFC 7534'],
  ['198.18.0.0/15', 'never', 'benchmarking, RFC 2544'],
  ['198.51.100.0/24', 'never', 'documentation, RFC 5737'],
  ['203.0.113.0/24', 'never', 'documentation, RFC 5737'],
  ['224.0.0.0/4', 'never', 'multicast, RFC 5771'],
  ['240.0.0.0/4', 'never', 'reserved, RFC 1112'],
  ['255.255.255.255/32', 'never', 'broadcast, RFC 919'],
  ['169.254.169.0/24', 'never', 'metadata of AWS, GCP, Azure, Oracle and others'],
  ['169.254.170.0/24', 'never', 'metadata of AWS ECS and EKS'],
  ['169.254.0.23/32', 'never', 'metadata of Tencent Cloud'],
  ['169.254.42.42/32', 'never', 'metadata of Scaleway'],
  ['100.96.0.96/32', 'never', 'metadata of Volcano Engine'],
  ['100.100.100.200/32', 'never', 'metadata of Alibaba Cloud'],
  ['168.63.129.16/32', 'never', 'host agent of Azure'],
  ['192.0.0.192/32', 'never', 'metadata of Oracle Cloud (classic)'],
  ['::/0', 'never', 'IPv6 outside global unicast'],
  ['2000::/3', 'public', 'global unicast, RFC 4291'],
  ['::/128', 'private', 'unspecified, RFC 4291'],
  ['::1/128', 'private', 'loopback, RFC 4291'],
  ['64:ff9b::/96', 'never', 'NAT64, RFC 6052'],
  ['64:ff9b:1::/48', 'never', 'local NAT64, RFC 8215'],
  ['100::/64', 'never', 'discard, RFC 6666'],
  ['100:0:0:1::/64', 'never', 'dummy prefix, RFC 9780'],
  ['2001::/23', 'never', 'IETF protocol assignments, RFC 2928'],
  ['2001::/32', 'never', 'Teredo, RFC 4380'],
  ['2001:1::1/128', 'never', 'port control anycast, RFC 7723'],
  ['2001:1::2/128', 'never', 'TURN anycast, RFC 8155'],
  ['2001:1::3/128', 'never', 'DNS-SD registration anycast, RFC 9665'],
  ['2001:2::/48', 'never', 'benchmarking, RFC 5180'],
  ['2001:3::/32', 'never', 'AMT, RFC 7450'],
  ['2001:4:112::/48', 'never', 'AS112, RFC 7535'],
  ['2001:10::/28', 'never', 'ORCHID, RFC 4843'],
  ['2001:20::/28', 'never', 'ORCHIDv2, RFC 7343'],
  ['2001:30::/28', 'never', 'drone identifiers, RFC 9374'],
  ['2001:db8::/32', 'never', 'documentation, RFC 3849'],
  ['2002::/16', 'never', '6to4, RFC 3056'],
  ['2620:4f:8000::/48', 'never', 'AS112, RFC 7534'],
  ['3fff::/20', 'never', 'documentation, RFC 9637'],
  ['5f00::/16', 'never', 'segment routing, RFC 9602'],
  ['fc00::/7', 'private', 'unique local, RFC 4193'],
  ['fe80::/10', 'private', 'link local, RFC 4291'],
  ['fec0::/10', 'never', 'site local, RFC 3879'],
  ['ff00::/8', 'never', 'multicast, RFC 4291'],
  ['fd00:ec2::/32', 'never', 'metadata of AWS'],
  ['fd20:ce::254/128', 'never', 'metadata of GCP'],
  ['fd00:42::42/128', 'never', 'metadata of Scaleway'],
  ['fd00:a9fe:a9fe::1/128', 'never', 'metadata of Akamai'],
]

const BITS = { 4: 32, 6: 128 } as const
export type Address = { family: 4 | 6; value: bigint }

const TABLE = BLOCKS.map(([block, verdict]) => {
  const [text = '', length = ''] = block.split('/')
  const address = parseAddress(text)
  const shift = BigInt(BITS[address.family] - Number(length))
  return { family: address.family, shift, prefix: address.value >> shift, length: Number(length), verdict }
}).sort((a, b) => b.length - a.length)

/** The first and the last address of a block. */
export function edgesOf(block: string): [Address, Address] {
  const [text = '', length = ''] = block.split('/')
  const { family, value } = parseAddress(text)
  return [
    { family, value },
    { family, value: value | ((1n << BigInt(BITS[family] - Number(length))) - 1n) },
  ]
}

/** What the registries say about an address. */
export function verdictOf({ family, value }: Address): Verdict {
  const own = TABLE.find((row) => row.family === family && value >> row.shift === row.prefix)?.verdict ?? 'never'
  if (family === 4) return own
  const last: Address = { family: 4, value: value & 0xffffffffn }
  const translated = translatedIn(value)
  if ([last, ...translated.map(({ inner }) => inner)].some(isMetadata)) return 'never'
  if (value >> 32n === 0xffffn) return verdictOf(last) === 'never' ? 'never' : 'private'
  const identifier = (value >> 32n) & 0xffffffffn
  const isIsatap = (identifier & ~0x03000000n) === 0x5efen
  if (isIsatap) return worse(own, verdictOf(last))
  const isPrivate = translated.some(
    ({ inner, isExact }) => isExact && inner.value >> 24n !== 0n && verdictOf(inner) === 'private',
  )
  return isPrivate ? worse(own, 'private') : own
}

/** The IPv4 addresses behind NAT64 prefixes of 32 to 64 bits, from the figure in section 2.2 of RFC 6052. */
function translatedIn(value: bigint): { inner: Address; isExact: boolean }[] {
  const hex = value.toString(16).padStart(32, '0')
  return [32, 40, 48, 56, 64].map((prefix) => {
    const afterPrefix = hex.slice(prefix / 4)
    const uAt = (64 - prefix) / 4
    const digits = afterPrefix.slice(0, uAt) + afterPrefix.slice(uAt + 2)
    const isExact = hex.slice(16, 18) === '00' && /^0*$/.test(digits.slice(8))
    return { inner: { family: 4, value: BigInt(`0x${digits.slice(0, 8)}`) }, isExact }
  })
}

/** The NAT64 address of an IPv4 address behind a prefix of this length (RFC 6052). */
export function translate(prefix: bigint, length: number, ipv4: bigint): Address {
  const before = BigInt(64 - length)
  const head = before >= 32n ? ipv4 << (before - 32n) : ipv4 >> (32n - before)
  const tail = before >= 32n ? 0n : (ipv4 & ((1n << (32n - before)) - 1n)) << (56n - (32n - before))
  return { family: 6, value: prefix | (head << 64n) | tail }
}

const METADATA = BLOCKS.filter(([block, , reason]) => !block.includes(':') && /metadata|agent/.test(reason)).map(
  ([block]) => edgesOf(block),
)
const isMetadata = ({ value }: Address): boolean =>
  METADATA.some(([first, last]) => value >= first.value && value <= last.value)

const worse = (one: Verdict, other: Verdict): Verdict =>
  (['never', 'private', 'public'] as const).find((verdict) => verdict === one || verdict === other) ?? 'never'

export function parseAddress(text: string): Address {
  if (!text.includes(':')) return { family: 4, value: BigInt(toNumber(text)) }
  const [head = '', tail] = text.split('::')
  const groups = (part: string) => (part === '' ? [] : part.split(':').map((group) => Number.parseInt(group, 16)))
  const before = groups(head)
  const after = groups(tail ?? '')
  const gap = tail === undefined ? 0 : 8 - before.length - after.length
  const all = [...before, ...Array.from({ length: gap }, () => 0), ...after]
  return { family: 6, value: all.reduce((value, group) => (value << 16n) | BigInt(group), 0n) }
}

function toNumber(dotted: string): number {
  return dotted.split('.').reduce((value, part) => value * 256 + Number(part), 0)
}

export const octetsOf = (value: bigint): number[] => [24n, 16n, 8n, 0n].map((shift) => Number((value >> shift) & 0xffn))

export const groupsOf = (value: bigint): number[] =>
  Array.from({ length: 8 }, (_, at) => Number((value >> BigInt(112 - at * 16)) & 0xffffn))

/** The plain spelling: dotted decimals, or eight groups in hex. */
export const plain = ({ family, value }: Address): string =>
  family === 4
    ? octetsOf(value).join('.')
    : groupsOf(value)
        .map((group) => group.toString(16))
        .join(':')
