import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, request, type Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import path from 'node:path'
import tls, { type TLSSocket } from 'node:tls'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { openPool, type PoolOptions } from '../../../src/daemon/models/pool.ts'
import { openUpstream } from '../../../src/daemon/models/providers/stream/upstream.ts'
import { proxyFor } from '../../../src/daemon/models/proxy.ts'
import { STREAM_BUFFER_BYTES } from '../../../src/shared/spec-limits.ts'
import { startGateway, upstreamProvider } from '../../harness.ts'
import { chatJson, replyJson, startUpstream } from '../../upstream.ts'

const fixture = (name: string) => readFileSync(path.join(import.meta.dirname, '../../fixtures/tls', name), 'utf8')
const ca = fixture('self-signed.crt')

/** A real HTTP proxy: it opens tunnels and forwards requests. */
type TestProxy = {
  url: string
  /** The first line and the Proxy-Authorization header of each request. */
  seen: string[]
  resetTunnels(): void
  /** Answers all further requests with this status. */
  reject(status: number): void
  close(): Promise<void>
}

async function startProxy(): Promise<TestProxy> {
  const seen: string[] = []
  const sockets = new Set<Socket>()
  let rejected = 0
  const note = ({ method, url, headers }: IncomingMessage) =>
    void seen.push(`${method} ${url} ${headers['proxy-authorization'] ?? ''}`.trimEnd())
  const server = createServer((incoming, response) => {
    note(incoming)
    if (rejected > 0) return void response.writeHead(rejected).end()
    const { method, headers } = incoming
    const { 'proxy-authorization': _, ...passedOn } = headers
    const onward = request(incoming.url ?? '', { method: method ?? '', headers: passedOn, agent: false }, (answer) => {
      response.writeHead(answer.statusCode ?? 0, answer.headers)
      answer.pipe(response)
    })
    incoming.pipe(onward)
  })
  server.on('connect', (incoming: IncomingMessage, socket: Socket) => {
    note(incoming)
    if (rejected > 0) return void socket.end(`HTTP/1.1 ${rejected} No\r\n\r\n`)
    const { hostname, port } = new URL(`http://${incoming.url}`)
    const onward = connect({ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port) })
    onward.once('connect', () => socket.write('HTTP/1.1 200 Connected\r\n\r\n'))
    onward.on('error', () => socket.resetAndDestroy())
    socket.on('error', () => {}).on('close', () => onward.destroy())
    onward.pipe(socket).pipe(onward)
  })
  server.on('connection', (socket) => sockets.add(socket))
  const port = await listen(server)
  return {
    url: `http://127.0.0.1:${port}`,
    seen,
    resetTunnels() {
      for (const socket of sockets) socket.resetAndDestroy()
    },
    reject(status) {
      rejected = status
    },
    close: () => end(server, sockets),
  }
}

async function listen(server: Server | tls.Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

const end = (server: Server | tls.Server, sockets: Iterable<Socket>) =>
  new Promise<void>((resolve) => {
    server.close(() => resolve())
    for (const socket of sockets) socket.destroy()
  })

let proxy: TestProxy
const closing: (() => Promise<unknown>)[] = []

beforeEach(async () => {
  proxy = await startProxy()
})

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
  await proxy.close()
})

/** A TLS server of 127.0.0.1. `act` handles each request. */
async function startSecure(act: (socket: TLSSocket) => void): Promise<{
  port: number
  connections(): number
  requests(): number
}> {
  const sockets: TLSSocket[] = []
  let requests = 0
  const server = tls.createServer({ cert: ca, key: fixture('self-signed.key') }, (socket) => {
    sockets.push(socket)
    socket.on('error', () => {})
    socket.on('data', (bytes) => {
      if (!bytes.includes(hello.body)) return
      requests++
      act(socket)
    })
  })
  server.on('tlsClientError', () => {})
  const port = await listen(server)
  closing.push(() => end(server, sockets))
  return { port, connections: () => sockets.length, requests: () => requests }
}

