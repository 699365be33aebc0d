import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { clientAddress, createAddressList } from '../../../../src/daemon/platform/http/client-address.ts'
import { isAddressBlock } from '../../../../src/shared/address-block.ts'

describe('an address list', () => {
  test.each([
    ['10.0.0.0/8', '10.255.0.1', true],
    ['10.0.0.0/8', '11.0.0.1', false],
    ['10.1.2.3', '10.1.2.3', true],
    ['10.1.2.3', '10.1.2.4', false],
    ['10.1.2.3/32', '10.1.2.4', false],
    ['0.0.0.0/0', '203.0.113.9', true],
    ['0.0.0.0/0', '2001:db8::1', false],
    ['10.0.0.0/8', '::ffff:10.1.2.3', true],
    ['10.0.0.0/8', '::ffff:a01:203', true],
    ['10.0.0.0/8', '::ffff:11.1.2.3', false],
    ['::ffff:10.0.0.0/104', '10.1.2.3', true],
    ['2001:db8:8000::/33', '2001:db8:8001::1', true],
    ['2001:db8:8000::/33', '2001:db8::1', false],
    ['2001:DB8::1', '2001:db8:0:0:0:0:0:1', true],
    ['::/0', '2001:db8::1', true],
  ])('%s holds %s: %s', (block, address, held) => {
    expect(createAddressList([block]).has(address)).toBe(held)
  })

  test('is empty without entries', () => {
    expect(createAddressList([]).has('127.0.0.1')).toBe(false)
  })

  test.each([
    '',
    'localhost',
    '10.0.0.0/33',
    '::/129',
    '10.0.0/8',
    '10.0.0.1/',
    '10.0.0.1/8/8',
    '10.0.0.1/-1',
    'fe80::1%eth0',
    ' 10.0.0.1',
    '010.0.0.1',
    '10.0.0.1/8 ',
  ])('%j is an invalid block', (text) => {
    expect(isAddressBlock(text)).toBe(false)
  })

  test('every valid block can be compiled, and contains its own address', () => {
    const address = fc.oneof(fc.ipV4(), fc.ipV6())
    const text = fc.oneof(
      address,
      fc.tuple(address, fc.integer({ min: -1, max: 200 })).map(([base, prefix]) => `${base}/${prefix}`),
      fc.string(),
    )
    fc.assert(
      fc.property(text, (block) => {
        if (!isAddressBlock(block)) return
        expect(createAddressList([block]).has(block.split('/')[0] as string)).toBe(true)
      }),
    )
  })
})

describe('the address of a client', () => {
  const proxies = createAddressList(['127.0.0.1', '10.0.0.0/8', 'fd00::/8'])
  const of = (remoteAddress: string | undefined, forwarded?: string) =>
    clientAddress(
      { socket: { remoteAddress }, headers: forwarded === undefined ? {} : { 'x-forwarded-for': forwarded } },
      proxies,
    )

  test('is that of the connection, whatever an untrusted client sends in X-Forwarded-For', () => {
    expect(of('203.0.113.9')).toBe('203.0.113.9')
    expect(of('203.0.113.9', '192.0.2.1')).toBe('203.0.113.9')
    expect(
      clientAddress(
        { socket: { remoteAddress: '127.0.0.1' }, headers: { 'x-forwarded-for': '192.0.2.1' } },
        createAddressList([]),
      ),
    ).toBe('127.0.0.1')
  })

  test.each([
    ['192.0.2.1', '192.0.2.1'],
    ['198.51.100.7, 192.0.2.1', '192.0.2.1'],
    ['198.51.100.7, 192.0.2.1, 10.0.0.5,fd00::1', '192.0.2.1'],
    ['garbage, 192.0.2.1, 10.0.0.5', '192.0.2.1'],
    ['10.0.0.7, 10.0.0.5', '10.0.0.7'],
    ['192.0.2.1:5123', '192.0.2.1'],
    ['192.0.2.1:65535', '192.0.2.1'],
    ['2001:db8::1', '2001:db8::1'],
    ['[2001:db8::1]', '2001:db8::1'],
    ['[2001:db8::1]:5123', '2001:db8::1'],
    ['::ffff:192.0.2.1', '::ffff:192.0.2.1'],
  ])('behind a trusted proxy is the last untrusted one: %s', (forwarded, client) => {
    expect(of('127.0.0.1', forwarded)).toBe(client)
    expect(of('::ffff:127.0.0.1', forwarded)).toBe(client)
  })

  test('is that of a trusted proxy when it sends no X-Forwarded-For', () => {
    expect(of('127.0.0.1')).toBe('127.0.0.1')
  })

  test.each([
    '',
    'unknown',
    '192.0.2.1, ',
    '192.0.2.1, _hidden',
    '192.0.2.1;',
    '300.0.0.1',
    '192.0.2.1:65536',
    '[2001:db8::1]:99999',
    '[::1',
    '192.0.2.1, 10.0.0.5, <script>',
  ])('is unknown when the header is %j', (forwarded) => {
    expect(of('127.0.0.1', forwarded)).toBeUndefined()
  })

  test('is unknown after the connection is closed', () => {
    expect(of(undefined, '192.0.2.1')).toBeUndefined()
  })

  test('is an address, or unknown, for any input', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.array(fc.oneof(fc.ipV4(), fc.ipV6(), fc.string())).map(String)), (text) => {
        const client = of('127.0.0.1', text)
        if (client !== undefined) expect(isAddressBlock(client.split('%')[0] as string)).toBe(true)
      }),
    )
  })
})
