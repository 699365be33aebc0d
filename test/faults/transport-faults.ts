import { gzipSync } from 'node:zlib'
import { both, type Expected, type Fault } from './fault.ts'
import {
  bytes,
  chunk,
  completion,
  counted,
  DONE,
  drip,
  finish,
  flood,
  head,
  LAST_CHUNK,
  late,
  reply,
  STREAM_HEAD,
  stream,
  word,
} from './plays.ts'

const gone: Expected = { fails: 'connection_error' }
const slow: Expected = { fails: 'timeout' }
const answers: Expected = { answers: 'one two' }

const body = completion('one two')
const bodyHead = head(200, { 'content-type': 'application/json', 'content-length': String(body.length) })
const half = body.slice(0, body.indexOf('two'))
const events = word('one ') + word('two') + finish('stop') + counted + DONE

const never = () => {}

/** Faults at every point at which a connection can end or become silent. */
const stages: readonly { at: string; sent: string[]; whole: string[]; expected?: Expected }[] = [
  { at: 'before the head', sent: [], whole: [] },
  { at: 'within the head', sent: ['HTTP/1.1 200 OK\r\nContent-'], whole: ['HTTP/1.1 200 OK\r\nContent-'] },
  { at: 'after the head', sent: [STREAM_HEAD], whole: [bodyHead] },
  { at: 'within the first event', sent: [STREAM_HEAD, `${chunk(word('one ').slice(0, 30))}`], whole: [bodyHead, half] },
]

const endings = [
  { how: 'reset', ending: 'reset', expected: gone, reason: 'connection_error' },
  { how: 'closed', ending: 'fin', expected: gone, reason: 'connection_error' },
  { how: 'silent', ending: 'silence', expected: slow, reason: 'timeout' },
] as const

const breakingOff: Fault[] = endings.flatMap(({ how, ending, expected, reason }) => {
  const outcome = reason === 'timeout' ? 'error' : 'truncated'
  const after = (text: string): Expected => ({ breaks: reason, after: text, outcome })
  const euro = Buffer.from(word('€'))
  const cutInside = euro.subarray(0, euro.indexOf('€') + 1)
  return [
    ...stages.map(({ at, sent, whole }) => ({
      name: `${how} ${at}`,
      streamed: { play: bytes(sent, ending), expected },
      whole: { play: bytes(whole, ending), expected },
    })),
    { name: `${how} between tokens`, streamed: { play: stream([word('one ')], ending), expected: after('one ') } },
    {
      name: `${how} within a character`,
      streamed: { play: stream([word('one '), cutInside], ending), expected: after('one ') },
      whole: {
        play: bytes([bodyHead, Buffer.from(body.replace('one', '€')).subarray(0, body.indexOf('one') + 1)], ending),
        expected,
      },
    },
    {
      name: `${how} before the end marker`,
      streamed: { play: stream([word('one '), word('two'), finish('stop')], ending), expected: answers },
      whole: { play: bytes([bodyHead, body.slice(0, -1)], ending), expected },
    },
  ]
})

const connecting: Fault[] = [
  { ...both('a refused connection', never, gone), place: 'refused' },
  { ...both('a host that does not exist', never, gone), place: 'unknown-host' },
  { ...both('TLS to a server of plain HTTP', never, gone), place: 'tls' },
  { ...both('a connection broken at once', never, gone), place: 'slammed' },
  both('plain HTTP to a server of TLS', bytes([Buffer.from([0x15, 3, 1, 0, 2, 2, 70])]), gone),
]

const slowness: Fault[] = [
  both(
    'a head that drips',
    drip([], (count) => (count === 0 ? 'HTTP/1.1 200 OK\r\n' : `x-${count}: y\r\n`)),
    slow,
  ),
  {
    name: 'a body that drips',
    streamed: { play: drip([STREAM_HEAD], () => chunk(':')), expected: slow },
    whole: {
      play: drip([bodyHead.replace(/content-length: \d+/, 'content-length: 99999')], () => ' '),
      expected: slow,
    },
  },
  {
    name: 'pings for ever',
    streamed: { play: drip([STREAM_HEAD], () => chunk(': ping\n\n')), expected: slow },
    whole: { play: drip([head(200, { 'transfer-encoding': 'chunked' })], () => chunk('\n')), expected: slow },
  },
  {
    name: 'an answer that is longer than its time',
    streamed: {
      play: drip([STREAM_HEAD], () => chunk(word('x'))),
      expected: { breaks: 'timeout', after: /^x+$/, outcome: 'error' },
    },
    whole: { play: late(1_300, reply(200, body)), expected: slow },
  },
  {
    name: 'a late first token',
    streamed: { play: late(800, stream([events])), expected: slow },
    whole: { play: late(300, reply(200, body)), expected: answers },
  },
  {
    name: 'a body in single bytes',
    streamed: { play: stream([...word('one '), ...word('two'), finish('stop'), DONE]), expected: answers },
    whole: { play: bytes([bodyHead, ...body], 'silence'), expected: answers },
  },
]

const broken: Expected = { breaks: 'connection_error', after: 'one ', outcome: 'truncated' }
const begun = [STREAM_HEAD, chunk(word('one '))]
const garbage = Buffer.from(Array.from({ length: 4_096 }, (_, at) => (at * 197 + 41) % 256))
const zipped = (text: string) => gzipSync(text)

