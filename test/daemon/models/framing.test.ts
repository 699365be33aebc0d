import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import fc from 'fast-check'
import type { Pool } from 'undici'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { openPool, PROVIDER_HEAD_BYTES } from '../../../src/daemon/models/pool.ts'
import { openUpstream } from '../../../src/daemon/models/providers/stream/upstream.ts'
import { splitAt } from '../../upstream.ts'

// A message framed in two ways may be incomplete, so it must fail. undici ensures this here; any other client must do
// so too.

type Read = { status: number; headers: object; body: string }

let server: Server
let pool: Pool
let sockets: Set<Socket>
/** Responds to the request on a connection. */
let answer: (socket: Socket) => void | Promise<void>

beforeEach(async () => {
  sockets = new Set()
  server = createServer((socket) => {
    sockets.add(socket)
    socket.setNoDelay(true)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    socket.on('data', () => void answer(socket))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  pool = openPool(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})

afterEach(async () => {
  await pool.destroy()
  for (const socket of sockets) socket.destroy()
  await new Promise((resolve) => server.close(resolve))
})

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

/** The result of a call for these writes, after which the server may close the connection. */
async function read(pieces: readonly Buffer[], { closed = false } = {}): Promise<Read> {
  answer = async (socket) => {
    for (const piece of pieces) {
      if (socket.destroyed) return
      socket.write(piece)
      await turn()
    }
    if (closed) socket.end()
  }
  const call = openUpstream(pool, { path: '/', headers: [], body: 'x' }, new AbortController().signal)
  const { status, headers } = await call.takeHead()
  let body = ''
  for (let bytes = await call.next(); bytes !== null; bytes = await call.next()) body += bytes.toString('latin1')
  // The connection is free one turn later.
  await turn()
  return { status, headers, body }
}

const readText = (text: string, options?: { closed?: boolean }) => read([Buffer.from(text, 'latin1')], options)

const ok = (headers: string, body = '') => `HTTP/1.1 200 OK\r\n${headers}\r\n${body}`

const cuts = fc.array(fc.nat(600), { maxLength: 12 })
const bytes = fc.uint8Array({ maxLength: 40 }).map((array) => Buffer.from(array).toString('latin1'))
const headerName = fc.stringMatching(/^x-[a-z0-9]{1,8}$/)
const headerValue = fc.stringMatching(/^([!-~\xa1-\xff]([ \t!-~\xa1-\xff]{0,10}[!-~\xa1-\xff])?)?$/)
const mixedCase = (name: string) =>
  fc.constantFrom(
    name,
    name.toUpperCase(),
    name.replace(/^./, (first) => first.toUpperCase()),
  )

const chunked = fc
  .record({
    chunks: fc.array(
      bytes.filter((text) => text !== ''),
      { maxLength: 4 },
    ),
    extension: fc.constantFrom('', ';a=b', ';a'),
    zeros: fc.constantFrom('', '0', '000'),
    upper: fc.boolean(),
    trailer: fc.constantFrom('', 'x-sum: 1\r\n', 'a: b\r\nc: d\r\n'),
    field: mixedCase('transfer-encoding'),
    coding: fc.constantFrom('chunked', 'Chunked'),
  })
  .map(({ chunks, extension, zeros, upper, trailer, field, coding }) => {
    const sizeOf = ({ length }: string) => (upper ? length.toString(16).toUpperCase() : length.toString(16))
    const framed = chunks.map((chunk) => `${zeros}${sizeOf(chunk)}${extension}\r\n${chunk}\r\n`)
    return {
      header: `${field}: ${coding}\r\n`,
      sent: `${framed.join('')}${zeros}0${extension}\r\n${trailer}\r\n`,
      body: chunks.join(''),
      closed: false,
    }
  })

const counted = fc.record({ body: bytes, field: mixedCase('content-length') }).map(({ body, field }) => ({
  header: `${field}:${body.length}\r\n`,
  sent: body,
  body,
  closed: false,
}))

const untilClose = bytes.map((body) => ({ header: '', sent: body, body, closed: true }))

const framing = fc.oneof(chunked, counted, untilClose)

describe('a response', () => {
  test('of any kind gives the same result for any split of its bytes', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          framing,
          status: fc.constantFrom(200, 201, 400, 429, 500, 599),
          reason: fc.constantFrom('', ' ', ' OK', ' Too Many Requests'),
          headers: fc.uniqueArray(fc.tuple(headerName, headerValue), { selector: ([name]) => name, maxLength: 4 }),
          interim: fc.constantFrom('', 'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n'),
          connection: fc.constantFrom('', 'Connection: close\r\n', 'connection: Keep-Alive, x\r\n'),
          cuts,
        }),
        async ({ framing: { header, sent, body, closed }, status, reason, headers, interim, connection, cuts }) => {
          const lines = headers.map(([name, value]) => `${name}:  ${value}\r\n`).join('')
          const text = `${interim}HTTP/1.1 ${status}${reason}\r\n${lines}${connection}${header}\r\n${sent}`
          const result = await read(splitAt(Buffer.from(text, 'latin1'), cuts), { closed })
          expect(result).toMatchObject({ status, body, headers: Object.fromEntries(headers) })
        },
      ),
    )
  })

  test('without its last bytes is never complete', async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(chunked, counted), fc.nat(400), cuts, async ({ header, sent }, missing, cuts) => {
        const whole = Buffer.from(ok(header, sent), 'latin1')
        const part = whole.subarray(0, Math.max(0, whole.length - 1 - missing))
        await expect(read(splitAt(part, cuts), { closed: true })).rejects.toMatchObject({ reason: 'connection_error' })
      }),
    )
  })

  test('keeps the bytes from before it broke, and is truncated', async () => {
    const call = openUpstream(pool, { path: '/', headers: [], body: 'x' }, new AbortController().signal)
    answer = (socket) => void socket.end(ok('content-length: 9\r\n', 'half'))
    await call.takeHead()
    expect((await call.next())?.toString()).toBe('half')
    await expect(call.next()).rejects.toMatchObject({ reason: 'connection_error', outcome: 'truncated' })
  })

  test('without a body ends with its head', async () => {
    expect(await readText('HTTP/1.1 204 No Content\r\n\r\n')).toMatchObject({ status: 204, body: '' })
    expect(await readText(ok('content-length: 0\r\n'))).toMatchObject({ status: 200, body: '' })
  })

  test('may have headers of any name', async () => {
    const { headers } = await readText(ok('constructor: 1\r\n__proto__: 2\r\ncontent-length: 0\r\n'))
    expect(Object.entries(headers)).toEqual([
      ['constructor', '1'],
      ['__proto__', '2'],
      ['content-length', '0'],
    ])
  })
})

