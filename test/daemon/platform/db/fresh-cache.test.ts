import { expect, test } from 'vitest'
import { createFreshCache } from '../../../../src/daemon/platform/db/fresh-cache.ts'
import { GatewayError } from '../../../../src/shared/errors.ts'
import { deferred } from '../../../deferred.ts'
import { createFakeClock } from '../../../fake-clock.ts'

const MAX_AGE_MS = 1_000

/** A store with one value that counts its reads. */
function world() {
  const fake = createFakeClock()
  let setMs = 0
  const clock = { ...fake, now: () => fake.now() + setMs }
  const setWallClock = (byMs: number) => {
    setMs += byMs
  }
  const store = { value: 'first', looks: 0, fault: undefined as Error | undefined }
  const cache = createFreshCache({
    clock,
    maxAgeMs: MAX_AGE_MS,
    async load() {
      store.looks += 1
      if (store.fault) throw store.fault
      return { value: store.value }
    },
  })
  return { clock, setWallClock, store, cache }
}

test('concurrent reads cause one query', async () => {
  const { cache, store } = world()
  const answers = await Promise.all(Array.from({ length: 50 }, () => cache.of('a')))
  expect(answers).toEqual(Array(50).fill({ value: 'first' }))
  expect(store.looks).toBe(1)
  expect(cache.of('a')).toEqual({ value: 'first' })
})

test('an entry in use is refreshed before it expires, without waiting', async () => {
  const { cache, store, clock } = world()
  await cache.of('a')
  store.value = 'second'
  clock.advance(MAX_AGE_MS / 2)
  expect(cache.of('a')).toEqual({ value: 'first' })
  await Promise.resolve()
  await expect.poll(() => cache.of('a')).toEqual({ value: 'second' })
  expect(store.looks).toBe(2)
})

test('expired entries are never returned', async () => {
  const { cache, store, clock } = world()
  await cache.of('a')
  store.value = 'second'
  clock.advance(MAX_AGE_MS)
  expect(cache.of('a')).toBeInstanceOf(Promise)
  expect(await cache.of('a')).toEqual({ value: 'second' })
})

test('setting the clock back or ahead does not change the age of entries', async () => {
  const { cache, store, clock, setWallClock } = world()
  await cache.of('a')
  store.value = 'second'
  setWallClock(60 * MAX_AGE_MS)
  expect(cache.of('a')).toEqual({ value: 'first' })
  setWallClock(-120 * MAX_AGE_MS)
  clock.advance(MAX_AGE_MS)
  expect(await cache.of('a')).toEqual({ value: 'second' })
})

test('an invalidated entry is read again, even during a running read', async () => {
  const { cache, store } = world()
  const early = cache.of('a')
  cache.forget('a')
  store.value = 'second'
  expect(await cache.of('a')).toEqual({ value: 'second' })
  await early
  expect(cache.of('a')).toEqual({ value: 'second' })
  cache.forget()
  expect(cache.of('a')).toBeInstanceOf(Promise)
})

test('deleted values are not returned, but a failing store does not expire entries early', async () => {
  const { cache, store, clock } = world()
  await cache.of('a')
  clock.advance(MAX_AGE_MS / 2)
  store.fault = new Error('the store is gone')
  expect(cache.of('a')).toEqual({ value: 'first' })
  await new Promise(setImmediate)
  expect(cache.of('a')).toEqual({ value: 'first' })
  await new Promise(setImmediate)
  store.fault = new GatewayError('UNAUTHORIZED', 'revoked')
  expect(cache.of('a')).toEqual({ value: 'first' })
  await new Promise(setImmediate)
  await expect(cache.of('a')).rejects.toThrow('revoked')
})

test('a test of values invalidates only the entries that it matches', async () => {
  const looks: string[] = []
  const cache = createFreshCache({
    clock: createFakeClock(),
    maxAgeMs: MAX_AGE_MS,
    async load(name) {
      looks.push(name)
      return { name }
    },
  })
  await Promise.all([cache.of('a'), cache.of('b')])
  cache.forget(({ name }) => name === 'a')
  expect([await cache.of('a'), cache.of('b'), cache.knows('a')]).toEqual([{ name: 'a' }, { name: 'b' }, true])
  expect(looks).toEqual(['a', 'b', 'a'])
})

test('a name without a value is not looked up again until it expires or something changes', async () => {
  const clock = createFakeClock()
  const store = { value: undefined as string | undefined, looks: 0 }
  const cache = createFreshCache({
    clock,
    maxAgeMs: MAX_AGE_MS,
    absentNames: 2,
    async load() {
      store.looks += 1
      if (store.value === undefined) throw new GatewayError('NOT_FOUND', 'There is none.')
      return { value: store.value }
    },
  })
  await expect(cache.of('a')).rejects.toThrow('There is none.')
  expect(() => cache.of('a')).toThrow('There is none.')
  expect([store.looks, cache.knows('a')]).toEqual([1, false])
  clock.advance(MAX_AGE_MS)
  await expect(cache.of('a')).rejects.toThrow('There is none.')
  store.value = 'created'
  cache.forget(() => false)
  expect(await cache.of('a')).toEqual({ value: 'created' })
  expect([store.looks, cache.knows('a')]).toEqual([3, true])
})

test('a name that was created during its lookup is not cached as absent', async () => {
  const looked = deferred()
  const store = { value: undefined as string | undefined }
  const cache = createFreshCache({
    clock: createFakeClock(),
    maxAgeMs: MAX_AGE_MS,
    absentNames: 2,
    async load() {
      const { value } = store
      await looked.promise
      if (value === undefined) throw new GatewayError('NOT_FOUND', 'There is none.')
      return { value }
    },
  })
  const before = cache.of('a') as Promise<unknown>
  store.value = 'created'
  cache.forget(() => false)
  looked.resolve()
  await expect(before).rejects.toThrow('There is none.')
  expect(await cache.of('a')).toEqual({ value: 'created' })
})
