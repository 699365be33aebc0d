import { describe, expect, test } from 'vitest'
import { readTarget } from '../../../src/daemon/webhooks/target-address.ts'
import { addressesOf, type TargetGuard } from '../../../src/daemon/webhooks/target-guard.ts'
import { reachOfAddress } from '../../../src/shared/address-reach.ts'
import {
  type Address,
  BLOCKS,
  edgesOf,
  groupsOf,
  octetsOf,
  parseAddress,
  plain,
  translate,
  type Verdict,
  verdictOf,
} from './address-space.ts'

const guardOf = (allowPrivate: boolean): TargetGuard => ({ resolve: async () => [], allowPrivate })
const MODES = [guardOf(false), guardOf(true)] as const

/** Whether the guard lets a host pass that is an address, with private addresses forbidden and allowed. */
function passes(host: string): [boolean, boolean] {
  const passesWith = (guard: TargetGuard): boolean => {
    try {
      const target = readTarget(`http://${host}/in`)
      // The host is a name, so its spelling was not understood as an address. The addresses of the name decide then.
      if (target.literal === undefined) return false
      void addressesOf(target, guard)
      return true
    } catch {
      return false
    }
  }
  return [passesWith(MODES[0]), passesWith(MODES[1])]
}

const mayPass = (verdict: Verdict): [boolean, boolean] => [verdict === 'public', verdict !== 'never']
const inBrackets = ({ family }: Address, text: string): string => (family === 6 ? `[${text}]` : text)

/** The addresses of each block at its edges, in its middle and just outside. */
function addressesAt(block: string): Address[] {
  const [first, last] = edgesOf(block)
  const top = (1n << (first.family === 4 ? 32n : 128n)) - 1n
  const values = [first.value - 1n, first.value, first.value + 1n, (first.value + last.value) / 2n]
  values.push(last.value - 1n, last.value, last.value + 1n)
  const distinct = new Set(values.filter((value) => value >= 0n && value <= top))
  return [...distinct].map((value) => ({ family: first.family, value }))
}

