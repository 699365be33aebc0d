import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { deferred } from '../../../deferred.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { type Gateway, startGateway, textOf, toFrames } from '../../../harness.ts'
import { chatStream, replySteps } from '../../../upstream.ts'

const usage = { prompt_tokens: 1, completion_tokens: 1 }
const chunk = (text: string) => chatStream([text], { finishReason: null, done: false })

/** Resolves when a number has stayed the same for many turns of the event loop, on which all three parties run. */
async function untilStill(read: () => number): Promise<void> {
  let last = read()
  for (let turns = 0; turns < 1000; turns++) {
    await new Promise((resolve) => setImmediate(resolve))
    if (read() !== last) turns = 0
    last = read()
  }
}

/** A client that requests a stream and reads only on demand. */
async function lazyClient(gateway: Gateway) {
  const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1')
  await once(socket, 'connect')
  socket.pause()
  const body = JSON.stringify({ prompt: 'hi', index: 'Zero-Knowledge', model: 'test/any', stream: true })
  socket.write(
    `POST /api/external/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${gateway.adminKey}\r\nConnection: close\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  )
  return socket
}

test('a client that does not read pauses the upstream, and gets every byte in the end', async () => {
  const gateway = await startGateway()
  const piece = chunk('x'.repeat(64 * 1024))
  // Far more than all buffers on the path can contain, so the upstream must have been paused; less than the limit of
  // an answer.
  const pieces = 900
  let sent = 0
  gateway.upstream.script(async ({ head, write, end }) => {
    head(200, { 'content-type': 'text/event-stream' })
    // Each piece waits until the previous one has left this process.
    for (; sent < pieces; sent++) await write(piece)
    await write(chatStream([], { usage }))
    end()
  })
  const socket = await lazyClient(gateway)
  await untilStill(() => sent)
  expect(sent).toBeLessThan(pieces)
  let received = 0
  let tail = ''
  socket.on('data', (data) => {
    received += data.length
    tail = (tail + data.toString()).slice(-200)
  })
  socket.resume()
  await once(socket, 'close')
  expect(sent).toBe(pieces)
  expect(received).toBeGreaterThan(pieces * 64 * 1024)
  expect(tail).toContain('data: [DONE]')
})

test('draining: new requests are rejected, running streams finish, then everything closes', async () => {
  const gateway = await startGateway({ drainTimeoutMs: 60_000 })
  const rest = deferred()
  gateway.upstream.script(replySteps([chunk('one '), rest.promise, chatStream(['two'], { usage })]))
  const answer = await gateway.openStream({ prompt: 'hi' })
  let text = String((await answer.next()).value)
  const drained = gateway.app.drain()
  const refused = await gateway.chat({ prompt: 'hi' })
  expect([refused.status, refused.body.error, refused.headers['retry-after']]).toEqual([
    503,
    'Service unavailable',
    '2',
  ])
  expect((await gateway.call('GET', '/readyz')).status).toBe(503)
  expect((await gateway.call('GET', '/livez')).status).toBe(200)
  rest.resolve()
  for (let step = await answer.next(); !step.done; step = await answer.next()) text += step.value
  const { frames, done } = toFrames(text)
  expect([textOf(frames), done]).toEqual(['one two', true])
  await drained
})

test('draining: a stream that exceeds the drain time ends with an error frame and is billed', async () => {
  const clock = createFakeClock()
  const gateway = await startGateway({ clock, drainTimeoutMs: 5000 })
  gateway.upstream.script(replySteps([chunk('one ')], { ending: 'hang' }))
  const answer = await gateway.openStream({ prompt: 'hi' })
  let text = String((await answer.next()).value)
  const drained = gateway.app.drain()
  clock.advance(5000)
  for (let step = await answer.next(); !step.done; step = await answer.next()) text += step.value
  const { frames, done } = toFrames(text)
  expect(done).toBe(false)
  expect(frames.at(-1)).toMatchObject({ type: 'error', data: { error: 'Service unavailable', reason: 'shutdown' } })
  await drained
  await gateway.restart()
  expect(await gateway.usage()).toEqual([expect.objectContaining({ outcome: 'error', streamed: 1 })])
})

/** Everything that the gateway sends on a separate connection until it closes it. */
async function rawStream(gateway: Gateway, version: '1.0' | '1.1'): Promise<{ head: string; body: Buffer }> {
  const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1')
  const body = JSON.stringify({ prompt: 'hi', index: 'Zero-Knowledge', model: 'test/any', stream: true })
  socket.write(
    `POST /api/external/chat/completions HTTP/${version}\r\nHost: x\r\nAuthorization: Bearer ${gateway.adminKey}\r\n` +
      `Connection: close\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  )
  const pieces: Buffer[] = []
  for await (const piece of socket) pieces.push(piece)
  const bytes = Buffer.concat(pieces)
  const end = bytes.indexOf('\r\n\r\n')
  return { head: bytes.subarray(0, end).toString(), body: bytes.subarray(end + 4) }
}

/** RFC 9112 §7.1, byte by byte. */
function unchunked(body: Buffer): string {
  const data: Buffer[] = []
  for (let at = 0; ; ) {
    const lineEnd = body.indexOf('\r\n', at)
    const size = Number.parseInt(body.toString('latin1', at, lineEnd), 16)
    const next = lineEnd + 2 + size + 2
    expect(body.toString('latin1', next - 2, next)).toBe('\r\n')
    if (size === 0) {
      expect(next).toBe(body.length)
      return Buffer.concat(data).toString()
    }
    data.push(body.subarray(lineEnd + 2, lineEnd + 2 + size))
    at = next
  }
}

test('the chunk framing of a stream follows HTTP/1.1 byte for byte, with multi-byte characters', async () => {
  const gateway = await startGateway()
  const words = ['plain ', 'é', ' \u{1f600} ', '"quoted"\n', '\u2028']
  gateway.upstream.script(replySteps([...words.map(chunk), chatStream([], { usage })]))
  const { head, body } = await rawStream(gateway, '1.1')
  expect(head.toLowerCase()).toContain('transfer-encoding: chunked')
  const { frames, done } = toFrames(unchunked(body))
  expect([textOf(frames), done]).toEqual([words.join(''), true])
})

test('an HTTP/1.0 client gets only the frames, and the connection closes at their end', async () => {
  const gateway = await startGateway()
  gateway.upstream.script(replySteps([chunk('one '), chatStream(['two'], { usage })]))
  const { head, body } = await rawStream(gateway, '1.0')
  expect(head.toLowerCase()).not.toContain('transfer-encoding')
  const { frames, done } = toFrames(body.toString())
  expect([textOf(frames), done]).toEqual(['one two', true])
})
