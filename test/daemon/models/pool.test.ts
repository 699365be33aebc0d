import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import path from 'node:path'
import tls, { type TLSSocket } from 'node:tls'
import type { Pool } from 'undici'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import {
  openPool,
  PROVIDER_CONNECT_TIMEOUT_MS,
  PROVIDER_IDLE_CONNECTION_MS,
  PROVIDER_IDLE_MAX_MS,
} from '../../../src/daemon/models/pool.ts'
import {
  openUpstream,
  type Upstream,
  type UpstreamRequest,
} from '../../../src/daemon/models/providers/stream/upstream.ts'
import { STREAM_BUFFER_BYTES } from '../../../src/shared/spec-limits.ts'

/** A server that records the received bytes and sends what the test requests. */
type RawServer = {
  port: number
  sockets: Socket[]
  /** The bytes of each connection so far, as Latin-1. */
  received: string[]
  /** Resolves when this many connections exist and the last one has received `text`. */
  got(connections: number, text: string): Promise<Socket>
  close(): Promise<void>
}

let server: RawServer
let pool: Pool

beforeEach(async () => {
  server = await listen(createServer(), 'connection')
  pool = openPool(`http://127.0.0.1:${server.port}/v1`)
})

afterEach(async () => {
  vi.useRealTimers()
  vi.unstubAllEnvs()
  vi.restoreAllMocks()
  await pool.destroy()
  await server.close()
})

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi'
/** A body of this kind ends with the connection. */
const UNTIL_CLOSE = 'HTTP/1.1 200 OK\r\n\r\n'

const hello = { path: '/chat', headers: ['authorization', 'Bearer k'], body: '{"a":1}' }

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

/** Sends a request; `body` is the complete answer, `leave` aborts it. */
function post(to = pool, request: UpstreamRequest = hello) {
  const leaving = new AbortController()
  const call = openUpstream(to, request, leaving.signal)
  const head = call.takeHead()
  const body = head.then(() => readAll(call))
  // Not every test awaits it.
  body.catch(() => {})
  return { call, begun: head, body, leave: () => leaving.abort() }
}

async function readAll(call: Upstream): Promise<string> {
  let body = ''
  for (let bytes = await call.next(); bytes !== null; bytes = await call.next()) body += bytes.toString('latin1')
  return body
}

/** Sends a POST and lets the server respond on connection number `connection`. */
async function exchange(connection: number, answer = OK): Promise<string> {
  const { body } = post()
  const socket = await server.got(connection, hello.body)
  server.received[connection - 1] = ''
  socket.write(answer)
  const read = await body
  // A call in the same turn gets a separate connection.
  await turn()
  return read
}

/** The clock for long times, which tests can advance. */
const undiciTimers: { tick(ms: number): void } = createRequire(import.meta.url)('undici/lib/util/timers.js')

const failure = { reason: 'connection_error' }
const failsWith = (code: string) => ({ ...failure, cause: expect.objectContaining({ code }) })

