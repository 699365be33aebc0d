import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { secretWatch } from '../../secret-watch.ts'

/** One received POST. */
export type Received = { head: string; headers: Record<string, string>; body: string }

export type Receiver = {
  url: string
  port: number
  received: Received[]
  /** All connections so far, and the open ones. */
  readonly connections: number
  readonly open: number
  /** Resolves once this many POSTs have arrived. */
  arrived(count: number): Promise<void>
  /** Resolves once all connections are closed. */
  idle(): Promise<void>
  close(): Promise<void>
}

/** The reaction of a receiver to a complete POST, on the raw socket. */
export type Reaction = (socket: Socket, received: Received, nth: number) => void

export type ReceiverOptions = {
  /** Called once per connection, before any read; returning true ends the handling of the connection. */
  onConnection?: (socket: Socket) => boolean
  tls?: { key: string; cert: string }
  host?: string
  port?: number
}

export const answer = (status: number, body = '', headers = ''): Buffer =>
  Buffer.from(`HTTP/1.1 ${status} Whatever\r\ncontent-length: ${Buffer.byteLength(body)}\r\n${headers}\r\n${body}`)

export const reply =
  (status: number, body = '', headers = ''): Reaction =>
  (socket) =>
    socket.write(answer(status, body, headers))

/** A receiver on a raw socket, so that it can violate HTTP in every way. */
export async function startReceiver(react: Reaction = reply(200), options: ReceiverOptions = {}): Promise<Receiver> {
  const received: Received[] = []
  const sockets = new Set<Socket>()
  const waiting = new Set<() => void>()
  let connections = 0

  function onSocket(socket: Socket): void {
    connections++
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.once('close', () => {
      sockets.delete(socket)
      for (const look of waiting) look()
    })
    if (options.onConnection?.(socket)) return
    let buffer = Buffer.alloc(0)
    socket.on('data', (bytes) => {
      buffer = Buffer.concat([buffer, bytes])
      for (let post = takePost(buffer); post; post = takePost(buffer)) {
        buffer = buffer.subarray(post.length)
        received.push(post.received)
        secretWatch.record('the post of a webhook', `${post.received.head}\n${post.received.body}`)
        react(socket, post.received, received.length)
        for (const look of waiting) look()
      }
    })
  }

  const server = options.tls ? createTlsServer(options.tls, onSocket) : createServer(onSocket)
  const raw = new Set<Socket>()
  server.on('connection', (socket) => {
    raw.add(socket)
    socket.on('error', () => undefined)
    socket.once('close', () => {
      raw.delete(socket)
      for (const look of waiting) look()
    })
  })
  server.on('tlsClientError', () => undefined)
  server.listen(options.port ?? 0, options.host ?? '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const until = (ready: () => boolean): Promise<void> =>
    new Promise((resolve) => {
      const look = () => {
        if (!ready()) return
        waiting.delete(look)
        resolve()
      }
      waiting.add(look)
      look()
    })
  return {
    url: `${options.tls ? 'https' : 'http'}://127.0.0.1:${port}/hook`,
    port,
    received,
    get connections() {
      return connections
    },
    get open() {
      return raw.size
    },
    arrived: (count) => until(() => received.length >= count),
    idle() {
      // A socket that is not read does not notice that it was closed.
      for (const socket of raw) socket.resume()
      return until(() => raw.size === 0)
    },
    async close() {
      for (const socket of [...sockets, ...raw]) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

function takePost(buffer: Buffer): { received: Received; length: number } | undefined {
  const headEnd = buffer.indexOf('\r\n\r\n')
  if (headEnd < 0) return undefined
  const [head = '', ...lines] = buffer.toString('latin1', 0, headEnd).split('\r\n')
  const headers = Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]),
  )
  const length = headEnd + 4 + Number(headers['content-length'] ?? 0)
  if (buffer.length < length) return undefined
  return { received: { head, headers, body: buffer.toString('utf8', headEnd + 4, length) }, length }
}
