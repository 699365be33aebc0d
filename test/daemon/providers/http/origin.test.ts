import { readFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import path from 'node:path'
import tls, { type TLSSocket } from 'node:tls'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Origin } from '../../../../src/daemon/providers/http/origin.ts'
import { PROVIDER_CONNECT_TIMEOUT_MS, PROVIDER_IDLE_CONNECTION_MS } from '../../../../src/shared/spec-limits.ts'
import { deferred } from '../../../deferred.ts'
import { createFakeClock, type FakeClock } from '../../../fake-clock.ts'

/** A server that keeps the bytes it gets and says what the test says. */
type RawServer = {
  port: number
  sockets: Socket[]
  /** The bytes of each connection so far, as Latin-1. */
  received: string[]
  /** Resolves when there are so many connections, and `text` has come on the last of them. */
  got(connections: number, text: string): Promise<Socket>
  close(): Promise<void>
}

let server: RawServer
let clock: FakeClock
let origin: Origin

beforeEach(async () => {
  server = await listen(createServer(), 'connection')
  clock = createFakeClock()
  origin = new Origin(`http://127.0.0.1:${server.port}`, clock)
})

afterEach(async () => {
  vi.unstubAllEnvs()
  vi.restoreAllMocks()
  await origin.close()
  await server.close()
  expect(clock.pending).toBe(0)
})

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi'

const hello = { path: '/chat', headers: ['authorization', 'Bearer k'], body: '{"a":1}' }

/** Sends a request; `body` is the whole answer. */
function post(to = origin, request: Parameters<Origin['post']>[0] = hello) {
  const heard: string[] = []
  const begun = deferred()
  const answered = deferred<string>()
  let body = ''
  const sent = to.post(request, {
    head(status) {
      heard.push(String(status))
      begun.resolve()
    },
    body: (bytes) => {
      body += bytes.toString()
    },
    end() {
      heard.push('end')
      answered.resolve(body)
    },
    failed(error) {
      heard.push('failed')
      answered.reject(error)
    },
  })
  // Not every test waits for it.
  answered.promise.catch(() => {})
  return { sent, heard, begun: begun.promise, body: answered.promise }
}

/** Posts and lets the server answer on its connection number `connection`. */
async function exchange(connection: number, answer = OK): Promise<string> {
  const { body } = post()
  const socket = await server.got(connection, hello.body)
  server.received[connection - 1] = ''
  socket.write(answer)
  return body
}

test('a request is one head and its body, with what the provider has configured', async () => {
  const answered = post(origin, {
    path: '/v1/chat?x=1',
    headers: ['x-Key', 'ké', 'accept', '*/*'],
    body: '{"t":"für"}',
  })
  const socket = await server.got(1, '"}')
  expect(server.received[0]).toBe(
    Buffer.from(
      `POST /v1/chat?x=1 HTTP/1.1\r\nhost: 127.0.0.1:${server.port}\r\nx-Key: k\u00e9\r\naccept: */*\r\ncontent-length: 12\r\n\r\n`,
      'latin1',
    ).toString('latin1') + Buffer.from('{"t":"für"}').toString('latin1'),
  )
  socket.write(OK)
  expect(await answered.body).toBe('hi')
})

test('a host that is configured stands in place of that of the address', async () => {
  post(origin, { ...hello, headers: ['Host', 'models.example'] })
  await server.got(1, hello.body)
  expect(server.received[0]).toContain('\r\nHost: models.example\r\n')
  expect(server.received[0]?.match(/host:/gi)).toHaveLength(1)
})

test.each([
  ['a line end in a value', { ...hello, headers: ['x-key', 'a\r\nx-other: b'] }],
  ['a letter beyond Latin-1', { ...hello, headers: ['x-key', '\u20ac'] }],
  ['a blank in a name', { ...hello, headers: ['x key', 'a'] }],
  ['a blank in the path', { ...hello, path: '/a HTTP/1.1' }],
  ['a line end in the path', { ...hello, path: '/a\r\nx: b' }],
  ['no path', { ...hello, path: '' }],
])('%s is not sent', (_, request) => {
  expect(() => post(origin, request)).toThrow(TypeError)
  expect(server.sockets).toHaveLength(0)
})

test('a connection carries one call after another, and as many as run at once have their own', async () => {
  expect(await exchange(1)).toBe('hi')
  expect(await exchange(1)).toBe('hi')

  const first = post()
  await server.got(1, hello.body)
  const second = post()
  const other = await server.got(2, hello.body)
  other.write(OK)
  expect(await second.body).toBe('hi')
  server.sockets[0]?.write(OK)
  expect(await first.body).toBe('hi')
  expect(server.sockets).toHaveLength(2)
})