test.each([
  ['another protocol', 'SSH-2.0-x\r\n'],
  ['the beginning of one', 'HTTQ'],
  ['a version that does not exist', 'HTTP/1.2 200 OK\r\n\r\n'],
  ['no status', 'HTTP/1.1 OK\r\n\r\n'],
  ['a status of two digits', 'HTTP/1.1 20 OK\r\n\r\n'],
  ['a status that begins with 0', 'HTTP/1.1 020 OK\r\n\r\n'],
  ['another protocol that was not asked for', 'HTTP/1.1 101 Switching Protocols\r\n\r\n'],
  ['a status line that ends without CR', 'HTTP/1.1 200 OK\nContent-Length: 5\r\n\r\nhi'],
  ['a zero byte behind many blanks', ok(`x:${' '.repeat(30_000)}\0\r\n`)],
  ['a blank that is none in a length', ok('content-length: 2\xa0\r\n', 'hi')],
  ['a header without colon', ok('nonsense\r\n')],
  ['a header without name', ok(': x\r\n')],
  ['a blank before the colon', ok('content-length : 2\r\n', 'hi')],
  ['a folded header', ok('x: a\r\n b\r\n')],
  ['a zero byte', ok('x: a\0\r\n')],
  ['a line that ends without CR', ok('x: a\ny: b\r\n')],
  ['a CR within a line', ok('x: a\ry: b\r\n')],
  ['lengths that differ', ok('content-length: 2\r\ncontent-length: 3\r\n', 'hi')],
  ['a length twice', ok('content-length: 2\r\ncontent-length: 2\r\n', 'hi')],
  ['a negative length', ok('content-length: -2\r\n', 'hi')],
  ['a length with a sign', ok('content-length: +2\r\n', 'hi')],
  ['a length with a fraction', ok('content-length: 2.0\r\n', 'hi')],
  ['an empty length', ok('content-length:\r\n', 'hi')],
  ['chunks and a length', ok('content-length: 2\r\ntransfer-encoding: chunked\r\n', '0\r\n\r\n')],
  ['a size that is none', ok('transfer-encoding: chunked\r\n', 'x\r\n')],
  ['an empty size', ok('transfer-encoding: chunked\r\n', '\r\n')],
  ['a size with 0x', ok('transfer-encoding: chunked\r\n', '0x2\r\nhi\r\n')],
  ['a negative size', ok('transfer-encoding: chunked\r\n', '-2\r\nhi\r\n')],
  ['a size that overflows', ok('transfer-encoding: chunked\r\n', '10000000000000002\r\nhi\r\n')],
  ['a size that ends without CR', ok('transfer-encoding: chunked\r\n', '2\nhi\r\n')],
  ['a CR without LF after a size', ok('transfer-encoding: chunked\r\n', '2\rhi\r\n')],
  ['a chunk that is longer than it says', ok('transfer-encoding: chunked\r\n', '2\r\nhim\r\n')],
  ['a chunk that ends without CR', ok('transfer-encoding: chunked\r\n', '2\r\nhi\n')],
  ['an extension that ends without CR', ok('transfer-encoding: chunked\r\n', '2;a\nhi\r\n')],
  ['a trailer that ends without CR', ok('transfer-encoding: chunked\r\n', '0\r\na: b\n')],
])('rejects %s', async (_, text) => {
  await expect(readText(text, { closed: true })).rejects.toMatchObject({ reason: 'connection_error' })
  const single = Array.from(text.length > 1_000 ? [] : text, (letter) => Buffer.from(letter, 'latin1'))
  await expect(read(single, { closed: true })).rejects.toMatchObject({ reason: 'connection_error' })
})

test.each([
  ['a head', 'HTTP/1.1 200 OK\r\nx: '],
  ['a trailer', ok('transfer-encoding: chunked\r\n', '0\r\nx: ')],
])('%s may not be longer than PROVIDER_HEAD_BYTES', async (_, opening) => {
  const call = readText(opening + 'x'.repeat(PROVIDER_HEAD_BYTES))
  await expect(call).rejects.toMatchObject({ cause: { code: 'UND_ERR_HEADERS_OVERFLOW' } })
})
