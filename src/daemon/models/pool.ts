import type { Socket } from 'node:net'
import { buildConnector, Client, type Dispatcher, Pool } from 'undici'
import type { Clock } from '../../shared/time.ts'
import type { ResolveHost } from '../platform/network/name-cache.ts'
import { lookupWith } from '../platform/network/names.ts'

/** Maximum size of all headers of one response. */
export const PROVIDER_HEAD_BYTES = 32_768
export const PROVIDER_CONNECT_TIMEOUT_MS = 10_000
/** How long an idle connection is kept, unless the server names a time. */
export const PROVIDER_IDLE_CONNECTION_MS = 30_000
/** The maximum time for which an idle connection is kept, even if the server names a longer time. */
export const PROVIDER_IDLE_MAX_MS = 60_000
/** A connection is no longer reused this long before it reaches the server's learned idle limit (`ReuseLimit`). */
const REUSE_MARGIN_MS = 1_000
/** How long the learned idle limit is remembered. */
const REUSE_LIMIT_KEPT_MS = 600_000

/** The dependencies of every provider that is called over HTTP. */
export type ProviderDeps = {
  clock: Clock
  /** Opens the connections to the server of a URL. Default: `openPool` without options. */
  connect?: (url: string | URL) => Pool
}

export type PoolOptions = {
  /** Default: the system resolves the name again for each connection. */
  resolve?: ResolveHost | undefined
  /** The URL of an http or https proxy. */
  proxy?: string | undefined
  /** Certificate authorities in PEM, which replace the system's list. Not used for the certificate of a proxy. */
  ca?: string | undefined
  /** Monotonic milliseconds. */
  now?: () => number
}

export type SocketWatch = {
  /** Called when the server ends the socket. A paused call must then resume and must not pause again. */
  onEnd: (() => void) | undefined
  /** Set by the connection. Call this function when the call has ended. */
  onFree?: (() => void) | undefined
}

const incomplete = new WeakSet<Error>()

/**
 * Whether a call that failed with this error may be sent once more. This requires a reused connection that died before
 * it received a byte of the response, and before the operating system accepted the whole request. The server received
 * only a part of the request, so it cannot have processed it (RFC 9110 §9.2.2, RFC 9112 §9.3.1).
 */
export const wasIncomplete = (error: Error): boolean => incomplete.has(error)

/** `watch` is mutable, because a connection keeps the watch of its last call. */
export type PooledCall = Dispatcher.DispatchOptions & { watch: SocketWatch }

/**
 * Opens the HTTP/1.1 connections to the server of `url`. The pool lives as long as the provider. Each connection
 * carries one call at a time, because a stream may take minutes. The number of connections is unlimited, because
 * `platform/concurrency/gates.ts` limits the calls. Each call is sent only once; `wasIncomplete` describes the
 * exception.
 *
 * A proxy opens a tunnel to an https server. Requests to an http server are sent to the proxy itself.
 */
export function openPool(
  url: string | URL,
  { resolve, proxy, ca, now = () => performance.now() }: PoolOptions = {},
): Pool {
  const server = new URL(url)
  const toHost = { timeout: PROVIDER_CONNECT_TIMEOUT_MS, ...(resolve && { lookup: lookupWith(resolve) }) }
  const toServer = buildConnector({ ...toHost, ...(ca !== undefined && { ca }) })
  const via = proxy === undefined ? undefined : readProxy(proxy)
  const forward = via && server.protocol === 'http:' ? { origin: server.origin, headers: via.headers } : undefined
  const reuse = new ReuseLimit(now)
  return new Pool(via && forward ? via.origin : server.origin, {
    pipelining: 1,
    allowH2: false,
    maxHeaderSize: PROVIDER_HEAD_BYTES,
    connect: forward ? buildConnector(toHost) : via ? tunnelThrough(via, toHost, toServer) : toServer,
    // If the server names an idle time, undici subtracts 2 seconds from it.
    keepAliveTimeout: PROVIDER_IDLE_CONNECTION_MS,
    keepAliveMaxTimeout: PROVIDER_IDLE_MAX_MS,
    // `stream/silence.ts` limits each call, on the daemon's clock.
    headersTimeout: 0,
    bodyTimeout: 0,
    factory: (origin, options) => new Connection(origin, options as ConnectionOptions, { forward, reuse }),
  })
}

/** For a forwarding proxy: each request contains the full URL of its server (RFC 9112 §3.2.2). */
type Forward = { origin: string; headers: Record<string, string> }

/** The pool passes its `connect` option to each connection. */
type ConnectionOptions = Client.Options & { connect: buildConnector.connector }

/**
 * Works around faults of undici 7 (undici 8 needs Node 22):
 * - If a server closes a connection while its response is paused, undici throws in a socket event. This ends the
 *   process (nodejs/undici#5360). The call is therefore resumed before undici handles the end.
 * - undici treats a connection reset as the normal end of a response without a length. It also fails calls that still
 *   wait for the connection. Every error is therefore passed to undici as recoverable. undici then fails only the call
 *   that was sent.
 */
class Connection extends Client {
  #watch: SocketWatch | undefined
  #socket: Socket | undefined
  /** Whether the socket carried another call before the current call. */
  #isReused = false
  /** The bytes that the socket had received and sent when the current call was dispatched. */
  #before = { read: 0, written: 0 }
  #isFree = true
  #freeAt = 0
  readonly #onFree: () => void
  readonly #forward: Forward | undefined
  readonly #reuse: ReuseLimit

