import { expect, test } from 'vitest'
import { createAddressRate } from '../../../../src/daemon/platform/http/address-rate.ts'
import { PUBLIC_TILE_RATE } from '../../../../src/daemon/records/evidence/tile-routes.ts'
import { PUBLIC_PROOF_RATE, REJECTED_KEYS } from '../../../../src/shared/spec-limits.ts'
import { createFakeClock } from '../../../fake-clock.ts'

const START = Date.parse('2026-05-01T00:00:45.500Z')

test('an address is rejected above its rate until the minute is over', () => {
  const clock = createFakeClock(START)
  const rate = createAddressRate({ clock, perMinute: 2, addresses: 10 })
  expect([1, 2, 3].map(() => rate.refuses('192.0.2.1'))).toEqual([undefined, undefined, 15])
  expect(rate.refuses('192.0.2.2')).toBeUndefined()
  clock.advance(14_500)
  expect(rate.refuses('192.0.2.1')).toBeUndefined()
})

test('many IPv6 addresses of one network, two spellings of one address, and unknown addresses each count as one', () => {
  for (const [first, second] of [
    ['2001:db8::1', '2001:db8:0:0:ffff::2'],
    ['192.0.2.1', '::ffff:192.0.2.1'],
    [undefined, undefined],
  ]) {
    const rate = createAddressRate({ clock: createFakeClock(START), perMinute: 1, addresses: 10 })
    expect([rate.refuses(first), rate.refuses(second)]).toEqual([undefined, 15])
  }
  const rate = createAddressRate({ clock: createFakeClock(START), perMinute: 1, addresses: 10 })
  expect([rate.refuses('2001:db8::1'), rate.refuses('2001:db8:0:1::1')]).toEqual([undefined, undefined])
})

test('only a limited number of addresses is stored', () => {
  const rate = createAddressRate({ clock: createFakeClock(START), perMinute: 1, addresses: 2 })
  for (const address of ['192.0.2.1', '192.0.2.2', '192.0.2.3']) expect(rate.refuses(address)).toBeUndefined()
  expect(rate.refuses('192.0.2.1')).toBeUndefined()
  expect(rate.refuses('192.0.2.3')).toBe(15)
})

/** Counts the accepted requests of one address after the other. */
const accepted = (rate: ReturnType<typeof createAddressRate>, addresses: Iterable<string>): number =>
  Array.from(addresses).filter((address) => rate.refuses(address) === undefined).length

const blocks = (count: number, toAddress: (hex: string) => string) =>
  Array.from({ length: count }, (_, at) => toAddress((at + 1).toString(16)))

test('a client with a /48 or a /32 does not get a new limit for each of its blocks', () => {
  const open = () => createAddressRate({ clock: createFakeClock(START), perMinute: 10, addresses: 5_000 })
  const one = open()
  expect(
    accepted(
      one,
      blocks(500, (hex) => `2001:db8:1:${hex}::1`),
    ),
  ).toBe(40)
  expect(one.wouldRefuse('2001:db8:1:ffff::1')).toBe(15)
  expect(one.wouldRefuse('2001:db8:2::1')).toBeUndefined()
  const two = open()
  expect(
    accepted(
      two,
      blocks(2_000, (hex) => `2001:db8:${hex}::1`),
    ),
  ).toBe(160)
  expect(two.wouldRefuse('2001:db8:ffff::1')).toBe(15)
  expect(two.wouldRefuse('2001:db9::1')).toBeUndefined()
})

test('a client with a /32 cannot evict the counts of other clients', () => {
  const rate = createAddressRate({ clock: createFakeClock(START), perMinute: 2, addresses: 100 })
  for (const address of ['192.0.2.1', '2001:dead::1']) for (const _ of [1, 2]) rate.refuses(address)
  for (const address of blocks(5_000, (hex) => `2001:db8:${hex}::1`)) rate.refuses(address)
  expect([rate.wouldRefuse('192.0.2.1'), rate.wouldRefuse('2001:dead::1')]).toEqual([15, 15])
})

test('all clients together have a limit, and then no count of the current minute is evicted', () => {
  const clock = createFakeClock(START)
  const rate = createAddressRate({ clock, perMinute: 2, addresses: 300, total: 300 })
  rate.refuses('192.0.2.1')
  rate.refuses('192.0.2.1')
  expect(
    accepted(
      rate,
      blocks(1_000, (hex) => `2001:${hex}::1`),
    ),
  ).toBe(298)
  expect([rate.refuses('192.0.2.1'), rate.refuses('198.51.100.1')]).toEqual([15, 15])
  clock.advance(15_000)
  expect(rate.refuses('192.0.2.1')).toBeUndefined()
})

test('refused requests of one address use up no limit of others', () => {
  const rate = createAddressRate({ clock: createFakeClock(START), perMinute: 2, addresses: 100, total: 100 })
  expect(accepted(rate, Array<string>(500).fill('2001:db8::1'))).toBe(2)
  for (const other of ['2001:db8:0:1::1', '2001:db8:1::1', '192.0.2.1']) expect(rate.refuses(other)).toBeUndefined()
})

test('the limits of the daemon are such that no count is evicted', () => {
  for (const { total, addresses } of [REJECTED_KEYS, PUBLIC_PROOF_RATE, PUBLIC_TILE_RATE])
    expect(addresses).toBeGreaterThanOrEqual(total)
})