test.each([
  ['that the server will close', 'HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi'],
  ['of HTTP/1.0', 'HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nhi'],
  ['on which more came than was asked for', `${OK}HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil`],
])('a connection %s is not used again', async (_, answer) => {
  expect(await exchange(1, answer)).toBe('hi')
  expect(await exchange(2)).toBe('hi')
})

test('a connection without a call on which the server speaks or which it closes is not used again', async () => {
  expect(await exchange(1)).toBe('hi')
  const [spoken] = server.sockets as [Socket]
  const closed = new Promise((resolve) => spoken.once('close', resolve))
  spoken.write(OK)
  await closed
  expect(await exchange(2)).toBe('hi')

  const left = server.sockets[1] as Socket
  const gone = new Promise((resolve) => left.once('close', resolve))
  left.end()
  await gone
  expect(await exchange(3)).toBe('hi')
})

test.each([
  ['said something', (socket: Socket) => void socket.write(OK.replace('hi', 'no'))],
  ['closed it', (socket: Socket) => void socket.end()],
  ['broken it', (socket: Socket) => void socket.resetAndDestroy()],
])('what the server has done to a kept connection becomes no part of a call: it has %s', async (_, act) => {
  expect(await exchange(1)).toBe('hi')
  // From here on the next reads come before what is sent next.
  await new Promise(setImmediate)
  act(server.sockets[0] as Socket)
  expect(await exchange(2)).toBe('hi')
})

test('a call that is given up before it was sent leaves its connection to the next one', async () => {
  await exchange(1)
  const given = post()
  given.sent.abort()
  await new Promise(setImmediate)
  expect(await exchange(1)).toBe('hi')
  expect(given.heard).toEqual([])

  const closed = post()
  await origin.close()
  await expect(closed.body).rejects.toThrow('closed')
})

test('a call can be given up while its answer is being read, and the next one is answered', async () => {
  const heard: string[] = []
  const begun = deferred()
  const sent = origin.post(hello, {
    head() {
      sent.abort()
      begun.resolve()
    },
    body: () => void heard.push('body'),
    end: () => void heard.push('end'),
    failed: () => void heard.push('failed'),
  })
  const socket = await server.got(1, hello.body)
  socket.write(OK)
  await begun.promise
  expect(await exchange(2)).toBe('hi')
  expect(heard).toEqual([])
})

test('a call that is over has no hold on the next one of its connection', async () => {
  const first = post()
  const socket = await server.got(1, hello.body)
  server.received[0] = ''
  socket.write(OK)
  await first.body
  const second = post()
  await server.got(1, hello.body)
  first.sent.pause()
  first.sent.abort()
  socket.write(OK)
  expect(await second.body).toBe('hi')
})

test('a connection is kept for a while, and no longer than the server says', async () => {
  await exchange(1)
  clock.advance(PROVIDER_IDLE_CONNECTION_MS - 1)
  await exchange(1, 'HTTP/1.1 200 OK\r\nkeep-alive: timeout=3\r\ncontent-length: 2\r\n\r\nhi')
  clock.advance(1_000)
  await exchange(2)
  clock.advance(PROVIDER_IDLE_CONNECTION_MS)
  await exchange(3)
})

test('a connection that nobody takes is closed after that while', async () => {
  origin = new Origin(`http://127.0.0.1:${server.port}`, clock, { idleMs: 1 })
  const { body } = post()
  const socket = await server.got(1, hello.body)
  const closed = new Promise((resolve) => socket.once('close', resolve))
  // A model that thinks for longer than that is waited for.
  await new Promise<void>((resolve) => socket.setTimeout(20, resolve))
  socket.write(OK)
  expect(await body).toBe('hi')
  await closed
})

test('an answer that ends with its connection is whole when that is closed in order, and broken by a reset', async () => {
  const whole = post()
  const first = await server.got(1, hello.body)
  first.end('HTTP/1.1 200 OK\r\n\r\nall of it')
  expect(await whole.body).toBe('all of it')

  const broken = post()
  const second = await server.got(2, hello.body)
  second.write('HTTP/1.1 200 OK\r\n\r\nhalf')
  await broken.begun
  second.resetAndDestroy()
  await expect(broken.body).rejects.toMatchObject({ code: 'ECONNRESET' })
})

test('an answer that comes before its request was taken ends the connection', async () => {
  const answered = post(origin, { ...hello, body: 'x'.repeat(32 * 1024 * 1024) })
  const socket = await server.got(1, 'content-length')
  socket.pause()
  socket.write('HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nhi')
  expect(await answered.body).toBe('hi')
  socket.destroy()
  expect(await exchange(2)).toBe('hi')
})