describe('a request', () => {
  test('is one head and its body, with the headers of the provider', async () => {
    const request = { path: '/v1/chat?x=1', headers: ['x-Key', 'k\u00e9', 'accept', '*/*'], body: '{"t":"f\u00fcr"}' }
    const answered = post(pool, request)
    const socket = await server.got(1, '"}')
    const [lines, body] = (server.received[0] as string).split('\r\n\r\n') as [string, string]
    expect(lines.split('\r\n')).toEqual([
      'POST /v1/chat?x=1 HTTP/1.1',
      `host: 127.0.0.1:${server.port}`,
      'connection: keep-alive',
      'x-Key: k\u00e9',
      'accept: */*',
      'content-length: 12',
    ])
    expect(body).toBe(Buffer.from(request.body).toString('latin1'))
    socket.write(OK)
    expect(await answered.body).toBe('hi')
  })

  test("has the configured host instead of the address's", async () => {
    post(pool, { ...hello, headers: ['Host', 'models.example'] })
    await server.got(1, hello.body)
    expect(server.received[0]).toContain('\r\nhost: models.example\r\n')
    expect(server.received[0]?.match(/host:/gi)).toHaveLength(1)
  })

  test.each([
    ['a line end in a value', { ...hello, headers: ['x-key', 'a\r\nx-other: b'] }],
    ['a letter beyond Latin-1', { ...hello, headers: ['x-key', '\u20ac'] }],
    ['a blank in a name', { ...hello, headers: ['x key', 'a'] }],
    ['a blank in the path', { ...hello, path: '/a HTTP/1.1' }],
    ['a line end in the path', { ...hello, path: '/a\r\nx: b' }],
    ['no path', { ...hello, path: '' }],
  ])('with %s fails without being sent', async (_, request) => {
    await expect(post(pool, request).body).rejects.toMatchObject(failsWith('UND_ERR_INVALID_ARG'))
    expect(server.sockets).toHaveLength(0)
  })

  test('that is aborted before it was sent never reaches the server', async () => {
    expect(await exchange(1)).toBe('hi')
    const given = post()
    given.leave()
    await expect(given.body).rejects.toMatchObject({ reason: 'aborted' })
    const early = post()
    early.leave()
    await expect(early.body).rejects.toMatchObject({ reason: 'aborted' })
    const next = post()
    const socket = await Promise.race([1, 2, 3].map((connection) => server.got(connection, hello.body)))
    expect(server.received.join('').split(hello.body)).toHaveLength(2)
    socket.write(OK)
    expect(await next.body).toBe('hi')
  })

  test("fails with the system's error code without a listener", async () => {
    const { port } = server
    await server.close()
    const dead = openPool(`http://127.0.0.1:${port}`)
    await expect(post(dead).body).rejects.toMatchObject(failsWith('ECONNREFUSED'))
    await dead.destroy()
  })
})

describe('a connection', () => {
  test('carries one call after another, and concurrent calls have their own', async () => {
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
    ['on which other bytes came than an answer', `${OK}evil`],
  ])('%s is not reused', async (_, answer) => {
    expect(await exchange(1, answer)).toBe('hi')
    expect(await exchange(2)).toBe('hi')
  })

  test('with unsolicited data or a close by the server is not reused', async () => {
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
    ['sent an answer', (socket: Socket) => void socket.write(OK.replace('hi', 'no'))],
    ['sent other bytes', (socket: Socket) => void socket.write('evil')],
    ['closed it', (socket: Socket) => void socket.end()],
    ['reset it', (socket: Socket) => void socket.resetAndDestroy()],
  ])('takes no call when the server has just %s: the call uses another one', async (_, act) => {
    expect(await exchange(1)).toBe('hi')
    act(server.sockets[0] as Socket)
    expect(await exchange(2)).toBe('hi')
    expect(server.received[0]).toBe('')
  })

  test('is kept for 30 seconds, or as long as the server allows, at most 60 seconds', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const keptFor = async (connection: number, header: string) => {
      await exchange(connection, OK.replace('content-length', `${header}content-length`))
      const closed = new Promise((resolve) => server.sockets[connection - 1]?.once('close', resolve))
      for (let ms = 0; ; ms += 500) {
        for (let turns = 0; turns < 10; turns++) await turn()
        if (server.sockets[connection - 1]?.destroyed) return closed.then(() => ms)
        vi.advanceTimersByTime(500)
      }
    }
    expect(await keptFor(1, '')).toBe(PROVIDER_IDLE_CONNECTION_MS)
    expect(await keptFor(2, 'keep-alive: timeout=3\r\n')).toBe(1_000)
    expect(await keptFor(3, 'keep-alive: timeout=2\r\n')).toBe(0)
    expect(await keptFor(4, 'keep-alive: max=9, timeout=47\r\n')).toBe(45_000)
    expect(await keptFor(5, 'keep-alive: timeout=300\r\n')).toBe(PROVIDER_IDLE_MAX_MS)
  })

  test('is reused after an answer that arrived before its request was read', async () => {
    const answered = post(pool, { ...hello, body: 'x'.repeat(32 * 1024 * 1024) })
    const socket = await server.got(1, 'content-length')
    socket.pause()
    socket.write('HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nhi')
    expect(await answered.body).toBe('hi')
    socket.destroy()
    expect(await exchange(2)).toBe('hi')
  })

  test('is closed when its call is aborted, and the next call is answered', async () => {
    const call = post()
    const socket = await server.got(1, hello.body)
    const closed = new Promise((resolve) => socket.once('close', resolve))
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nh')
    await call.begun
    call.leave()
    await closed
    await expect(call.body).rejects.toMatchObject({ reason: 'aborted' })
    expect(await exchange(2)).toBe('hi')
  })

  test('is unaffected by a finished call', async () => {
    const first = post()
    const socket = await server.got(1, hello.body)
    server.received[0] = ''
    socket.write(OK)
    await first.body
    await turn()
    const second = post()
    await server.got(1, hello.body)
    first.leave()
    first.call.cancel(new Error('over'))
    socket.write(OK)
    expect(await second.body).toBe('hi')
  })

  test('is closed with the pool, which then sends nothing', async () => {
    await exchange(1)
    const running = post()
    const socket = await server.got(1, hello.body)
    const closed = new Promise((resolve) => socket.once('close', resolve))
    await pool.destroy()
    await expect(running.body).rejects.toMatchObject(failure)
    await closed
    await expect(post().body).rejects.toMatchObject(failure)
    expect(server.sockets).toHaveLength(1)
  })
})

