import { type buildConnector, Client, type Dispatcher, Pool } from 'undici'

/** Maximum size of all headers of one response. */
export const PROVIDER_HEAD_BYTES = 32_768
export const PROVIDER_CONNECT_TIMEOUT_MS = 10_000
/**
 * How long an idle connection is kept, unless the server requests a shorter time. Many servers close idle connections
 * after 5 seconds.
 */
export const PROVIDER_IDLE_CONNECTION_MS = 4_000

/** `onEnd` is called when the server ends the socket. A paused call must then resume and must not pause again. */
export type SocketWatch = { onEnd: (() => void) | undefined }

/** `watch` is mutable, because a connection keeps the watch of its last call. */
export type PooledCall = Dispatcher.DispatchOptions & { watch: SocketWatch }

/**
 * Opens the HTTP/1.1 connections to the server of `url`. The pool lives as long as the provider. Each connection
 * carries one call at a time, because a stream may take minutes. The number of connections is unlimited, because
 * `platform/concurrency/gates.ts` limits the calls. A call is sent once and never retried here.
 */
export function openPool(url: string | URL): Pool {
  return new Pool(new URL(url).origin, {
    pipelining: 1,
    allowH2: false,
    maxHeaderSize: PROVIDER_HEAD_BYTES,
    connect: { timeout: PROVIDER_CONNECT_TIMEOUT_MS },
    // The limit is short, because a server may close an idle connection without notice, even before the announced time.
    keepAliveTimeout: PROVIDER_IDLE_CONNECTION_MS,
    keepAliveMaxTimeout: PROVIDER_IDLE_CONNECTION_MS,
    // undici's timeouts are off, because `stream/silence.ts` limits each call on the daemon's clock.
    headersTimeout: 0,
    bodyTimeout: 0,
    factory: (origin, options) => new Connection(origin, options as ConnectionOptions),
  })
}

/** The pool replaces the `connect` options with a connector. */
type ConnectionOptions = Client.Options & { connect: buildConnector.connector }

/**
 * Works around faults of undici 7 (undici 8 needs Node 22):
 * - If a server closes a connection while its response is paused, undici throws in a socket event. This ends the
 *   process (nodejs/undici#5360). So the call is resumed before undici handles the end.
 * - undici treats a connection reset as the normal end of a response without a length. It also fails calls that still
 *   wait for the connection. So every error is passed to undici as recoverable. undici then fails only the call that
 *   was sent.
 */
class Connection extends Client {
  #watch: SocketWatch | undefined

  constructor(origin: URL, options: ConnectionOptions) {
    super(origin, {
      ...options,
      connect: (to, done) =>
        options.connect(to, (...result) => {
          const [, socket] = result
          if (!socket) return done(...result)
          let code: string | undefined
          socket.on('end', () => this.#watch?.onEnd?.())
          socket.on('error', (error: NodeJS.ErrnoException) => {
            code = error.code
            if (code !== CLOSED_BY_UNDICI) error.code = RECOVERABLE
          })
          // This call adds undici's own listeners. These listeners read the changed code.
          done(...result)
          socket.on('error', (error: NodeJS.ErrnoException) => {
            if (code === undefined) delete error.code
            else error.code = code
          })
        }),
    })
  }

  override dispatch(call: PooledCall, handler: Dispatcher.DispatchHandler): boolean {
    this.#watch = call.watch
    return super.dispatch(call, handler)
  }
}

const CLOSED_BY_UNDICI = 'UND_ERR_INFO'
const RECOVERABLE = 'UND_ERR_SOCKET'
