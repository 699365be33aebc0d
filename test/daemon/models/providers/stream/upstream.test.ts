import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
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

test('pieces that arrive at once are read in several turns of the event loop', async () => {
  const PIECES = 30_000
  const answer = `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(PIECES)}0\r\n\r\n`
  const server = createServer((socket) => socket.once('data', () => socket.end(answer)))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const pool = openPool(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)

  const call = openUpstream(pool, { path: '/', headers: [], body: '' }, new AbortController().signal)
  await call.takeHead()
  let turns = 0
  let isOver = false
  const count = () => {
    turns++
    if (!isOver) setImmediate(count)
  }
  count()
  let total = 0
  for (let bytes = await call.next(); bytes; bytes = await call.next()) total += bytes.length
  isOver = true
  expect(total).toBe(PIECES)
  expect(turns).toBeGreaterThan(PIECES / 2_000)
  await pool.destroy()
  server.close()
})