function open(url: string, options: PoolOptions) {
  const pool = openPool(url, options)
  closing.push(() => pool.destroy())
  return pool
}

const hello = { path: '/v1/chat', headers: ['authorization', 'Bearer k'], body: '{"a":1}' }
const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi'

async function post(pool: ReturnType<typeof openPool>): Promise<string> {
  const call = openUpstream(pool, hello, new AbortController().signal)
  await call.takeHead()
  let body = ''
  for (let bytes = await call.next(); bytes !== null; bytes = await call.next()) body += bytes.toString('latin1')
  // A call in the same turn gets a separate connection.
  await new Promise((resolve) => setImmediate(resolve))
  return body
}

const failsWith = (code: string) => ({ reason: 'connection_error', cause: expect.objectContaining({ code }) })

describe('calls to an https server', () => {
  test('use one tunnel one after another, with the user of the proxy', async () => {
    const { port, connections } = await startSecure((socket) => socket.write(OK))
    const pool = open(`https://127.0.0.1:${port}/v1`, { proxy: proxy.url.replace('//', '//us%40er:p%3Aw@'), ca })
    expect([await post(pool), await post(pool)]).toEqual(['hi', 'hi'])
    const user = Buffer.from('us@er:p:w').toString('base64')
    expect(proxy.seen).toEqual([`CONNECT 127.0.0.1:${port} Basic ${user}`])
    expect(connections()).toBe(1)
  })

  test('reject its certificate before a byte is sent, unless its authority is trusted', async () => {
    const { port, requests } = await startSecure((socket) => socket.write(OK))
    const strict = open(`https://127.0.0.1:${port}`, { proxy: proxy.url })
    await expect(post(strict)).rejects.toMatchObject(failsWith('DEPTH_ZERO_SELF_SIGNED_CERT'))
    const direct = open(`https://127.0.0.1:${port}`, {})
    await expect(post(direct)).rejects.toMatchObject(failsWith('DEPTH_ZERO_SELF_SIGNED_CERT'))
    expect(await post(open(`https://127.0.0.1:${port}`, { ca }))).toBe('hi')
    expect(requests()).toBe(1)
  })

  test('fail if the proxy refuses the tunnel or cannot be reached', async () => {
    proxy.reject(407)
    const refused = open('https://models.example/v1', { proxy: proxy.url })
    await expect(post(refused)).rejects.toMatchObject(failsWith('PROXY_407'))
    const { url } = proxy
    await proxy.close()
    await expect(post(open('https://models.example', { proxy: url }))).rejects.toMatchObject(failsWith('ECONNREFUSED'))
    proxy = await startProxy()
  })

  test('resolve only the name of the proxy', async () => {
    const asked: string[] = []
    const resolve = async (host: string) => {
      asked.push(host)
      return ['127.0.0.1']
    }
    proxy.reject(403)
    const { port } = new URL(proxy.url)
    const pool = open('https://models.example', { proxy: `http://proxy.example:${port}`, resolve })
    await expect(post(pool)).rejects.toMatchObject(failsWith('PROXY_403'))
    expect(asked).toEqual(['proxy.example'])
    expect(proxy.seen).toEqual(['CONNECT models.example:443'])
  })

  test('are truncated by a reset in a body without a length', async () => {
    const { port } = await startSecure((socket) => socket.write('HTTP/1.1 200 OK\r\n\r\nhalf'))
    const pool = open(`https://127.0.0.1:${port}`, { proxy: proxy.url, ca })
    const call = openUpstream(pool, hello, new AbortController().signal)
    await call.takeHead()
    expect(String(await call.next())).toBe('half')
    proxy.resetTunnels()
    await expect(call.next()).rejects.toMatchObject({ ...failsWith('ECONNRESET'), outcome: 'truncated' })
  })

  test('are read to the end if the server closes during a pause', async () => {
    const long = 'x'.repeat(STREAM_BUFFER_BYTES * 2)
    const { port } = await startSecure((socket) =>
      socket.end(`HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: ${long.length}\r\n\r\n${long}`),
    )
    const pool = open(`https://127.0.0.1:${port}`, { proxy: proxy.url, ca })
    const call = openUpstream(pool, hello, new AbortController().signal)
    await call.takeHead()
    let length = 0
    for (let bytes = await call.next(); bytes !== null; bytes = await call.next()) {
      length += bytes.length
      for (let turns = 0; turns < 30; turns++) await new Promise((resolve) => setImmediate(resolve))
    }
    expect(length).toBe(long.length)
  })
})

