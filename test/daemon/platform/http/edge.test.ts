import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { Admission, Limiter } from '../../../../src/daemon/platform/http/admission.ts'
import { NOBODY } from '../../../../src/daemon/platform/http/caller.ts'
import { type Method, type Route, reply, route } from '../../../../src/daemon/platform/http/route.ts'
import { type ConnectionLimits, type HttpServer, startHttpServer } from '../../../../src/daemon/platform/http/server.ts'
import { GatewayError } from '../../../../src/shared/errors.ts'
import { type Clock, systemClock } from '../../../../src/shared/time.ts'
import { deferred } from '../../../deferred.ts'
import { createFakeClock } from '../../../fake-clock.ts'

const open: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close()
})

const okay = async () => reply(200, {})

/** Common parts of the routes of these tests. */
const plain: Pick<Route, 'access' | 'errors' | 'summary' | 'tags' | 'responses'> = {
  access: 'none',
  errors: 'flat',
  summary: '',
  tags: [],
  responses: {},
}

/** An admission without stored state. */
const admission = (given: Partial<Admission> = {}): Admission => ({
  headers: {},
  refusal: undefined,
  unstoredCounters: () => [],
  countersStored() {},
  finish: () => undefined,
  ...given,
})

type Options = {
  clock?: Clock
  limiter?: Limiter
  onAuthenticate?: () => void
  limits?: Partial<ConnectionLimits>
  more?: Route[]
  bugs?: unknown[]
}

async function start({
  clock = systemClock,
  limiter = { admit: () => admission() },
  onAuthenticate,
  limits = {},
  more = [],
  bugs = [],
}: Options = {}): Promise<HttpServer & { port: number }> {
  const routes: Route[] = [
    route({ ...plain, method: 'GET', path: '/flat', handle: async () => reply(200, { ok: true }) }),
    route({ ...plain, method: 'GET', path: '/admin', access: 'user-management', handle: async () => reply(200, {}) }),
    route({
      ...plain,
      method: 'GET',
      path: '/operator',
      access: 'operator',
      errors: 'structured',
      handle: async () => reply(200, {}),
    }),
    route({
      ...plain,
      method: 'POST',
      path: '/things/{name}',
      errors: 'structured',
      body: z.object({ size: z.int({ error: 'size must be a whole number' }) }),
      query: z.object({ q: z.string().optional() }),
      handle: async ({ params, body, query }) => reply(201, { params, body, query }),
    }),
    route({
      ...plain,
      method: 'GET',
      path: '/bug',
      handle: async () => {
        throw new TypeError('secret internals')
      },
    }),
    route({
      ...plain,
      method: 'GET',
      path: '/limited',
      errors: 'structured',
      handle: async () => {
        throw new GatewayError('RATE_LIMIT_EXCEEDED', 'Slow down.', { retryAfterSeconds: 3 })
      },
    }),
    ...more,
  ]
  const server = await startHttpServer({
    routes,
    clock,
    listen: { host: '127.0.0.1', port: 0 },
    limits,
    log: { debug() {}, info() {}, warn() {}, error: (facts) => void bugs.push(facts) },
    limiter,
    authenticate({ headers: { authorization } }) {
      onAuthenticate?.()
      if (authorization === 'Bearer good') return NOBODY
      throw new GatewayError('UNAUTHORIZED', 'No.')
    },
  })
  open.push(() => server.close())
  return Object.assign(server, { port: Number(new URL(server.url).port) })
}

/** Sends these bytes and returns everything received until the server closes the connection. */
async function raw(port: number, bytes: string | Buffer, { end = false } = {}): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  const answer = collect(socket)
  socket.write(bytes)
  if (end) socket.end()
  return answer
}

function collect(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    let text = ''
    socket.setEncoding('utf8')
    socket.on('data', (chunk) => {
      text += chunk
    })
    socket.on('error', () => {})
    socket.on('close', () => resolve(text))
  })
}

