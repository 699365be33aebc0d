import { expect, test } from 'vitest'
import { createNameCache } from '../../../../src/daemon/platform/network/name-cache.ts'
import { type Deferred, deferred } from '../../../deferred.ts'
import { createFakeClock } from '../../../fake-clock.ts'

const A = ['192.0.2.1']
const B = ['192.0.2.2']

/** A cache whose lookups the test answers. Each lookup is listed once. */
function cacheOf({ ttlMs = 5_000, maxTtlMs = 10_000, staleMs = 60_000 } = {}) {
  const clock = createFakeClock()
  const lookups: (Deferred<readonly string[]> & { host: string })[] = []
  const resolve = createNameCache({
    clock,
    maxTtlMs,
    staleMs,
    async ask(host) {
      const lookup = { ...deferred<readonly string[]>(), host }
      lookups.push(lookup)
      return { addresses: await lookup.promise, ttlMs }
    },
  })
  return { clock, lookups, resolve }
}

const settled = () => new Promise<void>((resolve) => setImmediate(resolve))

test('concurrent calls share one lookup for each name', async () => {
  const { lookups, resolve } = cacheOf()
  const waiting = [resolve('slow.example'), resolve('slow.example'), resolve('slow.example')]
  const other = resolve('fast.example')
  expect(lookups.map(({ host }) => host)).toEqual(['slow.example', 'fast.example'])
  lookups[1]?.resolve(B)
  expect(await other).toEqual(B)
  lookups[0]?.resolve(A)
  expect(await Promise.all(waiting)).toEqual([A, A, A])
})

test.each([
  ['the TTL', { ttlMs: 5_000, maxTtlMs: 10_000 }],
  ['the maximum of a longer TTL', { ttlMs: 3_600_000, maxTtlMs: 5_000 }],
])('addresses are fresh for %s', async (_, times) => {
  const { clock, lookups, resolve } = cacheOf(times)
  const first = resolve('a.example')
  lookups[0]?.resolve(A)
  expect(await first).toEqual(A)
  clock.advance(4_999)
  expect(await resolve('a.example')).toEqual(A)
  expect(lookups).toHaveLength(1)
  clock.advance(1)
  expect(await resolve('a.example')).toEqual(A)
  expect(lookups).toHaveLength(2)
})

test('stale addresses are returned at once, while one lookup refreshes them', async () => {
  const { clock, lookups, resolve } = cacheOf()
  const first = resolve('a.example')
  lookups[0]?.resolve(A)
  await first
  clock.advance(5_000)
  expect(await Promise.all([resolve('a.example'), resolve('a.example')])).toEqual([A, A])
  expect(lookups).toHaveLength(2)
  lookups[1]?.resolve(B)
  await settled()
  expect(await resolve('a.example')).toEqual(B)
  expect(lookups).toHaveLength(2)
})

test('stale addresses outlive failed lookups, which are repeated after a second', async () => {
  const { clock, lookups, resolve } = cacheOf()
  const first = resolve('a.example')
  lookups[0]?.resolve(A)
  await first
  clock.advance(5_000)
  expect(await resolve('a.example')).toEqual(A)
  lookups[1]?.reject(new Error('SERVFAIL'))
  await settled()
  expect(await resolve('a.example')).toEqual(A)
  expect(lookups).toHaveLength(2)
  clock.advance(1_000)
  expect(await resolve('a.example')).toEqual(A)
  expect(lookups).toHaveLength(3)
  lookups[2]?.reject(new Error('SERVFAIL'))
  await settled()

  clock.advance(60_000)
  const last = resolve('a.example')
  lookups[3]?.reject(new Error('SERVFAIL'))
  await expect(last).rejects.toThrow('SERVFAIL')
})

test('failures are not cached', async () => {
  const { lookups, resolve } = cacheOf()
  const first = resolve('a.example')
  lookups[0]?.reject(new Error('ENOTFOUND'))
  await expect(first).rejects.toThrow('ENOTFOUND')
  const second = resolve('a.example')
  lookups[1]?.resolve(A)
  expect(await second).toEqual(A)
})

test('without stale time, expired addresses are never returned', async () => {
  const { clock, lookups, resolve } = cacheOf({ staleMs: 0 })
  const first = resolve('a.example')
  lookups[0]?.resolve(A)
  await first
  clock.advance(5_000)
  const second = resolve('a.example')
  lookups[1]?.resolve(B)
  expect(await second).toEqual(B)
})