const framing: Fault[] = [
  both('bytes that are not HTTP', bytes([garbage]), gone),
  both('another protocol', bytes(['220 mail.example ESMTP ready\r\n']), gone),
  both('a version of HTTP that does not exist', bytes([head(200).replace('1.1', '9.9')]), gone),
  both('a head without a status', bytes(['HTTP/1.1 OK\r\n\r\n']), gone),
  both('a header line without a colon', bytes([head(200).replace('\r\n\r\n', '\r\nnonsense\r\n\r\n')]), gone),
  both('a zero byte in a header', bytes([head(200, { 'x-zero': 'a\0b' })]), gone),
  both('a head that is too long', bytes([head(200, { 'x-long': 'x'.repeat(100_000) })]), gone),
  both('two lengths that differ', bytes([head(200, { 'content-length': '5', 'Content-Length': '6' }), 'hello']), gone),
  both('a length that is no number', bytes([head(200, { 'content-length': 'many' })]), gone),
  {
    name: 'a length that is too long',
    streamed: { play: bytes([head(200, { 'content-length': '9999' }), word('one ')]), expected: broken },
    whole: { play: bytes([head(200, { 'content-length': '9999' }), body]), expected: gone },
  },
  {
    name: 'a length that is too short',
    streamed: {
      play: bytes([head(200, { 'content-length': String(word('one ').length + 9) }), events], 'silence'),
      expected: broken,
    },
    whole: { play: bytes([head(200, { 'content-length': '60' }), body]), expected: { fails: 'server_error' } },
  },
  {
    name: 'a chunk size that is no number',
    streamed: { play: bytes([...begun, 'zz\r\n']), expected: broken },
    whole: { play: bytes([head(200, { 'transfer-encoding': 'chunked' }), 'zz\r\n']), expected: gone },
  },
  {
    name: 'a chunk longer than its size',
    streamed: { play: bytes([...begun, '3\r\nabcdef\r\n']), expected: broken },
    whole: { play: bytes([head(200, { 'transfer-encoding': 'chunked' }), `3\r\n${body}\r\n`]), expected: gone },
  },
  {
    name: 'a body without its last chunk',
    streamed: { play: bytes(begun), expected: broken },
    whole: { play: bytes([head(200, { 'transfer-encoding': 'chunked' }), chunk(half)]), expected: gone },
  },
  {
    name: 'a body that ends with its connection',
    streamed: { play: bytes([head(200, { connection: 'close' }), events]), expected: answers },
    whole: { play: bytes([head(200, { connection: 'close' }), body]), expected: answers },
  },
  {
    name: 'gzip that nobody asked for',
    streamed: {
      play: reply(200, zipped(events), { 'content-encoding': 'gzip', 'content-type': 'text/event-stream' }),
      expected: gone,
    },
    whole: { play: reply(200, zipped(body), { 'content-encoding': 'gzip' }), expected: { fails: 'server_error' } },
  },
  both('100 Continue that nobody asked for', bytes([head(100)]), gone),
  both('a switch of protocols', bytes([head(101, { upgrade: 'websocket', connection: 'upgrade' })]), gone),
  both(
    'early hints for ever',
    drip([], () => head(103, { link: '</a>; rel=preload' })),
    slow,
  ),
  {
    name: 'many early hints',
    streamed: {
      play: bytes([head(103).repeat(100), STREAM_HEAD, chunk(events), LAST_CHUNK], 'silence'),
      expected: answers,
    },
    whole: { play: bytes([head(103).repeat(100), bodyHead, body], 'silence'), expected: answers },
  },
  {
    name: 'bytes after the end of the answer',
    // In one write, because later bytes may arrive in the next call on the connection.
    streamed: {
      play: bytes([Buffer.concat([Buffer.from(STREAM_HEAD), chunk(events), Buffer.from(LAST_CHUNK), garbage])]),
      expected: answers,
    },
    whole: { play: bytes([Buffer.concat([Buffer.from(bodyHead + body), garbage])]), expected: answers },
  },
]

const MEBIBYTE = 1_048_576
const much = Buffer.alloc(MEBIBYTE, 'x')

const size: Fault[] = [
  {
    name: 'a body of 64 MiB and more',
    heavy: true,
    streamed: {
      play: flood([STREAM_HEAD], chunk(Buffer.concat([much, Buffer.from('\n')]))),
      expected: { fails: 'server_error' },
    },
    whole: {
      play: flood(
        [head(200, { 'content-type': 'application/json', 'content-length': String(64 * MEBIBYTE) })],
        much,
        64,
      ),
      expected: { fails: 'server_error' },
    },
  },
  {
    name: 'an event without end',
    heavy: true,
    streamed: { play: flood([STREAM_HEAD, chunk('data: ')], chunk(much)), expected: { fails: 'server_error' } },
  },
  {
    name: 'an answer without end',
    heavy: true,
    overflows: true,
    streamed: {
      play: flood([STREAM_HEAD], chunk(word('x'.repeat(65_536)))),
      expected: { breaks: 'server_error', after: /^x+$/, outcome: 'error' },
    },
    whole: {
      play: flood([head(200, { 'transfer-encoding': 'chunked' })], chunk(much)),
      expected: { fails: 'server_error' },
    },
  },
  {
    name: 'a line of 1 MiB',
    heavy: true,
    streamed: {
      play: stream([word('y'.repeat(MEBIBYTE)), finish('stop'), DONE]),
      expected: { answers: /^y{1000}/ },
    },
    whole: { play: reply(200, completion('y'.repeat(MEBIBYTE))), expected: { answers: /^y{1000}/ } },
  },
]

export const transportFaults: readonly Fault[] = [...connecting, ...breakingOff, ...slowness, ...framing, ...size]