  constructor(
    origin: URL,
    options: ConnectionOptions,
    { forward, reuse }: { forward: Forward | undefined; reuse: ReuseLimit },
  ) {
    super(origin, {
      ...options,
      connect: (to, done) =>
        options.connect(to, (...result) => {
          const [, socket] = result
          if (!socket) return done(...result)
          let code: string | undefined
          this.#socket = socket
          this.#isReused = false
          socket.once('close', () => {
            if (this.#socket === socket) this.#socket = undefined
          })
          socket.on('end', () => this.#watch?.onEnd?.())
          socket.on('error', (error: NodeJS.ErrnoException) => {
            code = error.code
            if (this.#socket === socket) this.#noteDeath(socket, error)
            if (code !== CLOSED_BY_UNDICI) error.code = RECOVERABLE
          })
          // `done` adds undici's own listeners, which read the changed code.
          done(...result)
          socket.on('error', (error: NodeJS.ErrnoException) => {
            if (code === undefined) delete error.code
            else error.code = code
          })
        }),
    })
    this.#forward = forward
    this.#reuse = reuse
    this.#onFree = () => {
      this.#isFree = true
      this.#freeAt = reuse.now()
    }
  }

  override dispatch(call: PooledCall, handler: Dispatcher.DispatchHandler): boolean {
    const socket = this.#socket
    // After this, undici opens another connection for the call.
    if (socket && this.#isFree && !this.#reuse.isAllowed(this.#freeAt)) socket.destroy()
    this.#isReused = socket !== undefined
    this.#before = { read: socket?.bytesRead ?? 0, written: socket?.bytesWritten ?? 0 }
    this.#isFree = false
    this.#watch = call.watch
    call.watch.onFree = this.#onFree
    return super.dispatch(this.#forward ? forwarded(call, this.#forward) : call, handler)
  }

  #noteDeath(socket: Socket, error: NodeJS.ErrnoException): void {
    const { read, written } = this.#before
    if (this.#isFree || !this.#isReused || !CLOSED_BY_SERVER.has(error.code) || socket.bytesRead !== read) return
    const isWriteError = error.syscall === 'write'
    // If no byte of the call was written, undici sends the call on another connection.
    if (!isWriteError && socket.bytesWritten === written) return
    this.#reuse.learn(this.#freeAt)
    if (isWriteError || socket.writableLength > 0) incomplete.add(error)
  }
}

/**
 * The learned idle limit of a server: how long it keeps idle connections, if it names no time. The pool learns the
 * limit when the server closes a reused connection during a call. All connections of a pool share the limit.
 */
class ReuseLimit {
  readonly now: () => number
  #idleMs = Number.POSITIVE_INFINITY
  #knownUntil = Number.NEGATIVE_INFINITY

  constructor(now: () => number) {
    this.now = now
  }

  /** Whether a connection that has been idle since `freeAt` may be reused. */
  isAllowed(freeAt: number): boolean {
    const now = this.now()
    return now >= this.#knownUntil || now - freeAt < this.#idleMs
  }

  /**
   * Call this when the server closes a connection while a call is in flight on it. `freeAt`: since when it had been
   * idle.
   */
  learn(freeAt: number): void {
    const now = this.now()
    const idleMs = now - freeAt - REUSE_MARGIN_MS
    this.#idleMs = now < this.#knownUntil ? Math.min(idleMs, this.#idleMs) : idleMs
    this.#knownUntil = now + REUSE_LIMIT_KEPT_MS
  }
}

const CLOSED_BY_UNDICI = 'UND_ERR_INFO'
const RECOVERABLE = 'UND_ERR_SOCKET'
/** `UND_ERR_SOCKET` is undici's code for a FIN. */
const CLOSED_BY_SERVER: ReadonlySet<string | undefined> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])

const forwarded = (call: PooledCall, { origin, headers }: Forward): PooledCall => ({
  ...call,
  path: origin + call.path,
  headers: [...(call.headers as string[]), 'host', new URL(origin).host, ...Object.entries(headers).flat()],
})

type Proxy = { origin: string; headers: Record<string, string> }

function readProxy(text: string): Proxy {
  const { origin, username, password } = new URL(text)
  const user = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  const headers = user === ':' ? {} : { 'proxy-authorization': `Basic ${Buffer.from(user).toString('base64')}` }
  return { origin, headers }
}

/** Connects to a server through a proxy's tunnel (RFC 9110 §9.3.6). */
function tunnelThrough(
  { origin, headers }: Proxy,
  toProxy: buildConnector.BuildOptions,
  toServer: buildConnector.connector,
): buildConnector.connector {
  return (to, done) => {
    const host = to.hostname.includes(':') ? `[${to.hostname}]` : to.hostname
    const target = `${host}:${to.port || 443}`
    // Uses a separate client, because the tunnel takes over the client's connection.
    const client = new Client(origin, {
      connect: toProxy,
      headersTimeout: PROVIDER_CONNECT_TIMEOUT_MS,
      maxHeaderSize: PROVIDER_HEAD_BYTES,
    })
    client.connect({ path: target, headers: { ...headers, host: target } }).then(
      ({ statusCode, socket }) => {
        if (statusCode >= 200 && statusCode < 300) return toServer({ ...to, httpSocket: socket as Socket }, done)
        socket.on('error', () => {}).destroy()
        done(new ProxyRefusedError(statusCode), null)
      },
      (error) => done(error, null),
    )
  }
}

class ProxyRefusedError extends Error {
  override name = 'ProxyRefusedError'
  readonly code: string

  constructor(status: number) {
    super(`The proxy answered ${status} to CONNECT.`)
    this.code = `PROXY_${status}`
  }
}