async function openServer() {
  const upstream = await startUpstream()
  upstream.fallback(replyJson(chatJson('Hello.')))
  closing.push(() => upstream.close())
  return upstream
}

describe('calls from the gateway', () => {
  const chat = { model: 'house/any', messages: [{ role: 'user', content: 'Hi' }] }

  test('to an http server are sent to the proxy with the URL of the server', async () => {
    const upstream = await openServer()
    const gateway = await startGateway({
      providers: [{ ...upstreamProvider('house', upstream.url), proxy: proxy.url.replace('//', '//user:secret@') }],
    })
    expect((await gateway.chat(chat)).status).toBe(200)
    const user = Buffer.from('user:secret').toString('base64')
    expect(proxy.seen).toEqual([`POST ${upstream.url}/chat/completions Basic ${user}`])
    expect(upstream.requests.at(-1)?.headers).toMatchObject({
      host: new URL(upstream.url).host,
      authorization: 'Bearer sk-upstream-secret',
    })
    expect(upstream.requests.at(-1)?.headers['proxy-authorization']).toBeUndefined()
  })

  test('use the proxy of the environment unless the provider has its own setting', async () => {
    const upstream = await openServer()
    proxy.reject(503)
    const gateway = await startGateway({
      proxies: { http: proxy.url },
      providers: [
        upstreamProvider('house', 'http://models.example/v1'),
        { ...upstreamProvider('direct', upstream.url), proxy: null },
      ],
    })
    expect((await gateway.chat(chat)).status).toBe(502)
    expect(proxy.seen).toEqual(['POST http://models.example/v1/chat/completions'])
    expect((await gateway.chat({ ...chat, model: 'direct/any' })).status).toBe(200)
    expect(proxy.seen).toHaveLength(1)
  })
})

describe('NO_PROXY', () => {
  const settings = { http: 'http://plain:1', https: 'http://secure:2' }
  test.each([
    ['https://api.example.com', '', 'http://secure:2'],
    ['http://api.example.com', '', 'http://plain:1'],
    ['https://api.example.com', '*', undefined],
    ['https://api.example.com', 'example.com', undefined],
    ['https://api.example.com', '.example.com', undefined],
    ['https://api.example.com', '*.EXAMPLE.com', undefined],
    ['https://API.example.com.', 'api.example.com', undefined],
    ['https://notexample.com', 'example.com', 'http://secure:2'],
    ['https://api.example.com', 'example.com:443', undefined],
    ['https://api.example.com:8443', 'example.com:443', 'http://secure:2'],
    ['http://10.1.2.3', '10.0.0.0/8', undefined],
    ['http://10.1.2.3:8000', '10.1.2.3:8000', undefined],
    ['http://11.1.2.3', '10.0.0.0/8', 'http://plain:1'],
    ['http://10.1.2.3', '1.2.3', 'http://plain:1'],
    ['http://[fd00::1]', 'fd00::/8', undefined],
    ['http://[fd00::1]:8000', '[fd00::1]:8000', undefined],
    ['http://[fd00::1]', 'fd00::1', undefined],
    ['http://127.0.0.1:11434', '', undefined],
    ['http://[::1]:11434', '', undefined],
    ['http://localhost:8000', '', undefined],
  ])('%s with NO_PROXY=%s uses %s', (url, except, expected) => {
    expect(proxyFor(new URL(url), { ...settings, except: except === '' ? [] : [except] })).toBe(expected)
  })
})
