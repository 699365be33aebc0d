import fc from 'fast-check'
import { expect, test } from 'vitest'
import { watchSilence } from '../../../../../src/daemon/models/providers/stream/silence.ts'
import { STREAM_END_GRACE_MS } from '../../../../../src/shared/spec-limits.ts'
import { createFakeClock } from '../../../../fake-clock.ts'

const timeouts = { attemptMs: 1_000, firstTokenMs: 200, stallMs: 400 }

function startWatch(streamed = true) {
  const clock = createFakeClock()
  const expired: string[] = []
  const watch = watchSilence(clock, timeouts, streamed, (error) => void expired.push(error.message))
  return { clock, expired, watch }
}

test("a client that takes longer than attemptMs does not use the provider's time", () => {
  const { clock, expired, watch } = startWatch()
  watch.waiting()
  clock.advance(100)
  watch.heard()
  watch.committed()
  for (let read = 0; read < 8; read++) {
    clock.advance(5_000)
    watch.waiting()
    clock.advance(100)
    watch.heard()
  }
  watch.waiting()
  clock.advance(99)
  expect(expired).toEqual([])
  clock.advance(1)
  expect(expired).toEqual([expect.stringContaining('whole answer within 1000 ms')])
})

test('a client that delays the last text leaves the provider its time to end', () => {
  const { clock, expired, watch } = startWatch()
  watch.heard()
  watch.committed()
  watch.finishing()
  clock.advance(STREAM_END_GRACE_MS * 10)
  watch.waiting()
  clock.advance(STREAM_END_GRACE_MS - 1)
  expect(expired).toEqual([])
  clock.advance(1)
  expect(expired).toEqual([expect.stringContaining('the end of its answer')])
})

test('the timeout of the first token starts with the call', () => {
  const { clock, expired, watch } = startWatch()
  clock.advance(150)
  watch.waiting()
  clock.advance(49)
  expect(expired).toEqual([])
  clock.advance(1)
  expect(expired).toEqual([expect.stringContaining('first token within 200 ms')])
})

test('a running stream ends exactly when the first limit on its waiting is reached', () => {
  const pause = fc.integer({ min: 0, max: 600 })
  fc.assert(
    fc.property(fc.array(fc.record({ client: pause, provider: pause }), { maxLength: 12 }), (reads) => {
      const { clock, expired, watch } = startWatch()
      watch.heard()
      watch.committed()
      let waitedMs = 0
      for (const { client, provider } of reads) {
        clock.advance(client)
        expect(expired).toEqual([])
        watch.waiting()
        const limitMs = Math.min(timeouts.stallMs, timeouts.attemptMs - waitedMs)
        clock.advance(Math.min(provider, limitMs - 1))
        expect(expired).toEqual([])
        if (provider >= limitMs) {
          clock.advance(1)
          expect(expired).toHaveLength(1)
          break
        }
        watch.heard()
        waitedMs += provider
      }
      watch.stop()
      expect(clock.pending).toBe(0)
    }),
  )
})

test('without any limit no timer is set, which would fire at once', () => {
  const clock = createFakeClock()
  const unlimited = { ...timeouts, attemptMs: Number.POSITIVE_INFINITY }
  const watch = watchSilence(clock, unlimited, false, () => expect.unreachable())
  expect(clock.pending).toBe(0)
  watch.heard()
  watch.waiting()
  expect(clock.pending).toBe(0)
  watch.finishing()
  watch.waiting()
  expect(clock.pending).toBe(1)
  watch.stop()
  expect(clock.pending).toBe(0)
})
