import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { deferred } from '../../deferred.ts'
import { createFakeClock } from '../../fake-clock.ts'
import { type Gateway, startGateway, textOf, toFrames } from '../../harness.ts'
import { chatStream, replySteps } from '../../upstream.ts'

const usage = { prompt_tokens: 1, completion_tokens: 1 }
const chunk = (text: string) => chatStream([text], { finishReason: null, done: false })

/** Resolves when a number has stood still for many turns of the event loop, on which all three parties run. */
async function untilStill(read: () => number): Promise<void> {
  let last = read()
  for (let turns = 0; turns < 1000; turns++) {
    await new Promise((resolve) => setImmediate(resolve))
    if (read() !== last) turns = 0
    last = read()
  }
}

/** A client that asks for a stream and does not read until told to. */
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
  // Far more than all buffers on the way may hold, so the upstream must have been stopped; less than one answer may have.
  const pieces = 900
  let sent = 0
  gateway.upstream.script(async ({ head, write, end }) => {
    head(200, { 'content-type': 'text/event-stream' })
    // Each piece waits until the one before has left this process.
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

test('draining: no new work, running streams finish, then everything closes', async () => {
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

test('draining: a stream that outlasts the drain time ends with an error frame and is billed', async () => {
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
