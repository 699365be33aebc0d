import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { BodyMemory } from '../../../src/daemon/http/body-memory.ts'
import { FREE_BODY_BYTES, REQUEST_TIMEOUT_MS } from '../../../src/shared/spec-limits.ts'
import { deferred } from '../../deferred.ts'
import { createFakeClock } from '../../fake-clock.ts'
import { type Gateway, startGateway } from '../../harness.ts'
import { chatJson, replyJson } from '../../upstream.ts'

const SURFACES = [
  ['/v1/chat/completions', {}],
  ['/v1/messages', { max_tokens: 100 }],
] as const
const MB = 1024 * 1024

/** A chat of so many bytes: white space, which takes no part in what the model reads. */
function chatOf(bytes: number, fields: object): string {
  const body = JSON.stringify({ model: 'test/any', messages: [{ role: 'user', content: 'Hi' }], ...fields })
  return body.replace('{', `{${' '.repeat(bytes - body.length)}`)
}

test.each(SURFACES)(
  '%s: large bodies at once are bounded; small ones pass, and room comes back',
  async (path, fields) => {
    const gateway = await startGateway({ requestLimits: { bodyMemoryBytes: 64 * MB } })
    const release = deferred<void>()
    gateway.upstream.fallback(async (exchange) => {
      if (gateway.upstream.requests.length <= 2) await release.promise
      await replyJson(chatJson('Hello.'))(exchange)
    })
    const large = () => gateway.call('POST', path, chatOf(30 * MB, fields))
    const running = [large(), large()]
    await gateway.upstream.nextRequest()
    await gateway.upstream.nextRequest()

    for (const refused of await Promise.all(Array.from({ length: 4 }, large))) {
      expect([refused.status, refused.headers['retry-after']]).toEqual([503, '5'])
      expect(refused.body.error.message).toBe('Too many large requests are in memory; try again in a moment.')
    }
    expect((await gateway.call('POST', path, chatOf(FREE_BODY_BYTES - 1024, fields))).status).toBe(200)

    release.resolve()
    for (const answer of await Promise.all(running)) expect(answer.status).toBe(200)
    expect((await large()).status).toBe(200)
  },
)

/** Sends the head of a large request and a part of its body, and nothing more. */
async function stalledUpload(gateway: Gateway, bytes: number) {
  const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1')
  await once(socket, 'connect')
  socket.on('error', () => undefined)
  socket.write(
    `POST /v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${gateway.adminKey}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${30 * MB}\r\n\r\n`,
  )
  socket.write(Buffer.alloc(bytes, ' '))
  return socket
}

test('uploads that stall give their memory back', async () => {
  const clock = createFakeClock()
  const gateway = await startGateway({ clock, requestLimits: { bodyMemoryBytes: 32 * MB } })
  const fields = { max_tokens: 100 }
  const post = async () => (await gateway.call('POST', '/v1/messages', chatOf(20 * MB, fields))).status
  const socket = await stalledUpload(gateway, 20 * MB)
  // Until all of it has left, and the daemon, on this event loop, has read it.
  if (socket.writableNeedDrain) await once(socket, 'drain')
  for (let turn = 0; turn < 1000; turn++) await new Promise((resolve) => setImmediate(resolve))
  expect(await post()).toBe(503)
  let answer = ''
  socket.on('data', (data) => {
    answer += data
  })
  clock.advance(REQUEST_TIMEOUT_MS)
  expect(await post()).toBe(503)
  clock.advance(REQUEST_TIMEOUT_MS)
  while ((await post()) === 503);
  clock.advance(REQUEST_TIMEOUT_MS)
  await once(socket, 'close')
  expect(answer).toContain('408 Request Timeout')
})

test('what a request holds is counted from FREE_BODY_BYTES on; one alone always fits', () => {
  const memory = new BodyMemory(100_000)
  const [first, second] = [memory.open(), memory.open()]
  second.hold(FREE_BODY_BYTES)
  expect(memory.heldBytes).toBe(0)
  first.hold(FREE_BODY_BYTES + 90_000)
  expect(memory.heldBytes).toBe(90_000)
  expect(() => second.hold(10_001)).toThrow('in memory')
  second.release()
  first.hold(500_000)
  first.release()
  first.release()
  expect(memory.heldBytes).toBe(0)
  second.hold(FREE_BODY_BYTES + 100_000)
  expect(memory.heldBytes).toBe(100_000)
})

test('JSON of very many values counts for more than its bytes', async () => {
  const gateway = await startGateway({ requestLimits: { bodyMemoryBytes: 32 * MB } })
  const release = deferred<void>()
  gateway.upstream.script(async (exchange) => {
    await release.promise
    await replyJson(chatJson('Hello.'))(exchange)
  })
  const bodyWith = (extra: string) =>
    chatOf(1000, { max_tokens: 100 }).replace('{', `{"metadata":{"extra":[${extra}]},`)
  const running = gateway.call('POST', '/v1/messages', bodyWith(`${'{},'.repeat(200_000)}{}`))
  await gateway.upstream.nextRequest()
  const second = await gateway.call('POST', '/v1/messages', bodyWith(`${'{},'.repeat(200_000)}{}`))
  expect(second.status).toBe(503)
  release.resolve()
  expect((await running).status).toBe(200)
})