/** More than the buffers of both ends hold, so that the end of the request waits at the sender. */
const large = { ...hello, body: JSON.stringify('x'.repeat(32 * 1024 * 1024)) }

const wholeBody = async (from: RawServer, connection: number) => {
  const head = from.received[connection - 1]?.split('\r\n\r\n')[0] ?? ''
  while ((from.received[connection - 1] ?? '').length < head.length + 4 + large.body.length) await turn()
}

describe('a connection that dies under a call', () => {
  const complete = async (connection: number) => {
    const socket = await server.got(connection, 'content-length')
    await wholeBody(server, connection)
    return socket
  }
  const closes: [string, (socket: Socket) => void][] = [
    ['closed', (socket) => void socket.end()],
    ['reset', (socket) => void socket.resetAndDestroy()],
  ]

  test.each(closes)('is replaced once if it was reused and %s before the whole request was sent', async (_, act) => {
    expect(await exchange(1)).toBe('hi')
    const call = post(pool, large)
    const socket = await server.got(1, 'content-length')
    socket.pause()
    act(socket)
    const other = await complete(2)
    expect(server.received[1]?.endsWith(`\r\n\r\n${large.body}`)).toBe(true)
    other.write(OK)
    expect(await call.body).toBe('hi')
    expect(server.sockets).toHaveLength(2)
  })

  test.each(closes)('is not replaced if it is new and %s', async (_, act) => {
    const call = post(pool, large)
    const socket = await server.got(1, 'content-length')
    socket.pause()
    act(socket)
    await expect(call.body).rejects.toMatchObject({ ...failure, outcome: 'error' })
    expect(server.sockets).toHaveLength(1)
  })

  test('is not replaced a second time', async () => {
    expect(await exchange(1)).toBe('hi')
    const call = post(pool, large)
    for (const connection of [1, 2]) {
      const socket = await server.got(connection, 'content-length')
      socket.pause()
      socket.resetAndDestroy()
    }
    await expect(call.body).rejects.toMatchObject({ ...failure, outcome: 'error' })
    expect(server.sockets).toHaveLength(2)
  })

  test.each(closes)('is not replaced if it was %s after the whole request was sent', async (_, act) => {
    expect(await exchange(1)).toBe('hi')
    const call = post()
    act(await server.got(1, hello.body))
    await expect(call.body).rejects.toMatchObject({ ...failure, outcome: 'error' })
    expect(server.sockets).toHaveLength(1)
    expect(server.received[0]?.split(hello.body)).toHaveLength(2)
  })

  test.each(closes)('is not replaced if it was %s after one byte of the answer', async (_, act) => {
    expect(await exchange(1)).toBe('hi')
    const call = post(pool, large)
    const socket = await server.got(1, 'content-length')
    socket.pause()
    await new Promise((resolve) => socket.write('H', resolve))
    for (let turns = 0; turns < 50; turns++) await turn()
    act(socket)
    await expect(call.body).rejects.toMatchObject(failure)
    expect(server.sockets).toHaveLength(1)
  })

  test('shows how long the server keeps idle connections: later calls avoid this time', async () => {
    await pool.destroy()
    let nowMs = 0
    pool = openPool(`http://127.0.0.1:${server.port}`, { now: () => nowMs })
    expect(await exchange(1)).toBe('hi')
    nowMs += 5_000
    const lost = post()
    ;(await server.got(1, hello.body)).end()
    await expect(lost.body).rejects.toMatchObject(failure)

    expect(await exchange(2)).toBe('hi')
    nowMs += 3_999
    expect(await exchange(2)).toBe('hi')
    nowMs += 4_000
    expect(await exchange(3)).toBe('hi')
    // Ten minutes later, it is tried again.
    nowMs += 600_000
    expect(await exchange(3)).toBe('hi')
  })

  test('of a server that closes right after each answer costs one call', async () => {
    await pool.destroy()
    pool = openPool(`http://127.0.0.1:${server.port}`, { now: () => 0 })
    expect(await exchange(1)).toBe('hi')
    const lost = post()
    ;(await server.got(1, hello.body)).end()
    await expect(lost.body).rejects.toMatchObject(failure)
    for (let connection = 2; connection <= 10; connection++) expect(await exchange(connection)).toBe('hi')
  })
})

