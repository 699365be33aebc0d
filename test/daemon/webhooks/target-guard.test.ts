import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createAddressList } from '../../../src/daemon/platform/http/client-address.ts'
import { readTarget } from '../../../src/daemon/webhooks/target-address.ts'
import {
  addressesOf,
  checkTarget,
  refuseOtherPeer,
  type TargetGuard,
} from '../../../src/daemon/webhooks/target-guard.ts'
import { reachOfAddress } from '../../../src/shared/address-reach.ts'
import { GatewayError } from '../../../src/shared/errors.ts'
import { createFakeClock } from '../../fake-clock.ts'
import { isLet, readTargetCases, scriptedResolver, type TargetCase } from './target-cases.ts'

const OWN = '93.184.215.99'

/** The results for one URL: the check at the creation of the endpoint, and those of three attempts. */
async function verdict({ url, dns, note }: TargetCase, allowPrivate: boolean): Promise<'allow' | 'deny'> {
  const guard: TargetGuard = {
    resolve: scriptedResolver(dns, OWN),
    allowPrivate,
    isOwn: (address, port) => address === OWN && port === 8080,
  }
  const clock = createFakeClock()
  try {
    const created = checkTarget(url, { guard, clock })
    created.catch(() => undefined)
    clock.advance(2_000)
    await created
    const target = readTarget(url)
    if (dns !== '-' || target.literal !== undefined) {
      for (let attempt = 0; attempt < 3; attempt++) await inTime(addressesOf(target, guard))
    }
  } catch {
    return 'deny'
  }
  // After the guard only the response can reject: only 2xx acknowledges, and redirects are not followed.
  return /^30\d|: 30\d/.test(note) ? 'deny' : 'allow'
}

/** An attempt has its own timeout, so a resolver that never responds is not limited here. */
async function inTime(addresses: readonly string[] | Promise<readonly string[]>): Promise<void> {
  const never = Symbol('never')
  const turns = (async () => {
    for (let turn = 0; turn < 1_000; turn++) await new Promise((resolve) => setImmediate(resolve))
    return never
  })()
  if ((await Promise.race([addresses, turns])) === never) throw new Error('no answer')
}

const CORPUS = join(process.env.AIGW_EVAL_DIR ?? '../shared/eval', 'ssrf-dev.tsv')

describe.each([
  ['our own cases', new URL('../../fixtures/webhook-targets.tsv', import.meta.url).pathname] as const,
  // Larger, and not available everywhere.
  ...(existsSync(CORPUS) ? [['the development corpus', CORPUS] as const] : []),
])('%s', (_, file) => {
  test('every URL is accepted or rejected as expected, with either setting', async () => {
    const cases = readTargetCases(readFileSync(file, 'utf8'))
    const wrong: string[] = []
    for (const one of cases) {
      for (const allowPrivate of [false, true]) {
        const expected = allowPrivate ? one.expectAllowPrivate : one.expect
        const found = await verdict(one, allowPrivate)
        if (!isLet(expected, found)) wrong.push(`${one.id} ${one.url} private=${allowPrivate}: ${found}`)
      }
    }
    expect(wrong).toEqual([])
    expect(cases.length).toBeGreaterThan(30)
  })
})

test('a metadata address is rejected even if private ones are allowed', async () => {
  const guard: TargetGuard = { resolve: async () => ['169.254.169.254'], allowPrivate: true }
  for (const url of [
    'http://169.254.169.254/',
    'http://0xa9fea9fe/',
    'http://[::ffff:169.254.169.254]/',
    'http://[fd00:ec2::254]/',
    'http://[fd00:0ec2:0:0::0254]/',
    'http://100.100.100.200/',
    'http://metadata.google.internal/',
    'http://metadata.google.internal./',
    'http://harmless.example/',
  ]) {
    await expect(checkTarget(url, { guard, clock: createFakeClock() }), url).rejects.toMatchObject({
      code: 'VALIDATION_ERROR',
      details: { field: 'url', value: url },
    })
  }
})

test('an error states the reason and never the address of a name', async () => {
  const guard: TargetGuard = { resolve: async () => ['10.1.2.3'], allowPrivate: false }
  const refusal = await checkTarget('https://inside.example/', { guard, clock: createFakeClock() }).catch((e) => e)
  expect(refusal).toBeInstanceOf(GatewayError)
  expect(refusal.message).toMatch(
    /^The URL points to a private, loopback or link-local address\. .* webhooks\.allow .*WEBHOOKS_ALLOW_PRIVATE=true\.$/,
  )
})

test('a name without an address may be registered, and is looked up for at most 2 s', async () => {
  const clock = createFakeClock()
  const guard: TargetGuard = { resolve: () => new Promise(() => undefined), allowPrivate: false }
  const checked = checkTarget('https://later.example/', { guard, clock })
  expect(clock.pending).toBe(1)
  clock.advance(2_000)
  await checked
  const unknown: TargetGuard = { resolve: () => Promise.reject(new Error('ENOTFOUND')), allowPrivate: false }
  await checkTarget('https://later.example/', { guard: unknown, clock })
  expect(clock.pending).toBe(0)
})