const close = 'Connection: close\r\n'
const get = (path: string, headers = '') => `GET ${path} HTTP/1.1\r\nHost: x\r\n${close}${headers}\r\n`
const post = (path: string, body: string, headers = '') =>
  `POST ${path} HTTP/1.1\r\nHost: x\r\n${close}Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n${headers}\r\n${body}`

function parse(answer: string) {
  const [head = '', text = ''] = answer.split('\r\n\r\n')
  const headers = Object.fromEntries(
    head
      .split('\r\n')
      .slice(1)
      .map((line) => line.toLowerCase().split(': ', 2) as [string, string]),
  )
  return { status: Number(head.split(' ')[1]), headers, body: text === '' ? undefined : JSON.parse(text) }
}

describe('both error shapes', () => {
  test('flat: success, error, message, request_id, and the id in the header too', async () => {
    const { port } = await start()
    const { status, headers, body } = parse(await raw(port, get('/nowhere')))
    expect(status).toBe(404)
    expect(body).toEqual({
      success: false,
      error: 'Not found',
      message: expect.any(String),
      request_id: headers['x-request-id'],
    })
    expect(headers['x-request-id']).toMatch(/^req-[0-9a-f]{24}$/)
  })

  test('structured: code, message, details {field, value}', async () => {
    const { port } = await start()
    const { status, body } = parse(await raw(port, post('/things/a', '{"size":"big"}')))
    expect(status).toBe(400)
    expect(body).toMatchObject({
      success: false,
      error: {
        code: 'VALIDATION_ERROR',
        message: 'size: size must be a whole number.',
        details: { field: 'size', value: 'big' },
      },
    })
  })

  test('structured: retryAfter in seconds, and the Retry-After header', async () => {
    const { port } = await start()
    const { status, headers, body } = parse(await raw(port, get('/limited')))
    expect(status).toBe(429)
    expect(headers['retry-after']).toBe('3')
    expect(body.error).toEqual({ code: 'RATE_LIMIT_EXCEEDED', message: 'Slow down.', retryAfter: 3 })
  })

  test('a bug is logged in full and answered as a bare 500', async () => {
    const bugs: unknown[] = []
    const { port } = await start({ bugs })
    const answer = await raw(port, get('/bug'))
    expect(parse(answer).status).toBe(500)
    expect(answer).not.toContain('secret internals')
    expect(bugs).toEqual([expect.objectContaining({ error: expect.any(TypeError), request_id: expect.any(String) })])
  })
})

describe('authentication and rights', () => {
  test('no key and a wrong key are 401 with a challenge', async () => {
    const { port } = await start()
    for (const headers of ['', 'Authorization: Bearer bad\r\n']) {
      const answer = parse(await raw(port, get('/admin', headers)))
      expect([answer.status, answer.body.error, answer.headers['www-authenticate']]).toEqual([
        401,
        'Invalid API key',
        'bearer',
      ])
    }
  })

  test('a key without the right is 403 in the shape of the route', async () => {
    const { port } = await start()
    const flat = parse(await raw(port, get('/admin', 'Authorization: Bearer good\r\n')))
    expect([flat.status, flat.body.error]).toEqual([403, 'Access denied'])
    const structured = parse(await raw(port, get('/operator', 'Authorization: Bearer good\r\n')))
    expect([structured.status, structured.body.error.code]).toEqual([403, 'INSUFFICIENT_PERMISSIONS'])
  })

  test('rights are checked before the body: an unauthorised upload is not parsed', async () => {
    const secured = route({
      ...plain,
      method: 'POST',
      path: '/secured',
      access: 'user-management',
      body: z.object({}),
      handle: async () => reply(200, {}),
    })
    const { port } = await start({ more: [secured] })
    expect(parse(await raw(port, post('/secured', 'not json'))).status).toBe(401)
  })
})

