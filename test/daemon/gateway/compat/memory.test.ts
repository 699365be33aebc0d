import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { LINGER_MS } from '../../../../src/daemon/platform/http/body.ts'
import { BodyMemory, defaultBodyMemory, FREE_BODY_BYTES } from '../../../../src/daemon/platform/http/body-memory.ts'
import { BODY_COPIES, BODY_MEMORY_BYTES, REQUEST_TIMEOUT_MS } from '../../../../src/shared/spec-limits.ts'
import { deferred } from '../../../deferred.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { type Gateway, startGateway } from '../../../harness.ts'
import { addTestTenant } from '../../../tenant-admin.ts'
import { chatJson, replyJson } from '../../../upstream.ts'

const SURFACES = [
  ['/v1/chat/completions', {}],
  ['/v1/messages', { max_tokens: 100 }],
] as const
const MB = 1024 * 1024
const PROSE = 'The quick brown fox jumps over the lazy dog. '
const QUOTED = 'It’s “fine”, he said – and left. '

/** A chat of about this many bytes of text. */
function chatOf(bytes: number, fields: object, text: string = PROSE): string {
  const content = text.repeat(Math.ceil(bytes / Buffer.byteLength(text)))
  return JSON.stringify({ model: 'test/any', messages: [{ role: 'user', content }], ...fields })
}

/** The provider sends nothing until it is released. */
function holdUpstream({ upstream }: Gateway) {
  const release = deferred<void>()
  upstream.fallback(async (exchange) => {
    await release.promise
    await replyJson(chatJson('Hello.'))(exchange)
  })
  return release
}

const heldBytes = async ({ app }: Gateway, isReached: (bytes: number) => boolean): Promise<void> => {
  while (!isReached(app.bodies.heldBytes)) await new Promise((resolve) => setImmediate(resolve))
}

test.each(SURFACES)(
  '%s: concurrent large bodies are bounded; small ones pass, and memory is released',
  async (path, fields) => {
    const gateway = await startGateway({ requestLimits: { bodyMemoryBytes: 64 * MB } })
    const release = holdUpstream(gateway)
    const large = () => gateway.call('POST', path, chatOf(3 * MB, fields))
    const running = [large(), large()]
    await gateway.upstream.nextRequest()
    await gateway.upstream.nextRequest()

    for (const refused of await Promise.all(Array.from({ length: 4 }, large))) {
      expect([refused.status, refused.headers['retry-after']]).toEqual([503, '5'])
      expect(refused.body.error.message).toBe(
        'Too many large requests of this tenant are in memory. Retry in a moment.',
      )
    }
    const small = gateway.call('POST', path, chatOf(FREE_BODY_BYTES - 1024, fields, QUOTED))
    await gateway.upstream.nextRequest()

    release.resolve()
    for (const answer of await Promise.all([...running, small])) expect(answer.status).toBe(200)
    expect((await large()).status).toBe(200)
    expect(gateway.app.bodies.heldBytes).toBe(0)
  },
)

test.each([
  ['ASCII', PROSE, (body: string) => body, BODY_COPIES.ascii],
  ['beyond ASCII', QUOTED, (body: string) => body, BODY_COPIES.other],
  // In the JSON format of Python.
  [
    'escaped',
    QUOTED,
    (body: string) => body.replace(/[^ -~]/g, (char) => `\\u${char.charCodeAt(0).toString(16)}`),
    BODY_COPIES.other,
  ],
])('a body counts with its copies: %s', async (_, text, encode, copies) => {
  const gateway = await startGateway()
  const release = holdUpstream(gateway)
  const body = encode(chatOf(2 * MB, {}, text))
  const running = gateway.call('POST', '/v1/chat/completions', body)
  await gateway.upstream.nextRequest()
  const counted = gateway.app.bodies.heldBytes + FREE_BODY_BYTES * BODY_COPIES.other
  expect(counted / Buffer.byteLength(body)).toBeCloseTo(copies, 2)
  release.resolve()
  expect((await running).status).toBe(200)
})

