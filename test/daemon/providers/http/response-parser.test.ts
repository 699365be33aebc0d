import { request as nodeRequest } from 'node:http'
import { Duplex } from 'node:stream'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ResponseFault, ResponseParser } from '../../../../src/daemon/providers/http/response-parser.ts'
import { PROVIDER_HEAD_BYTES } from '../../../../src/shared/spec-limits.ts'
import { splitAt } from '../../../upstream.ts'

const USUAL_MS = 4_000

type Read = { status: number | undefined; headers: object; body: string; over: boolean; reusableMs: number }

/** What the parser makes of these reads; `closed` when the server then closes the connection. */
function read(pieces: readonly Buffer[], { closed = false } = {}): Read {
  const result: Read = { status: undefined, headers: {}, body: '', over: false, reusableMs: 0 }
  const parser = new ResponseParser()
  const bodies: Buffer[] = []
  parser.begin({
    head(status, headers) {
      expect(result.status).toBeUndefined()
      result.status = status
      result.headers = headers
    },
    body: (bytes) => void bodies.push(bytes),
  })
  // One buffer for all reads, as a connection has it: nothing of it may be kept.
  const shared = Buffer.alloc(Math.max(1, ...pieces.map(({ length }) => length)) + 7, 'z')
  for (const piece of pieces) {
    piece.copy(shared)
    parser.take(shared, piece.length)
    shared.fill('z')
  }
  if (closed && !parser.isOver()) parser.close()
  result.body = Buffer.concat(bodies).toString('latin1')
  result.over = parser.isOver()
  result.reusableMs = result.over ? parser.reusableForMs(USUAL_MS) : 0
  return result
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
    extension: fc.constantFrom('', ';a=b', '; a', ' '),
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
  test('of any kind is the same, wherever its bytes are cut', () => {
    fc.assert(
      fc.property(
        fc.record({
          framing,
          status: fc.constantFrom(200, 201, 400, 429, 500, 599),
          reason: fc.constantFrom('', ' ', ' OK', ' Too Many Requests'),
          headers: fc.uniqueArray(fc.tuple(headerName, headerValue), { selector: ([name]) => name, maxLength: 4 }),
          interim: fc.constantFrom(
            '',
            'HTTP/1.1 100 Continue\r\n\r\n',
            'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n',
          ),
          connection: fc.constantFrom('', 'Connection: close\r\n', 'connection: Keep-Alive, x\r\n'),
          cuts,
        }),
        ({ framing: { header, sent, body, closed }, status, reason, headers, interim, connection, cuts }) => {
          const lines = headers.map(([name, value]) => `${name}: ${value}  \r\n`).join('')
          const text = `${interim}HTTP/1.1 ${status}${reason}\r\n${lines}${connection}${header}\r\n${sent}`
          const result = read(splitAt(Buffer.from(text, 'latin1'), cuts), { closed })
          expect(result).toMatchObject({ status, body, over: true, headers: Object.fromEntries(headers) })
          expect(result.reusableMs).toBe(closed || connection.includes('close') ? 0 : USUAL_MS)
        },
      ),
    )
  })

  test('without its last bytes is never over', () => {
    fc.assert(
      fc.property(fc.oneof(chunked, counted), fc.nat(400), cuts, ({ header, sent }, missing, cuts) => {
        const whole = Buffer.from(ok(header, sent), 'latin1')
        const part = whole.subarray(0, Math.max(0, whole.length - 1 - missing))
        expect(read(splitAt(part, cuts)).over).toBe(false)
        expect(() => read(splitAt(part, cuts), { closed: true })).toThrow(ResponseFault)
      }),
    )
  })

  test('with any damage is never read otherwise than by Node', async () => {
    const damage = fc.record({
      at: fc.nat(300),
      drop: fc.nat(3),
      put: fc.oneof(fc.constantFrom('\r', '\n', '\r\n', ' ', '0', '5', ':', ';', '\0', 'Content-Length: 3\r\n'), bytes),
    })
    await fc.assert(
      fc.asyncProperty(framing, fc.array(damage, { maxLength: 2 }), async ({ header, sent, closed }, damages) => {
        let text = ok(header, sent)
        for (const { at, drop, put } of damages) text = text.slice(0, at) + put + text.slice(at + drop)
        let ours: Read | undefined
        try {
          ours = readText(text, { closed })
        } catch (error) {
          expect(error).toBeInstanceOf(ResponseFault)
        }
        // What we refuse or wait for is no answer, whatever others make of it.
        if (!ours?.over) return
        const theirs = await readByNode(Buffer.from(text, 'latin1'), closed)
        // Node wants no blanks behind the size of a chunk, and nothing behind the end.
        const isStricter = ours.reusableMs === 0 || /[\da-f]\s*[ ;]/i.test(text)
        if (theirs !== 'refused' || !isStricter) expect(theirs).toEqual({ status: ours.status, body: ours.body })
      }),
      { numRuns: 300 },
    )
  })

  test('without a body ends with its head', () => {
    expect(readText('HTTP/1.1 204 No Content\r\n\r\n')).toMatchObject({ status: 204, over: true, body: '' })
    expect(readText('HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n')).toMatchObject({ over: true, body: '' })
    expect(readText(ok('content-length: 0\r\n'))).toMatchObject({ over: true, body: '', reusableMs: USUAL_MS })
  })

  test('joins the values of a header that comes twice', () => {
    const { headers } = readText(ok('x-a: 1\r\nX-A: 2\r\ncontent-length: 0\r\n'))
    expect(headers).toEqual({ 'x-a': '1, 2', 'content-length': '0' })
  })

  test('has headers of any name', () => {
    const { headers } = readText(ok('constructor: 1\r\n__proto__: 2\r\ncontent-length: 0\r\n'))
    expect(Object.entries(headers)).toEqual([
      ['constructor', '1'],
      ['__proto__', '2'],
      ['content-length', '0'],
    ])
  })
})