describe('the limits of a key', () => {
  const headers = { 'ratelimit-limit': '60', 'ratelimit-policy': '60;w=60' }
  const authorized = 'Authorization: Bearer good\r\n'
  const keyed = { ...plain, access: 'key' } as const
  const streaming = route({
    ...keyed,
    method: 'GET',
    path: '/streaming',
    async handle(context) {
      context.openStream().end('data: {}\n\n')
      return undefined
    },
  })
  const thing = route({
    ...keyed,
    method: 'POST',
    path: '/thing',
    body: z.object({ size: z.int() }),
    handle: async () => reply(200, {}),
  })
  const bug = route({
    ...keyed,
    method: 'GET',
    path: '/keyed-bug',
    handle: async () => {
      throw new Error('oops')
    },
  })

  test('their headers are on every response to a known key, and on no other', async () => {
    const asked: string[] = []
    const { port } = await start({
      more: [streaming, thing, bug],
      limiter: {
        admit(_, { path }) {
          asked.push(path)
          return admission({ headers })
        },
      },
    })
    for (const [request, status] of [
      [post('/thing', '{"size":1}', authorized), 200],
      [post('/thing', '{"size":"x"}', authorized), 400],
      [get('/admin', authorized), 403],
      [get('/keyed-bug', authorized), 500],
    ] as const) {
      const answer = parse(await raw(port, request))
      expect([answer.status, answer.headers]).toEqual([status, expect.objectContaining(headers)])
    }
    const stream = await raw(port, get('/streaming', authorized))
    expect(stream).toMatch(/^HTTP\/1\.1 200 [\s\S]*ratelimit-limit: 60\r\n[\s\S]*data: \{\}/)
    for (const request of [get('/flat'), get('/streaming'), get('/nowhere', authorized)]) {
      expect(await raw(port, request)).not.toContain('ratelimit')
    }
    expect(asked).toEqual(['/thing', '/thing', '/admin', '/keyed-bug', '/streaming'])
  })

  test('requests of one rate class get the same route, because the limiter caches by route', async () => {
    const asked: Route[] = []
    const feed = route({
      ...keyed,
      method: 'GET',
      path: '/feed',
      rateOf: ({ headers: { accept } }) => (accept === 'text/event-stream' ? 'unmetered' : 'general'),
      handle: async () => reply(200, {}),
    })
    const limiter: Limiter = {
      admit(_, admitted) {
        asked.push(admitted)
        return admission()
      },
    }
    const { port } = await start({ more: [feed], limiter })
    for (let call = 0; call < 2; call++) {
      await raw(port, get('/feed', authorized))
      await raw(port, get('/feed', `${authorized}Accept: text/event-stream\r\n`))
    }
    expect(asked.map(({ rate }) => rate)).toEqual(['general', 'unmetered', 'general', 'unmetered'])
    expect(new Set(asked).size).toBe(2)
  })

  test('they are checked before the rights and the body, and are on a rejection too', async () => {
    const refusal = new GatewayError('RATE_LIMIT_EXCEEDED', '60 requests per minute', { retryAfterSeconds: 7 })
    const { port } = await start({ more: [thing], limiter: { admit: () => admission({ headers, refusal }) } })
    for (const request of [get('/admin', authorized), post('/thing', 'not json', authorized)]) {
      const answer = parse(await raw(port, request))
      expect([answer.status, answer.headers]).toEqual([
        429,
        expect.objectContaining({ ...headers, 'retry-after': '7' }),
      ])
    }
  })

  test('admission state is stored before the response is sent, once, whatever the response is', async () => {
    const log: string[] = []
    const { port } = await start({
      more: [thing, bug],
      limiter: {
        admit(_, { path }) {
          return admission({
            async finish() {
              log.push(`storing ${path}`)
              await new Promise(setImmediate)
              log.push(`stored ${path}`)
            },
          })
        },
      },
    })
    for (const [request, path] of [
      [post('/thing', '{"size":1}', authorized), '/thing'],
      [post('/thing', '{', authorized), '/thing'],
      [get('/admin', authorized), '/admin'],
      [get('/keyed-bug', authorized), '/keyed-bug'],
    ] as const) {
      const socket = connect(port, '127.0.0.1')
      const closed = once(socket, 'close')
      socket.write(request)
      await once(socket, 'data')
      log.push('answered')
      expect(log.splice(0)).toEqual([`storing ${path}`, `stored ${path}`, 'answered'])
      socket.resume()
      await closed
    }
  })
})

