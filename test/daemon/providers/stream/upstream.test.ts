import { expect, test } from 'vitest'
import { type CallReceiver, Origin } from '../../../../src/daemon/providers/http/origin.ts'
import { openUpstream } from '../../../../src/daemon/providers/stream/upstream.ts'
import { STREAM_BUFFER_BYTES } from '../../../../src/shared/spec-limits.ts'
import { systemClock } from '../../../../src/shared/time.ts'
import { startUpstream } from '../../../upstream.ts'

test('a reader that falls behind holds at most STREAM_BUFFER_BYTES, and still gets every byte', async () => {
  const upstream = await startUpstream()
  const origin = new Origin(upstream.url, systemClock)
  const piece = Buffer.alloc(1_048_576, 'x')
  upstream.script(async ({ head, write, end }) => {
    head(200)
    for (let count = 0; count < 8; count++) await write(piece)
    end()
  })

  const call = openUpstream(origin, { path: '/', headers: [], body: '' }, new AbortController().signal)
  await call.takeHead()
  let total = 0
  let largest = 0
  for (;;) {
    // Turns enough for the socket to bring far more than the bound, if it were read.
    for (let turns = 0; turns < 30; turns++) await new Promise((resolve) => setImmediate(resolve))
    const bytes = await call.next()
    if (bytes === null) break
    total += bytes.length
    largest = Math.max(largest, bytes.length)
  }

  expect(total).toBe(8 * piece.length)
  expect(largest).toBeLessThanOrEqual(STREAM_BUFFER_BYTES)
  expect(largest).toBeGreaterThan(STREAM_BUFFER_BYTES / 2)
  await origin.close()
  await upstream.close()
})

test('many small pieces pause the connection before their bytes do', async () => {
  const paused: boolean[] = []
  let receiver: CallReceiver | undefined
  const origin: Pick<Origin, 'post'> = {
    post(_, to) {
      receiver = to
      return { pause: () => paused.push(true), resume: () => paused.push(false), abort() {} }
    },
  }
  const call = openUpstream(origin, { path: '/', headers: [], body: '' }, new AbortController().signal)
  for (let count = 0; count < 1_025; count++) receiver?.body(Buffer.from('x'))
  expect(paused).toEqual([true])
  expect(await call.next()).toHaveLength(1_025)
  expect(paused).toEqual([true, false])
})