describe('addresses of the registries', () => {
  const inBlocks = BLOCKS.flatMap(([block]) => addressesAt(block))
  const v4 = inBlocks.filter(({ family }) => family === 4)
  // Every family that contains an IPv4 address, for each IPv4 address above.
  const embedding = v4.flatMap(({ value }) =>
    [
      0xffffn << 32n,
      0n,
      0xffff0000n << 32n,
      parseAddress('64:ff9b::').value,
      parseAddress('64:ff9b:1::').value,
      parseAddress('2001:0:4136:e378:8000:63bf::').value ^ 0xffffffffn,
      parseAddress('2400:cb00::5efe:0:0').value,
      parseAddress('2400:cb00::200:5efe:0:0').value,
      parseAddress('fe80::5efe:0:0').value,
      parseAddress('fd12:3456::200:5efe:0:0').value,
    ].map((prefix): Address => ({ family: 6, value: prefix ^ value })),
  )
  const in6to4 = v4.map(({ value }): Address => ({ family: 6, value: (0x2002n << 112n) | (value << 80n) }))
  const translated = v4.flatMap(({ value }) =>
    [32, 40, 48, 56, 64].flatMap((length) =>
      ['2400:cb00::', 'fd12:3456::', '64:ff9b:1::'].map((prefix) =>
        translate(parseAddress(prefix).value, length, value),
      ),
    ),
  )
  const all = [...inBlocks, ...embedding, ...in6to4, ...translated]

  test('are accepted or rejected as the registries say, with either setting', () => {
    const wrong = all.flatMap((address) => {
      const text = plain(address)
      const found = passes(inBrackets(address, text))
      const expected = mayPass(verdictOf(address))
      return String(found) === String(expected) ? [] : [`${text}: ${found}, expected ${expected}`]
    })
    expect(wrong).toEqual([])
    expect(all.length).toBeGreaterThan(474)
  })

  test.each(BLOCKS)('%s is %s: %s', (block, verdict) => {
    const expected = { public: 'public', private: 'private', never: 'special' }[verdict]
    const [{ family, value }, last] = edgesOf(block)
    // The whole families contain the other blocks, so their first and last addresses belong to those.
    if (!block.endsWith('/0') && block !== '2000::/3')
      for (const address of [{ family, value }, last])
        if (verdictOf(address) === verdict) expect(reachOfAddress(plain(address))).toBe(expected)
  })

  test.each([
    ['2400:cb00::5efe:10.0.0.1', 'private'],
    ['2400:cb00::200:5efe:127.0.0.1', 'private'],
    ['2400:cb00::5efe:8.8.8.8', 'public'],
    ['2400:cb00::5efe:169.254.169.254', 'special'],
    ['fe80::5efe:169.254.169.254', 'special'],
    ['fe80::5efe:8.8.8.8', 'private'],
    ['2400:cb00::5eff:10.0.0.1', 'public'],
    // A translator of the operator's own network, behind any prefix.
    ['2a00:1450::a9fe:a9fe', 'special'],
    ['fd99::a9fe:a9fe', 'special'],
    // The same with prefixes of 32, 40, 48, 56 and 64 bits: the examples of RFC 6052, section 2.4, with other addresses.
    ['2a00:db8:a9fe:a9fe::', 'special'],
    ['2a00:db8:1a9:fea9:fe::', 'special'],
    ['2a00:db8:122:a9fe:a9:fe00::', 'special'],
    ['2a00:db8:122:3a9:fe:a9fe::', 'special'],
    ['2a00:db8:122:344:a9:fea9:fe00:0', 'special'],
    // Translators ignore the bytes behind the address.
    ['2a00:db8:122:344:a9:fea9:fe12:3456', 'special'],
    ['2a00:db8:a00:1::', 'private'],
    ['2a00:db8:10a:0:1::', 'private'],
    ['2a00:db8:122:c0a8:1:700::', 'private'],
    ['2a00:db8:122:37f:0:1::', 'private'],
    ['2a00:db8:122:344:a:0:100:0', 'private'],
    ['2a00:db8:122:344:8:808:800:0', 'public'],
    ['2a00:db8:a00:1::7', 'public'],
    ['fd99:0:0:344:a9:fea9:fe00:0', 'special'],
    ['169.254.169.123', 'special'],
    ['169.254.169.252', 'special'],
    ['100.96.0.96', 'special'],
  ])('%s is %s', (address, reach) => {
    expect(reachOfAddress(address)).toBe(reach)
  })
})

/** A generator of pseudo-random numbers (mulberry32), so that a failure can be repeated. */
function seeded(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 4_294_967_296) * below)
  }
}

const DIGITS = ['０１２３４５６７８９', '𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗', '𝟢𝟣𝟤𝟥𝟦𝟧𝟨𝟩𝟪𝟫', '⓪①②③④⑤⑥⑦⑧⑨', '₀₁₂₃₄₅₆₇₈₉', '⁰¹²³⁴⁵⁶⁷⁸⁹'].map(
  (digits) => [...digits],
)
const DOTS = ['。', '．', '｡']
const INVISIBLE = ['\u00ad', '\u200b', '\u2060', '\ufeff']

type Spelling = { host: string; address: Address; isPlain: boolean }