describe('targets, methods and headers', () => {
  test('parameters are decoded, and HEAD is GET without a body', async () => {
    const { port } = await start()
    expect(parse(await raw(port, post('/things/a%20b?q=1', '{"size":3}'))).body).toEqual({
      params: { name: 'a b' },
      body: { size: 3 },
      query: { q: '1' },
    })
    const head = await raw(port, get('/flat').replace('GET', 'HEAD'))
    expect(head).toMatch(/^HTTP\/1.1 200 /)
    expect(head.split('\r\n\r\n')[1]).toBe('')
  })

  test('a known path with another method is 405 and lists the supported methods', async () => {
    const { port } = await start()
    const { status, headers } = parse(await raw(port, get('/flat').replace('GET', 'DELETE')))
    expect([status, headers.allow]).toEqual([405, 'get'])
  })

  test('router errors have the error shape of the path', async () => {
    const structured = (path: string) =>
      route({ ...plain, method: 'GET', path, errors: 'structured', handle: async () => reply(200, {}) })
    const { port } = await start({ more: [structured('/groups/{id}'), structured('/groups')] })
    const codeOf = async (request: string) => {
      const { status, body } = parse(await raw(port, request))
      return [status, body.error.code ?? body.error]
    }
    expect(await codeOf(get('/groups/%ff'))).toEqual([400, 'INVALID_HTTP'])
    expect(await codeOf(get('/groups/a').replace('GET', 'PUT'))).toEqual([405, 'METHOD_NOT_ALLOWED'])
    expect(await codeOf(get('/groups').replace('GET', 'DELETE'))).toEqual([405, 'METHOD_NOT_ALLOWED'])
    expect(await codeOf(get('/flat').replace('GET', 'DELETE'))).toEqual([405, 'Method not allowed'])
    expect(await codeOf(get('/groups/a/b'))).toEqual([404, 'Not found'])
  })

  test('two routes cannot have the same method and path', async () => {
    const twice = (method: Method) =>
      route({
        ...plain,
        method,
        path: '/flat',
        handle: async () => reply(200, {}),
      })
    await expect(start({ more: [twice('GET')] })).rejects.toThrow('two routes claim GET /flat')
  })

  test.each([
    ['an absolute target', 'GET http://x/flat HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n', 400],
    ['a // target', get('//flat'), 400],
    ['a * target', 'OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n', 400],
    ['a broken escape', post('/things/%zz', '{"size":1}'), 400],
    ['no Host', 'GET /flat HTTP/1.1\r\nConnection: close\r\n\r\n', 400],
    ['two Host headers', get('/flat', 'Host: y\r\n'), 400],
    ['two Authorization headers', get('/flat', 'Authorization: a\r\nauthorization: b\r\n'), 400],
    ['two Content-Type headers', post('/things/a', '{}', 'content-type: text/plain\r\n'), 400],
    ['two Idempotency-Key headers', get('/flat', 'Idempotency-Key: a\r\nIDEMPOTENCY-KEY: b\r\n'), 400],
    ['two Content-Length headers', post('/things/a', '{}', 'Content-Length: 2\r\n'), 400],
    ['Content-Length and chunked', post('/things/a', '{}', 'Transfer-Encoding: chunked\r\n'), 400],
    [
      'chunked on HTTP/1.0',
      'POST /things/a HTTP/1.0\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n',
      400,
    ],
    ['101 headers', get('/flat', Array.from({ length: 99 }, (_, at) => `X-${at}: 1\r\n`).join('')), 431],
    ['20 KiB of headers', get('/flat', `X-Long: ${'a'.repeat(20_000)}\r\n`), 431],
    ['text that is not HTTP', 'hello there\r\n\r\n', 400],
    ['a TLS hello', Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03]), 400],
    ['NUL bytes', Buffer.alloc(64), 400],
    ['a query parameter given twice', post('/things/a?q=1&q=2', '{"size":1}'), 400],
    ['a body without the JSON content type', post('/things/a', '{}').replace('application/json', 'text/plain'), 415],
    ['a body above 64 KiB', post('/things/a', JSON.stringify({ size: 1, x: 'x'.repeat(70_000) })), 413],
  ])('%s is rejected with an error body, and the next request is served', async (_what, bytes, status) => {
    const { port } = await start()
    const answer = parse(await raw(port, bytes, { end: true }))
    expect(answer.status).toBe(status)
    expect(answer.body.success).toBe(false)
    expect(parse(await raw(port, get('/flat'))).status).toBe(200)
  })

  test('a chunked body above the limit is rejected while it arrives', async () => {
    const { port } = await start()
    const head = `POST /things/a HTTP/1.1\r\nHost: x\r\n${close}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`
    const answer = await raw(port, `${head}20000\r\n${'x'.repeat(0x20000)}\r\n0\r\n\r\n`)
    expect(parse(answer).status).toBe(413)
  })

  test('a connection survives a rejected body and serves the next request', async () => {
    const { port } = await start()
    const refused = post('/things/a', '{"size":"x"}').replace(close, '')
    const answer = await raw(port, refused + get('/flat'))
    expect(answer.match(/HTTP\/1\.1 (\d+)/g)).toEqual(['HTTP/1.1 400', 'HTTP/1.1 200'])
  })

  test('100-continue is sent only if the body is accepted', async () => {
    const { port } = await start()
    const expecting = 'Expect: 100-continue\r\n'
    expect(await raw(port, post('/things/a', '{"size":1}', expecting))).toMatch(
      /^HTTP\/1.1 100 Continue\r\n\r\nHTTP\/1.1 201/,
    )
    const refused = await raw(port, post('/admin', '', expecting))
    expect(refused).toMatch(/^HTTP\/1.1 405 /)
  })
})

