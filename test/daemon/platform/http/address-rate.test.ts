import { expect, test } from 'vitest'
import { createAddressRate } from '../../../../src/daemon/platform/http/address-rate.ts'
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