describe('an answer that ends with its connection', () => {
  test('is complete after a FIN, and broken by a reset', async () => {
    const whole = post()
    const first = await server.got(1, hello.body)
    first.end(`${UNTIL_CLOSE}all of it`)
    expect(await whole.body).toBe('all of it')

    const broken = post()
    const second = await server.got(2, hello.body)
    second.write(`${UNTIL_CLOSE}half`)
    await broken.begun
    second.resetAndDestroy()
    await expect(broken.body).rejects.toMatchObject({ ...failsWith('ECONNRESET'), outcome: 'truncated' })
  })

  // A slow reader pauses. Events on the server meanwhile must neither end the daemon nor shorten the answer.
  const LONG = 'x'.repeat(300_000)
  /** The last bytes make the reader pause. */
  const PAUSING = 'x'.repeat(STREAM_BUFFER_BYTES - 65_536 + 1)
  const close = 'HTTP/1.1 200 OK\r\nconnection: close\r\n'
  const chunked = `${close}transfer-encoding: chunked\r\n\r\n${LONG.length.toString(16)}\r\n${LONG}\r\n`
  const paused = async (answer: string, act: (socket: Socket) => void) => {
    const call = openUpstream(pool, hello, new AbortController().signal)
    const socket = await server.got(1, hello.body)
    await new Promise((resolve) => socket.write(answer, resolve))
    await call.takeHead()
    act(socket)
    for (let turns = 0; turns < 50; turns++) await turn()
    return slowly(call)
  }
  /** Reads with so many turns in between that the socket delivers everything it can. */
  const slowly = async (call: Upstream) => {
    let length = 0
    for (;;) {
      const bytes = await call.next()
      if (bytes === null) return length
      length += bytes.length
      for (let turns = 0; turns < 30; turns++) await turn()
    }
  }
  const fin = (socket: Socket) => void socket.end()
  const reset = (socket: Socket) => void socket.resetAndDestroy()

  test.each([
    ['a body of a declared length', `${close}content-length: ${LONG.length}\r\n\r\n`, LONG],
    ['a chunked body', chunked.replace(/x+\r\n$/, ''), `${LONG}\r\n0\r\n\r\n`],
    ['a body that ends with the connection', UNTIL_CLOSE, LONG],
    [
      'a body of a declared length that ends with a pause',
      `${close}content-length: ${PAUSING.length}\r\n\r\n`,
      PAUSING,
    ],
    ['a body that ends with a pause and the connection', UNTIL_CLOSE, PAUSING],
  ])('is read to its end after a pause: %s', async (_, head, body) => {
    expect(await paused(head + body, fin)).toBe(body.lastIndexOf('x') + 1)
  })

  const tooLong = `${close}content-length: ${PAUSING.length + 1}\r\n\r\n${PAUSING}`
  test.each([
    ['closed in a body of a declared length', fin, tooLong],
    ['closed in a chunked body', fin, chunked],
    ['reset in a body of a declared length', reset, tooLong],
    ['reset in a chunked body', reset, chunked],
    ['reset in a body that ends with the connection', reset, `${UNTIL_CLOSE}${PAUSING}`],
  ])('is truncated when it is %s during a pause', async (_, act, answer) => {
    await expect(paused(answer, act)).rejects.toMatchObject({ ...failure, outcome: 'truncated' })
  })
})