describe('bytes after a rejected head', () => {
  const SMUGGLED = 'GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n'

  /** Sends two requests in one write, on a connection that both would keep open. */
  async function smuggle(head: string, body: string) {
    const handled: string[] = []
    const smuggled = route({
      ...plain,
      method: 'GET',
      path: '/smuggled',
      async handle({ endpoint }) {
        handled.push(endpoint)
        return reply(200, {})
      },
    })
    // A server that kept the connection open would close it after a second and fail the test earlier.
    const { port } = await start({ more: [smuggled], limits: { keepAliveTimeoutMs: 1_000 } })
    const socket = connect(port, '127.0.0.1')
    const ended = once(socket, 'end')
    const answer = collect(socket)
    socket.write(`${head}\r\n${body}${SMUGGLED}`)
    // The server closes its side without a reset, so the client receives the complete answer.
    await ended
    return { answer: await answer, handled }
  }

  const chunkedAs = (coding: string) =>
    `POST /things/a HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${coding}\r\n`
  const CHUNKS = 'a\r\n{"size":1}\r\n0\r\n\r\n'

  test.each([
    ['gzip, chunked', 501],
    ['x-new, chunked', 501],
    ['chunked, chunked', 400],
    ['identity, chunked', 501],
    ['CHUNKED , Chunked', 400],
    ['chunked\r\nTransfer-Encoding: chunked', 400],
    ['gzip\r\nTransfer-Encoding: chunked', 501],
    ['identity', 400],
    ['gzip', 400],
    ['chunked, gzip', 400],
    ['xchunked', 400],
    // The parser of newer Node versions rejects it.
    ['', process.versions.node.startsWith('20.') ? 501 : 400],
  ])('Transfer-Encoding: %j ends the connection', async (coding, status) => {
    const { answer, handled } = await smuggle(chunkedAs(`Transfer-Encoding: ${coding}`), CHUNKS)
    expect(answer.match(/HTTP\/1\.1 \d+/g)).toEqual([`HTTP/1.1 ${status}`])
    expect(parse(answer).headers.connection).toBe('close')
    expect(parse(answer).body).toMatchObject({ success: false })
    expect(handled).toEqual([])
  })

  test.each([
    ['no Host', 'GET /flat HTTP/1.1\r\n', 400],
    ['two Content-Type headers', chunkedAs('Content-Type: text/plain\r\nTransfer-Encoding: chunked'), 400],
    ['too many headers', `GET /flat HTTP/1.1\r\nHost: x\r\n${'X: 1\r\n'.repeat(100)}`, 431],
  ])('%s: they are not a request', async (_what, head, status) => {
    const { answer, handled } = await smuggle(head, head.startsWith('POST') ? CHUNKS : '')
    expect(answer.match(/HTTP\/1\.1 \d+/g)).toEqual([`HTTP/1.1 ${status}`])
    expect(parse(answer).headers.connection).toBe('close')
    expect(handled).toEqual([])
  })

  test.each(['chunked', 'Chunked', 'CHUNKED', ' chunked '])('Transfer-Encoding: %j is accepted', async (coding) => {
    const { port } = await start()
    const answer = await raw(port, `${chunkedAs(`${close}Transfer-Encoding: ${coding}`)}\r\n${CHUNKS}`)
    expect([parse(answer).status, parse(answer).body.body]).toEqual([201, { size: 1 }])
  })
})

