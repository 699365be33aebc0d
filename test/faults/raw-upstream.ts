import { type AddressInfo, createServer, type Socket } from 'node:net'
import type { Clock } from '../../src/shared/time.ts'

/** One request that is answered with arbitrary bytes. */
export type RawExchange = {
  /** Resolves when the bytes are sent or the connection is closed. Lets the reader run before. */
  send(bytes: string | Uint8Array): Promise<void>
  /** Closes the connection (FIN). */
  fin(): void
  /** Resets the connection (RST). */
  reset(): void
  /** Waits for `ms`. Resolves early if the connection is closed. */
  pass(ms: number): Promise<void>
  /** Milliseconds since 1970 on the daemon's clock. */
  nowMs(): number
  /** Whether the client has disconnected. */
  readonly gone: boolean
  /** Resolves when either side has closed the connection. */
  closed(): Promise<void>
}

export type Play = (exchange: RawExchange) => void | Promise<void>

export type RawUpstream = {
  port: number
  /** The requests of each model so far. */
  asked: Map<string, number>
  /** The play that answers requests of each model. */
  plays: Map<string, Play>
  /** Resolves when no connection is open. */
  allClosed(): Promise<void>
  /** Whether the client has received everything that was sent on this connection, and no play will send more. */
  isQuiet(client: Socket): boolean
  /** Whether a connection is open whose client, none of these, has closed it: its end is still on its way. */
  hasOrphan(clients: readonly Socket[]): boolean
  close(): Promise<void>
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

/** The response of a plain HTTP server to a TLS handshake. */
const NOT_HTTP = 'HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n'

/** Plays wait on `clock`. */
type Deps = { clock: Clock }

/** Starts a server on 127.0.0.1 that reads HTTP requests and lets a play send every byte of the response. */
export async function startRawUpstream({ clock }: Deps): Promise<RawUpstream> {
  const asked = new Map<string, number>()
  const plays = new Map<string, Play>()
  const sockets = new Set<Socket>()
  /** Connections on which a play will send more. */
  const speaking = new Set<Socket>()
  const waiting: (() => void)[] = []
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.setNoDelay(true)
    socket.on('error', () => {})
    socket.on('close', () => {
      sockets.delete(socket)
      if (sockets.size === 0) for (const tell of waiting.splice(0)) tell()
    })
    let received = Buffer.alloc(0)
    socket.on('data', (bytes) => {
      received = Buffer.concat([received, bytes])
      if (received[0] === TLS_HANDSHAKE) return void socket.end(NOT_HTTP)
      const request = toRequest(received)
      if (!request) return
      received = received.subarray(request.bytes)
      asked.set(request.model, (asked.get(request.model) ?? 0) + 1)
      void play(request.model, socket)
    })
  })

  async function play(model: string, socket: Socket): Promise<void> {
    speaking.add(socket)
    try {
      await plays.get(model)?.(exchangeOn(socket, { nowMs: clock.now, pass: (ms) => pass(socket, ms) }))
    } finally {
      speaking.delete(socket)
    }
  }

  async function pass(socket: Socket, ms: number): Promise<void> {
    speaking.delete(socket)
    if (socket.destroyed) return
    await new Promise<void>((resolve) => {
      function goOn(): void {
        timer.cancel()
        socket.off('close', goOn)
        speaking.add(socket)
        resolve()
      }
      const timer = clock.after(ms, goOn)
      socket.once('close', goOn)
    })
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    asked,
    plays,
    isQuiet(client) {
      if (client.connecting) return false
      const own = [...sockets].find(({ remotePort }) => remotePort === client.localPort)
      return (
        own !== undefined &&
        !own.destroyed &&
        !own.writableEnded &&
        !speaking.has(own) &&
        own.bytesWritten === client.bytesRead &&
        own.bytesRead === client.bytesWritten
      )
    },
    hasOrphan(clients) {
      const ports = new Set(clients.map(({ localPort }) => localPort))
      return [...sockets].some(({ remotePort }) => !ports.has(remotePort))
    },
    allClosed: () => (sockets.size === 0 ? Promise.resolve() : new Promise((resolve) => waiting.push(resolve))),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
}

const TLS_HANDSHAKE = 0x16

/** The first complete request in these bytes. Undefined if it is incomplete. */
function toRequest(received: Buffer): { model: string; bytes: number } | undefined {
  const headEnd = received.indexOf('\r\n\r\n')
  if (headEnd < 0) return undefined
  const length = Number(/content-length: *(\d+)/i.exec(received.toString('latin1', 0, headEnd))?.[1])
  const bytes = headEnd + 4 + length
  if (received.length < bytes) return undefined
  return { model: JSON.parse(received.toString('utf8', headEnd + 4, bytes)).model, bytes }
}

function exchangeOn(socket: Socket, time: Pick<RawExchange, 'pass' | 'nowMs'>): RawExchange {
  return {
    ...time,
    async send(bytes) {
      if (socket.destroyed || socket.writableEnded) return
      await new Promise<void>((resolve) => {
        const onClose = () => resolve()
        socket.once('close', onClose)
        socket.write(bytes, () => {
          socket.off('close', onClose)
          resolve()
        })
      })
      // The reader runs in the same process. Two event loop turns let it read its socket.
      await turn()
      await turn()
    },
    closed: () =>
      socket.destroyed ? Promise.resolve() : new Promise((resolve) => socket.once('close', () => resolve())),
    fin: () => void socket.end(),
    reset: () => void socket.resetAndDestroy(),
    get gone() {
      return socket.destroyed
    },
  }
}
