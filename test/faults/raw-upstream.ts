import { type AddressInfo, createServer, type Socket } from 'node:net'
import type { Clock } from '../../src/shared/time.ts'

/** One request, to be answered with whatever bytes a fault needs. */
export type RawExchange = {
  /** Resolves when the bytes have left, or can no longer; the reader gets a turn before. */
  send(bytes: string | Uint8Array): Promise<void>
  /** Closes the connection in order. */
  fin(): void
  /** Breaks the connection. */
  reset(): void
  /** Sends nothing for `ms`; resolves early when the connection is closed. */
  pass(ms: number): Promise<void>
  /** Milliseconds since 1970 on the clock of the daemon. */
  nowMs(): number
  /** Whether the client is gone. */
  readonly gone: boolean
  /** Resolves when the connection is closed, by whichever side. */
  closed(): Promise<void>
}

export type Play = (exchange: RawExchange) => void | Promise<void>

export type RawUpstream = {
  port: number
  /** The requests so far for each model. */
  asked: Map<string, number>
  /** What answers the requests for a model. */
  plays: Map<string, Play>
  /** Resolves once no connection is open. */
  deserted(): Promise<void>
  /** Whether this end of a connection has received all that the other one sent, and no play is about to send more. */
  isQuiet(client: Socket): boolean
  close(): Promise<void>
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

/** What a server of plain HTTP says to a TLS handshake. */
const NOT_HTTP = 'HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n'

/** Plays pass their time on `clock`. */
type Deps = { clock: Clock }

/** A server on 127.0.0.1 that reads HTTP requests and leaves every byte of the answer to a play. */
export async function startRawUpstream({ clock }: Deps): Promise<RawUpstream> {
  const asked = new Map<string, number>()
  const plays = new Map<string, Play>()
  const sockets = new Set<Socket>()
  /** Connections on which a play is about to send something. */
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
    deserted: () => (sockets.size === 0 ? Promise.resolve() : new Promise((resolve) => waiting.push(resolve))),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
}

const TLS_HANDSHAKE = 0x16

/** The first whole request of these bytes; undefined while more must come. */
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
      // The reader lives in this process: two turns of the event loop let it poll its socket in between.
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