test('one tenant cannot use the memory of all', async () => {
  const gateway = await startGateway({ requestLimits: { bodyMemoryBytes: 64 * MB } })
  const other = await addTestTenant(gateway)
  const release = holdUpstream(gateway)
  const large = (call: typeof other.call) => call('POST', '/v1/chat/completions', chatOf(3 * MB, {}))
  const running = [large(gateway.call), large(gateway.call)]
  for (const _ of running) await gateway.upstream.nextRequest()
  expect((await large(gateway.call)).status).toBe(503)
  running.push(large(other.call), large(other.call))
  await gateway.upstream.nextRequest()
  await gateway.upstream.nextRequest()
  release.resolve()
  for (const answer of await Promise.all(running)) expect(answer.status).toBe(200)
})

/** Sends only the head of a large request and a part of its body. */
async function stalledUpload(gateway: Gateway, more = '') {
  const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1')
  await once(socket, 'connect')
  socket.on('error', () => undefined).setEncoding('utf8')
  socket.write(
    `POST /v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${gateway.adminKey}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${20 * MB}\r\n${more}\r\n`,
  )
  return socket
}

test('an upload counts with its declared length, is rejected by it at once, and releases its memory when it stalls', async () => {
  const clock = createFakeClock()
  const gateway = await startGateway({ clock, requestLimits: { bodyMemoryBytes: 32 * MB } })
  const stalled = await stalledUpload(gateway)
  const answer = once(stalled, 'data')
  await heldBytes(gateway, (bytes) => bytes > 75 * MB)

  const refused = await stalledUpload(gateway, 'Expect: 100-continue\r\n')
  // Not 100, because the client can learn of the error without sending the body.
  expect((await once(refused, 'data'))[0]).toMatch(/^HTTP\/1.1 503 /)

  stalled.write(Buffer.alloc(MB / 2, ' '))
  clock.advance(REQUEST_TIMEOUT_MS)
  await heldBytes(gateway, (bytes) => bytes === 0)
  expect((await answer)[0]).toContain('408 Request Timeout')
  const closed = once(stalled, 'close')
  clock.advance(LINGER_MS)
  await closed
})

test('memory beyond the free share is counted; a single request always fits, and several of a tenant use half', () => {
  const free = FREE_BODY_BYTES * BODY_COPIES.other
  const memory = new BodyMemory(100_000)
  const [first, second, third] = [memory.open('a'), memory.open('b'), memory.open('a')]
  second.hold(free)
  expect(memory.heldBytes).toBe(0)
  first.hold(free + 90_000)
  expect(memory.heldBytes).toBe(90_000)
  expect(() => second.hold(10_001)).toThrow('requests are in memory')
  second.release()
  first.hold(500_000)
  first.release()
  first.release()
  expect(memory.heldBytes).toBe(0)
  second.hold(free + 20_000)
  first.hold(free + 30_000)
  expect(() => third.hold(free + 20_001)).toThrow('requests of this tenant are in memory')
  third.release()
  third.hold(free + 20_000)
  expect(memory.heldBytes).toBe(70_000)
})

test('the default is half of the available memory, at most BODY_MEMORY_BYTES.default', () => {
  expect(defaultBodyMemory(200 * MB, 8192 * MB)).toBe(100 * MB)
  expect(defaultBodyMemory(4096 * MB, 512 * MB)).toBe(256 * MB)
  expect(defaultBodyMemory(4096 * MB, 8192 * MB)).toBe(BODY_MEMORY_BYTES.default)
  expect(defaultBodyMemory()).toBeGreaterThan(0)
})

test('JSON with very many values counts more than its bytes', async () => {
  const gateway = await startGateway({ requestLimits: { bodyMemoryBytes: 32 * MB } })
  const release = holdUpstream(gateway)
  const bodyWith = (extra: string) =>
    chatOf(1000, { max_tokens: 100 }).replace('{', `{"metadata":{"extra":[${extra}]},`)
  const running = gateway.call('POST', '/v1/messages', bodyWith(`${'{},'.repeat(200_000)}{}`))
  await gateway.upstream.nextRequest()
  const second = await gateway.call('POST', '/v1/messages', bodyWith(`${'{},'.repeat(200_000)}{}`))
  expect(second.status).toBe(503)
  release.resolve()
  expect((await running).status).toBe(200)
})