test('every spelling of an IPv4 address means the address itself', async () => {
  const guard: TargetGuard = { resolve: async () => [], allowPrivate: false }
  const octet = fc.integer({ min: 0, max: 255 })
  await fc.assert(
    fc.asyncProperty(fc.tuple(octet, octet, octet, octet), async (octets) => {
      const plain = octets.join('.')
      const [a, b, c, d] = octets
      const number = ((a * 256 + b) * 256 + c) * 256 + d
      const expected = reachOfAddress(plain) === 'public'
      for (const spelling of [
        String(number),
        `0x${number.toString(16)}`,
        octets.map((value) => `0x${value.toString(16)}`).join('.'),
        octets.map((value) => `0${value.toString(8)}`).join('.'),
        `${a}.${(b * 256 + c) * 256 + d}`,
        `${a}.${b}.${c * 256 + d}`,
        `${plain}.`,
        plain.replaceAll('.', '。'),
      ]) {
        const url = `http://${spelling}/`
        const passes = await checkTarget(url, { guard, clock: createFakeClock() }).then(
          () => true,
          () => false,
        )
        expect(passes, url).toBe(expected)
        expect(readTarget(url).literal, url).toBe(plain)
      }
    }),
    { numRuns: 200 },
  )
})

test('an IPv6 address that contains a private or special IPv4 address is not public', () => {
  const inner = fc.constantFrom('127.0.0.1', '10.0.0.1', '169.254.169.254', '192.168.1.1', '0.0.0.0', '100.64.0.1')
  fc.assert(
    fc.property(inner, fc.constantFrom('::', '::ffff:', '::ffff:0:', '64:ff9b::', '64:ff9b:1::'), (address, prefix) => {
      expect(reachOfAddress(`${prefix}${address}`)).not.toBe('public')
    }),
  )
  for (const address of ['2002:7f00:1::', '2001:0:7f00:1::', 'fec0::1', '2001:db8::1', 'ff02::1', '5f00::1', '::2'])
    expect(reachOfAddress(address), address).toBe('special')
})

test('a list of blocks opens these blocks only, and never a metadata address', async () => {
  const answers: Record<string, string[]> = {
    'in.internal': ['10.2.3.4'],
    'six.internal': ['fd00:1::5'],
    'out.internal': ['10.3.0.1'],
    'both.example': ['10.2.3.4', '10.3.0.1'],
    localhost: ['127.0.0.1'],
    'cloud.internal': ['169.254.169.254'],
  }
  const guard: TargetGuard = {
    resolve: async (host) => answers[host] ?? [],
    allowPrivate: false,
    allow: createAddressList(['10.2.0.0/16', 'fd00:1::/64', '169.254.0.0/16', 'fd00:ec2::/32']),
  }
  const check = (host: string) =>
    checkTarget(`http://${host}/`, { guard, clock: createFakeClock() }).then(
      () => 'allow',
      () => 'deny',
    )
  for (const host of ['10.2.0.0', '10.2.255.255', '[::ffff:10.2.0.1]', '[fd00:1::9]', 'in.internal', 'six.internal'])
    expect(await check(host), host).toBe('allow')
  for (const host of [
    ...['10.1.255.255', '10.3.0.0', '127.0.0.1', '[fd00:2::1]', '[::1]', '192.168.0.1', 'out.internal', 'both.example'],
    ...['localhost', '169.254.169.254', '[fd00:ec2::254]', 'cloud.internal', 'metadata.google.internal', 'metadata'],
    ...['[fd00:1::5efe:169.254.169.254]', '[::ffff:169.254.169.254]', '[::10.2.0.1]', '[64:ff9b::10.2.0.1]'],
  ])
    expect(await check(host), host).toBe('deny')
  expect(() => refuseOtherPeer('10.2.0.1', ['10.2.0.1'], guard)).not.toThrow()
  expect(() => refuseOtherPeer('10.3.0.1', ['10.3.0.1'], guard)).toThrow('private')
})

test('a socket with an unexpected remote address is rejected', () => {
  const guard: TargetGuard = { resolve: async () => [], allowPrivate: true }
  expect(() => refuseOtherPeer('::ffff:127.0.0.1', ['127.0.0.1'], guard)).not.toThrow()
  expect(() => refuseOtherPeer('127.0.0.2', ['127.0.0.1'], guard)).toThrow('differs from the validated one')
  expect(() => refuseOtherPeer(undefined, ['127.0.0.1'], guard)).toThrow('no remote address')
  expect(() => refuseOtherPeer('127.0.0.1', ['127.0.0.1'], { ...guard, allowPrivate: false })).toThrow('private')
})
