import { expect, test } from 'vitest'
import { createFreshCache } from '../../../../src/daemon/platform/db/fresh-cache.ts'
import { GatewayError } from '../../../../src/shared/errors.ts'
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

test('a crowd that asks at once is one look', async () => {
  const { cache, store } = world()
  const answers = await Promise.all(Array.from({ length: 50 }, () => cache.of('a')))
  expect(answers).toEqual(Array(50).fill({ value: 'first' }))
  expect(store.looks).toBe(1)
  expect(cache.of('a')).toEqual({ value: 'first' })
})

test('what is in use is looked up again before its time is over, and nobody waits for that', async () => {
  const { cache, store, clock } = world()
  await cache.of('a')
  store.value = 'second'
  clock.advance(MAX_AGE_MS / 2)
  expect(cache.of('a')).toEqual({ value: 'first' })
  await Promise.resolve()
  await expect.poll(() => cache.of('a')).toEqual({ value: 'second' })
  expect(store.looks).toBe(2)
})

test('nothing is answered with that is older than its time', async () => {
  const { cache, store, clock } = world()
  await cache.of('a')
  store.value = 'second'
  clock.advance(MAX_AGE_MS)
  expect(cache.of('a')).toBeInstanceOf(Promise)
  expect(await cache.of('a')).toEqual({ value: 'second' })
})

test('a clock that was set back makes nothing younger, and one that was set ahead nothing older', async () => {
  const { cache, store, clock, setWallClock } = world()
  await cache.of('a')
  store.value = 'second'
  setWallClock(60 * MAX_AGE_MS)
  expect(cache.of('a')).toEqual({ value: 'first' })
  setWallClock(-120 * MAX_AGE_MS)
  clock.advance(MAX_AGE_MS)
  expect(await cache.of('a')).toEqual({ value: 'second' })
})

test('what was forgotten is looked up again, also when a look was under way', async () => {
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

test('what is gone is not answered with, but a store that fails takes nothing away before its time', async () => {
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