test('an aborted call closes its connection and is heard of no more', async () => {
  const call = post()
  const socket = await server.got(1, hello.body)
  const closed = new Promise((resolve) => socket.once('close', resolve))
  socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nh')
  await call.begun
  call.sent.abort()
  await closed
  expect(call.heard).toEqual(['200'])

  const early = post()
  early.sent.abort()
  expect(await exchange(server.sockets.length + 1)).toBe('hi')
  expect(early.heard).toEqual([])
})

test('closing the origin breaks what runs, and nothing is sent any more', async () => {
  await exchange(1)
  const running = post()
  await server.got(1, hello.body)
  await origin.close()
  await expect(running.body).rejects.toThrow('closed')
  expect(() => post()).toThrow('closed')
})

test('nobody who listens is a failure with its code', async () => {
  const { port } = server
  await server.close()
  const nobody = new Origin(`http://127.0.0.1:${port}`, clock)
  await expect(post(nobody).body).rejects.toMatchObject({ code: 'ECONNREFUSED' })
})

test('a server that closes before TLS is up is a failure with its code', async () => {
  const shut = new Origin(`https://127.0.0.1:${server.port}`, clock)
  const { body } = post(shut)
  const socket = await server.got(1, '\x16')
  socket.end()
  await expect(body).rejects.toMatchObject({ code: 'ECONNRESET' })
})

test('a server that takes too long to connect is given up', async () => {
  const silent = new Origin(`https://127.0.0.1:${server.port}`, clock)
  const { body } = post(silent)
  await server.got(1, '\x16')
  clock.advance(PROVIDER_CONNECT_TIMEOUT_MS)
  await expect(body).rejects.toMatchObject({ code: 'ETIMEDOUT' })
})

const fixture = (name: string) => readFileSync(path.join(import.meta.dirname, '../../../fixtures/tls', name))
const certificate = { cert: fixture('self-signed.crt'), key: fixture('self-signed.key') }

test('a certificate that nobody vouches for is refused before a byte is sent', async () => {
  const secure = await listen(tls.createServer(certificate), 'secureConnection')
  const call = post(new Origin(`https://127.0.0.1:${secure.port}`, clock))
  await expect(call.body).rejects.toMatchObject({ code: 'DEPTH_ZERO_SELF_SIGNED_CERT' })
  expect(secure.received.join('')).toBe('')
  await secure.close()
})

test('over TLS calls are the same, and a second connection resumes the session of the first', async () => {
  vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0')
  vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
  const secure = await listen(
    tls.createServer({ ...certificate, ALPNProtocols: ['h2', 'http/1.1'] }),
    'secureConnection',
  )
  const safe = new Origin(`https://127.0.0.1:${secure.port}`, clock)
  const call = async (connection: number, answer: string) => {
    const { body } = post(safe)
    const socket = (await secure.got(connection, hello.body)) as TLSSocket
    secure.received[connection - 1] = ''
    socket.write(answer)
    return { body: await body, resumed: socket.isSessionReused(), protocol: socket.alpnProtocol }
  }
  const long = 'x'.repeat(300_000)
  expect(await call(1, `HTTP/1.1 200 OK\r\ncontent-length: ${long.length}\r\n\r\n${long}`)).toEqual({
    body: long,
    resumed: false,
    protocol: 'http/1.1',
  })
  const last = OK.replace('200 OK', '200 OK\r\nconnection: close')
  expect(await call(1, last)).toMatchObject({ body: 'hi' })
  expect(await call(2, OK)).toMatchObject({ body: 'hi', resumed: true })
  await safe.close()
  await secure.close()
})

async function listen(on: Server, event: 'connection' | 'secureConnection'): Promise<RawServer> {
  const sockets: Socket[] = []
  const received: string[] = []
  let tell = () => {}
  on.on('tlsClientError', () => {})
  on.on(event, (socket: Socket) => {
    const at = sockets.push(socket) - 1
    received.push('')
    socket.on('error', () => {})
    socket.on('data', (bytes: Buffer) => {
      received[at] += bytes.toString('latin1')
      tell()
    })
  })
  await new Promise<void>((resolve) => on.listen(0, '127.0.0.1', resolve))
  return {
    port: (on.address() as AddressInfo).port,
    sockets,
    received,
    got: (connections, text) =>
      new Promise((resolve) => {
        tell = () => {
          const last = sockets[connections - 1]
          if (last && received[connections - 1]?.includes(text)) resolve(last)
        }
        tell()
      }),
    close: () =>
      new Promise((resolve) => {
        on.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
}
