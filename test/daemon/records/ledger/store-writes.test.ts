import { expect, test } from 'vitest'
import { createStoreWrites } from '../../../../src/daemon/records/ledger/store-writes.ts'
import { deferred } from '../../../deferred.ts'
import { describeEachEngine, storeForEach } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'

describeEachEngine('the write check', (engine) => {
  const store = storeForEach(engine)

  /** The write check, and a function that resolves when it has found the store writable again. */
  function open() {
    const clock = createFakeClock()
    let opened = deferred()
    const log = { error: () => {}, info: () => opened.resolve() }
    const writes = createStoreWrites({ db: store.db, clock, log })
    const retryAfter = () => {
      try {
        writes.require()
        return undefined
      } catch (error) {
        return (error as { retryAfterSeconds: number }).retryAfterSeconds
      }
    }
    const untilOpen = async () => {
      await opened.promise
      opened = deferred()
    }
    return { clock, writes, retryAfter, untilOpen }
  }

  test('waits twice as long before each probe if commits fail although probes succeed, up to 30 s', async () => {
    const { clock, writes, retryAfter, untilOpen } = open()
    for (const seconds of [1, 2, 4, 8, 16, 30, 30]) {
      writes.failed(new Error('a commit failed'))
      expect(retryAfter()).toBe(seconds)
      clock.advance(seconds * 1_000 - 1)
      expect([writes.isBlocked(), retryAfter()]).toEqual([true, 1])
      clock.advance(1)
      await untilOpen()
      expect([writes.isBlocked(), retryAfter()]).toEqual([false, undefined])
    }
    writes.succeeded()
    writes.failed(new Error('a commit failed'))
    expect(retryAfter()).toBe(1)
    writes.close()
    expect(clock.pending).toBe(0)
  })

  test('a commit that succeeds ends the block without a probe', async () => {
    const { clock, writes, retryAfter } = open()
    writes.failed(new Error('a commit failed'))
    writes.succeeded()
    expect([retryAfter(), await writes.check(), clock.pending]).toEqual([undefined, true, 0])
    expect(await store.db.selectFrom('store_probes').select('id').execute()).toEqual([])
  })

  test('a probe after a failure writes more than one page, and checks at the same time share one probe', async () => {
    const { clock, writes, untilOpen } = open()
    const length = async () =>
      (await store.db.selectFrom('store_probes').select('padding').execute()).map(({ padding }) => padding.length)
    expect(await Promise.all([writes.check(), writes.check()])).toEqual([true, true])
    expect(await length()).toEqual([0])
    writes.failed(new Error('a commit failed'))
    clock.advance(1_000)
    await untilOpen()
    expect(await length()).toEqual([65_536])
  })
})