describe('rejections are sent at once', () => {
  test('a 404 does not wait for a body that never comes', async () => {
    const { port } = await start()
    const socket = connect(port, '127.0.0.1')
    socket.write(
      'POST /secured-by-nobody HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n',
    )
    const [first] = await once(socket, 'data')
    expect(String(first)).toMatch(/^HTTP\/1\.1 404 [\s\S]*"success":false/)
    socket.destroy()
  })

  test('a valid request followed by garbage is still answered, and then the connection ends', async () => {
    const started = deferred()
    const held = deferred()
    const slow = route({
      ...plain,
      method: 'GET',
      path: '/slow',
      async handle() {
        started.resolve()
        await held.promise
        return reply(200, { slow: true })
      },
    })
    const { port } = await start({ more: [slow] })
    const answer = raw(port, `${get('/slow').replace(close, '')}garbage\r\n\r\n`)
    await started.promise
    held.resolve()
    expect(parse(await answer).body).toEqual({ slow: true })
  })

  test('an unsupported expectation and a CONNECT are rejected with an error body', async () => {
    const { port } = await start()
    expect(parse(await raw(port, get('/flat', 'Expect: miracles\r\n'))).status).toBe(417)
    const connectAnswer = parse(await raw(port, 'CONNECT x:443 HTTP/1.1\r\nHost: x:443\r\n\r\n'))
    expect([connectAnswer.status, connectAnswer.body.success]).toEqual([405, false])
  })

  test('requests above the concurrency limit get 503 with Retry-After; probes are still answered', async () => {
    const held = deferred()
    const started = deferred()
    const slow = route({
      ...plain,
      method: 'GET',
      path: '/slow',
      access: 'key',
      async handle() {
        started.resolve()
        await held.promise
        return reply(200, {})
      },
    })
    const { port } = await start({ more: [slow], limits: { runningMax: 1 } })
    const authorised = get('/slow', 'Authorization: Bearer good\r\n')
    const running = raw(port, authorised)
    await started.promise
    const refused = parse(await raw(port, authorised))
    expect([refused.status, refused.headers['retry-after']]).toEqual([503, '1'])
    expect(parse(await raw(port, get('/flat'))).status).toBe(200)
    held.resolve()
    expect(parse(await running).status).toBe(200)
  })

  test('rejected requests that never send their body take no capacity from others', async () => {
    const paid = route({ ...plain, method: 'POST', path: '/chat', access: 'key', callsModels: true, handle: okay })
    const { port } = await start({ more: [paid], limits: { runningMax: 10 }, clock: createFakeClock() })
    for (let request = 0; request < 20; request++) {
      const socket = connect(port, '127.0.0.1')
      open.push(async () => void socket.destroy())
      socket.write('POST /chat HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n')
      const [first] = await once(socket, 'data')
      expect(String(first)).toMatch(/^HTTP\/1\.1 401 /)
    }
    expect(parse(await raw(port, post('/chat', '', 'Authorization: Bearer good\r\n'))).status).toBe(200)
  })
})

