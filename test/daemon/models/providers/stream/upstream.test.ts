import { expect, test } from 'vitest'
import { openPool } from '../../../../../src/daemon/models/pool.ts'
import { openUpstream } from '../../../../../src/daemon/models/providers/stream/upstream.ts'
import { STREAM_BUFFER_BYTES } from '../../../../../src/shared/spec-limits.ts'
import { startUpstream } from '../../../../upstream.ts'

test('a slow reader buffers at most STREAM_BUFFER_BYTES, and still gets every byte', async () => {
  const upstream = await startUpstream()
  const pool = openPool(upstream.url)
  const piece = Buffer.alloc(1_048_576, 'x')
  upstream.script(async ({ head, write, end }) => {
    head(200)
    for (let count = 0; count < 8; count++) await write(piece)
    end()
  })

  const call = openUpstream(pool, { path: '/', headers: [], body: '' }, new AbortController().signal)
  await call.takeHead()
  let total = 0
  let largest = 0
  for (;;) {
    // Enough turns for the socket to deliver far more than the bound if it were read.
    for (let turns = 0; turns < 30; turns++) await new Promise((resolve) => setImmediate(resolve))
    const bytes = await call.next()
    if (bytes === null) break
    total += bytes.length
    largest = Math.max(largest, bytes.length)
  }

  expect(total).toBe(8 * piece.length)
  expect(largest).toBeLessThanOrEqual(STREAM_BUFFER_BYTES)
  expect(largest).toBeGreaterThan(STREAM_BUFFER_BYTES / 2)
  await pool.destroy()
  await upstream.close()
})

test('many small pieces pause the connection before their bytes do', async () => {
  const upstream = await startUpstream()
  const pool = openPool(upstream.url)
  const PIECES = 5_000
  upstream.script(async ({ head, write, end }) => {
    head(200)
    for (let count = 0; count < PIECES; count++) await write('x')
    end()
  })

  const call = openUpstream(pool, { path: '/', headers: [], body: '' }, new AbortController().signal)
  await call.takeHead()
  const request = await upstream.nextRequest()
  const lengths: number[] = []
  for (;;) {
    // Enough turns for the server to send everything if it were read.
    for (let turns = 0; turns < 2 * PIECES; turns++) await new Promise((resolve) => setImmediate(resolve))
    const bytes = await call.next()
    if (bytes === null) break
    lengths.push(bytes.length)
  }
  expect(request.isAborted).toBe(false)
  expect(lengths[0]).toBe(1_025)
  expect(lengths.reduce((sum, length) => sum + length)).toBe(PIECES)
  await pool.destroy()
  await upstream.close()
})