describe('over TLS', () => {
  const fixture = (name: string) => readFileSync(path.join(import.meta.dirname, '../../fixtures/tls', name))
  const certificate = { cert: fixture('self-signed.crt'), key: fixture('self-signed.key') }

  test('a server that closes before the handshake is a failure with its code', async () => {
    const shut = openPool(`https://127.0.0.1:${server.port}`)
    const { body } = post(shut)
    const socket = await server.got(1, '\x16')
    socket.end()
    await expect(body).rejects.toMatchObject(failsWith('ECONNRESET'))
    await shut.destroy()
  })

  test('a server that takes too long to connect is aborted', async () => {
    const silent = openPool(`https://127.0.0.1:${server.port}`)
    const { body } = post(silent)
    await server.got(1, '\x16')
    // The first one starts the timer.
    undiciTimers.tick(1_000)
    undiciTimers.tick(PROVIDER_CONNECT_TIMEOUT_MS)
    await expect(body).rejects.toMatchObject(failsWith('UND_ERR_CONNECT_TIMEOUT'))
    await silent.destroy()
  })

  test('an untrusted certificate is rejected before a byte is sent', async () => {
    const secure = await listen(tls.createServer(certificate), 'secureConnection')
    const strict = openPool(`https://127.0.0.1:${secure.port}`)
    await expect(post(strict).body).rejects.toMatchObject(failsWith('DEPTH_ZERO_SELF_SIGNED_CERT'))
    expect(secure.received.join('')).toBe('')
    await strict.destroy()
    await secure.close()
  })

  test('calls behave the same, and HTTP/2 is not offered', async () => {
    vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0')
    vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const secure = await listen(
      tls.createServer({ ...certificate, ALPNProtocols: ['h2', 'http/1.1'] }),
      'secureConnection',
    )
    const safe = openPool(`https://127.0.0.1:${secure.port}`)
    const call = async (connection: number, answer: string) => {
      const { body } = post(safe)
      const socket = (await secure.got(connection, hello.body)) as TLSSocket
      secure.received[connection - 1] = ''
      socket.write(answer)
      return { body: await body, protocol: socket.alpnProtocol }
    }
    const long = 'x'.repeat(300_000)
    const answer = `HTTP/1.1 200 OK\r\ncontent-length: ${long.length}\r\n\r\n${long}`
    expect(await call(1, answer)).toEqual({ body: long, protocol: 'http/1.1' })
    await turn()
    expect(await call(1, OK)).toMatchObject({ body: 'hi' })
    await safe.destroy()
    await secure.close()
  })

  test('a call that a reused connection carried only in part is sent again', async () => {
    const secure = await listen(tls.createServer(certificate), 'secureConnection')
    const safe = openPool(`https://127.0.0.1:${secure.port}`, { ca: certificate.cert.toString() })
    const first = post(safe)
    ;(await secure.got(1, hello.body)).write(OK)
    expect(await first.body).toBe('hi')
    await turn()
    secure.received[0] = ''
    const call = post(safe, large)
    const socket = await secure.got(1, 'content-length')
    socket.pause()
    socket.destroy()
    const other = await secure.got(2, 'content-length')
    await wholeBody(secure, 2)
    expect(secure.received[1]?.endsWith('x"')).toBe(true)
    other.write(OK)
    expect(await call.body).toBe('hi')
    expect(secure.sockets).toHaveLength(2)
    await safe.destroy()
    await secure.close()
  })
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
          if (!last || !received[connections - 1]?.includes(text)) return
          tell = () => {}
          resolve(last)
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