describe('draining', () => {
  test('does not wait for a client that sends half a body', async () => {
    const clock = createFakeClock()
    const reading = deferred()
    const half = route({
      ...plain,
      method: 'POST',
      path: '/half',
      access: 'key',
      body: z.object({}),
      handle: async () => reply(200, {}),
    })
    const server = await start({ clock, more: [half], onAuthenticate: reading.resolve })
    const socket = connect(server.port, '127.0.0.1')
    socket.write(post('/half', '{"size":1}', 'Authorization: Bearer good\r\n').slice(0, -3))
    await reading.promise
    const drained = server.drain(2000)
    clock.advance(2000)
    await drained
    socket.destroy()
  })
})

describe('slow clients', () => {
  test('a client that reads nothing is disconnected after the idle timeout', async () => {
    const gone = deferred()
    const endless = route({
      ...plain,
      method: 'GET',
      path: '/endless',
      async handle(context) {
        const { signal } = context
        signal.addEventListener('abort', () => gone.resolve())
        const stream = context.openStream()
        while (!signal.aborted) if (!stream.write('x'.repeat(65_536))) await stream.drained(signal)
        return undefined
      },
    })
    const { port } = await start({ more: [endless], limits: { quietMs: 50 } })
    const socket = connect(port, '127.0.0.1')
    socket.write(get('/endless'))
    socket.pause()
    await gone.promise
    const received = collect(socket)
    socket.resume()
    expect(await received).toMatch(/x{65536}/)
  })

  test('a stalled upload is disconnected after the idle timeout, a long-running handler is not', async () => {
    const worked = deferred()
    const upload = route({
      ...plain,
      method: 'POST',
      path: '/upload',
      bodyLimit: 'unread',
      async handle({ request }) {
        for await (const _ of request);
        await worked.promise
        return reply(200, {})
      },
    })
    const { port } = await start({ more: [upload], limits: { quietMs: 50 } })
    expect(await raw(port, post('/upload', 'half of it').slice(0, -2))).toBe('')
    const answer = raw(port, post('/upload', 'all of it'))
    // The other connection is closed for inactivity, so the idle time has passed for this one too.
    await raw(port, post('/upload', 'half of it').slice(0, -2))
    worked.resolve()
    expect(parse(await answer).status).toBe(200)
  })

  test('headers that do not arrive in time end the connection with 408', async () => {
    const { port } = await start({ limits: { headersTimeoutMs: 50, checkEveryMs: 10 } })
    expect(await raw(port, 'GET /flat HTTP/1.1\r\nHost: x\r\nX-Slow: ')).toMatch(/^HTTP\/1.1 408 /)
  })

  test('an idle connection is closed after the keep-alive time', async () => {
    const { port } = await start({ limits: { keepAliveTimeoutMs: 20 } })
    expect(await raw(port, get('/flat').replace(close, ''))).toMatch(/^HTTP\/1.1 200 /)
  })
})