test.each([
  ['HTTP/1.1', '', USUAL_MS],
  ['HTTP/1.1', 'connection: close\r\n', 0],
  ['HTTP/1.1', 'connection: x, Close\r\n', 0],
  ['HTTP/1.1', 'keep-alive: timeout=5\r\n', 3_000],
  ['HTTP/1.1', 'keep-alive: max=9, timeout=60\r\n', USUAL_MS],
  ['HTTP/1.1', 'keep-alive: timeout=2\r\n', 0],
  ['HTTP/1.1', 'keep-alive: whatever\r\n', USUAL_MS],
  ['HTTP/1.0', '', 0],
  ['HTTP/1.0', 'connection: keep-alive\r\n', USUAL_MS],
])('after %s with "%s" the connection may be used again for %i ms', (version, header, ms) => {
  expect(readText(`${version} 200 OK\r\n${header}content-length: 2\r\n\r\nhi`).reusableMs).toBe(ms)
})

test('bytes after the end make the connection useless, and are not of the body', () => {
  const more = 'HTTP/1.1 200 OK\r\n'
  expect(readText(ok('content-length: 2\r\n', `hi${more}`))).toMatchObject({ body: 'hi', over: true, reusableMs: 0 })
  expect(readText(ok('transfer-encoding: chunked\r\n', `2\r\nhi\r\n0\r\n\r\n${more}`))).toMatchObject({
    body: 'hi',
    over: true,
    reusableMs: 0,
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
  ['a coding that is not known', ok('transfer-encoding: gzip, chunked\r\n')],
  ['no coding', ok('transfer-encoding:\r\n')],
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
])('refuses %s', (_, text) => {
  expect(() => readText(text)).toThrow(ResponseFault)
  const single = Array.from(text, (letter) => Buffer.from(letter, 'latin1'))
  expect(() => read(single)).toThrow(ResponseFault)
})

test('an answer whose end nobody can know has not begun', () => {
  const parser = new ResponseParser()
  parser.begin({ head: () => expect.unreachable(), body: () => expect.unreachable() })
  const text = Buffer.from(ok('content-length: 2\r\ntransfer-encoding: chunked\r\n', '0\r\n\r\n'))
  expect(() => parser.take(text, text.length)).toThrow(ResponseFault)
})

test.each([
  ['a head', 'HTTP/1.1 200 OK\r\nx: '],
  ['an extension', ok('transfer-encoding: chunked\r\n', '2;')],
  ['a trailer', ok('transfer-encoding: chunked\r\n', '0\r\nx: ')],
])('%s may not be longer than PROVIDER_HEAD_BYTES', (_, opening) => {
  expect(readText(opening + 'x'.repeat(PROVIDER_HEAD_BYTES - opening.length - 1)).over).toBe(false)
  expect(() => readText(opening + 'x'.repeat(PROVIDER_HEAD_BYTES + 1))).toThrow(ResponseFault)
})

const NOTHING_MORE = new Error('nothing more comes')

const whyNot = (error: Error) => (error === NOTHING_MORE ? 'unfinished' : 'refused')

/** What Node's own client makes of these bytes. */
function readByNode(
  response: Buffer,
  closed: boolean,
): Promise<{ status: number; body: string } | 'refused' | 'unfinished'> {
  return new Promise((resolve) => {
    let isPlayed = false
    const connection = new Duplex({
      read() {},
      write(_bytes, _encoding, done) {
        done()
        if (isPlayed) return
        isPlayed = true
        connection.push(response)
        // A client that still waits then has not read a whole one, unless the end is what it waits for.
        if (closed) connection.push(null)
        else setImmediate(() => connection.destroy(NOTHING_MORE))
      },
    })
    const request = nodeRequest({ method: 'POST', createConnection: () => connection as never }, (incoming) => {
      const pieces: Buffer[] = []
      incoming.on('data', (piece: Buffer) => pieces.push(piece))
      incoming.on('error', (error) => resolve(whyNot(error)))
      incoming.on('end', () =>
        resolve({ status: incoming.statusCode as number, body: Buffer.concat(pieces).toString('latin1') }),
      )
    })
    request.on('error', (error) => resolve(whyNot(error)))
    request.end('x')
  })
}