/** One spelling of an address. What it means is known, because it was built from that address. */
function spell(random: (below: number) => number): Spelling {
  const pick = <T>(list: readonly T[]): T => list[random(list.length)] as T
  const bits = (count: number): bigint => {
    let value = 0n
    for (let done = 0; done < count; done += 16) value = (value << 16n) | BigInt(random(65_536))
    return value
  }
  const inBlock = (family: 4 | 6): Address => {
    const [first, last] = edgesOf(pick(BLOCKS.filter(([block]) => block.includes(':') === (family === 6)))[0])
    const size = last.value - first.value + 1n
    return { family, value: first.value + (random(4) === 0 ? 0n : bits(128) % size) }
  }
  const address = random(3) > 0 ? inBlock(4) : inBlock(6)
  if (address.family === 4) {
    const dotted = spellIpv4(address.value)
    return random(3) === 0 ? embed(address.value) : { ...dotted, address }
  }
  return { host: `[${spellIpv6(address.value)}]`, address, isPlain: false }

  function number(value: number): string {
    const zeros = '0'.repeat(random(4))
    return pick([
      String(value),
      String(value),
      `0x${zeros}${value.toString(16)}`,
      `0X${zeros}${value.toString(16).toUpperCase()}`,
      `0${zeros}${value.toString(8)}`,
    ])
  }
  function spellIpv4(value: bigint): { host: string; isPlain: boolean } {
    const [a = 0, b = 0, c = 0, d = 0] = octetsOf(value)
    if (random(6) === 0) return { host: `${a}.${b}.${c}.${d}`, isPlain: true }
    const parts = pick([
      [a, b, c, d],
      [a, b, c * 256 + d],
      [a, (b * 256 + c) * 256 + d],
      [((a * 256 + b) * 256 + c) * 256 + d],
    ])
    let host = parts.map(number).join('.')
    if (random(4) === 0)
      host = host.replace(/\d/g, (digit) => (random(2) === 0 ? pick(DIGITS)[Number(digit)] : digit) as string)
    if (random(4) === 0) host = host.replaceAll('.', () => (random(2) === 0 ? pick(DOTS) : '.'))
    if (random(6) === 0) host = host.slice(0, 1) + pick(INVISIBLE) + host.slice(1)
    if (random(6) === 0) host += pick(['.', ...DOTS])
    if (random(20) === 0) host = host.replace(/\d/, (digit) => `%3${digit}`)
    return { host, isPlain: false }
  }
  function spellIpv6(value: bigint): string {
    const groups = groupsOf(value).map((group) => {
      const hex = group.toString(16)
      const padded = random(2) === 0 ? hex.padStart(4, '0') : hex
      return random(2) === 0 ? padded.toUpperCase() : padded
    })
    const tail = random(3) === 0 ? [...groups.slice(0, 6), octetsOf(value & 0xffffffffn).join('.')] : groups
    const text = tail.join(':')
    if (random(2) === 0) return text
    // The first run of two or more zero groups becomes "::".
    return text.replace(/(^|:)0+(?::0+)+(?=:|$)/, '::').replace(/:{3,}/g, '::')
  }
  function embed(inner: bigint): Spelling {
    const outer = bits(64)
    const value = pick([
      (0xffffn << 32n) | inner,
      inner,
      (0xffff0000n << 32n) | inner,
      parseAddress('64:ff9b::').value | inner,
      parseAddress('64:ff9b:1::').value | (outer << 32n) | inner,
      (0x2002n << 112n) | (inner << 80n) | outer,
      (0x20010000n << 96n) | (outer << 32n) | (inner ^ 0xffffffffn),
      (0x2400n << 112n) | ((outer >> 16n) << 64n) | (0x5efen << 32n) | inner,
      (0x2a00n << 112n) | ((outer >> 16n) << 64n) | (0x02005efen << 32n) | inner,
      (0xfe80n << 112n) | (0x5efen << 32n) | inner,
    ])
    return { host: `[${spellIpv6(value)}]`, address: { family: 6, value }, isPlain: false }
  }
}

/** The whole million takes some minutes: AIGW_SPELLINGS=1000000. */
const SPELLINGS = Number(process.env.AIGW_SPELLINGS ?? 5_000)
const SEED = Number(process.env.AIGW_SPELLINGS_SEED ?? 22)

test(
  `no generated spelling passes unless its address may be called, with either setting (${SPELLINGS})`,
  () => {
    const random = seeded(SEED)
    const falsePasses: string[] = []
    const falseRefusals: string[] = []
    const passed = [0, 0]
    for (let nth = 0; nth < SPELLINGS; nth++) {
      const { host, address, isPlain } = spell(random)
      const found = passes(host)
      const allowed = mayPass(verdictOf(address))
      for (const mode of [0, 1] as const) {
        if (found[mode]) passed[mode] = (passed[mode] ?? 0) + 1
        if (found[mode] && !allowed[mode]) falsePasses.push(`${host} (${plain(address)}), mode ${mode}`)
        if (isPlain && allowed[mode] && !found[mode]) falseRefusals.push(`${host}, mode ${mode}`)
      }
    }
    expect([falsePasses.slice(0, 20), falseRefusals.slice(0, 20)]).toEqual([[], []])
    // Otherwise, a guard that rejects everything would be as good.
    expect(Math.min(...passed)).toBeGreaterThan(SPELLINGS / 100)
  },
  Math.max(10_000, SPELLINGS),
)
