import { createServer, type Server } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { GatewayError } from '../../../shared/errors.ts'
import { HEADER_BYTES, SOCKET_QUIET_MS, UPLOAD_TIMEOUT_MS } from '../../../shared/spec-limits.ts'
import type { Clock } from '../../../shared/time.ts'
import { Edge, type EdgeOptions, type Serving } from './edge.ts'
import { refuseOnSocket } from './raw-refusal.ts'
import type { Route } from './route.ts'
import { createRouter } from './router.ts'

const HEADERS_TIMEOUT_MS = 10_000
/** How long an idle client connection stays open. */
const KEEP_ALIVE_TIMEOUT_MS = 72_000
/** The interval at which node:http checks its timeouts. */
const CONNECTIONS_CHECK_MS = 1_000

/** Connection limits; times are in milliseconds. Tests shorten them. */
export type ConnectionLimits = {
  runningMax: number
  headersTimeoutMs: number
  keepAliveTimeoutMs: number
  quietMs: number
  checkEveryMs: number
}

export type HttpServerOptions = Omit<EdgeOptions, 'runningMax'> &
  ServedRoutes & {
    listen: { host: string; port: number }
    limits?: Partial<ConnectionLimits>
  }

/** What a reload of the configuration replaces. */
export type ServedRoutes = Omit<Serving, 'router'> & { routes: readonly Route[] }

export type HttpServer = {
  /** The bound address, for example `http://127.0.0.1:8787`. */
  url: string
  /** Serves these routes from the next request on. Running requests keep the route that they began with. */
  serve(served: ServedRoutes): void
  isDraining(): boolean
  /** The number of requests that run now. */
  running(): number
  /** The number of open connections of clients. */
  connections(): Promise<number>
  /**
   * Rejects new requests with 503, and waits up to `timeoutMs` for running requests. Then aborts the remaining requests
   * (streams get an error frame) and waits briefly until they end.
   */
  drain(timeoutMs: number): Promise<void>
  /** Closes the listener and every connection. */
  close(): Promise<void>
}

/** The HTTP server as a handle for modules that open before it listens. */
export type Http = {
  /** The port; undefined until the server listens. */
  port(): number | undefined
  isDraining(): boolean
  /** 0 until the server listens. */
  running(): number
  /** 0 until the server listens. */
  connections(): Promise<number>
  /** See `startHttpServer`. Call it once. */
  listen(options: HttpServerOptions): Promise<HttpServer>
}

export function createHttp(): Http {
  let server: HttpServer | undefined
  return {
    port: () => (server ? Number(new URL(server.url).port) : undefined),
    isDraining: () => server?.isDraining() ?? false,
    running: () => server?.running() ?? 0,
    connections: () => server?.connections() ?? Promise.resolve(0),
    async listen(options) {
      server = await startHttpServer(options)
      return server
    },
  }
}

/** Starts listening; resolves when connections are accepted. @throws errors of `listen` (EADDRINUSE, EACCES …). */
export async function startHttpServer({
  routes,
  modelRequestsPerTenant,
  cors,
  observers,
  listen: where,
  limits = {},
  ...options
}: HttpServerOptions): Promise<HttpServer> {
  const { clock } = options
  const served = { router: createRouter(routes), modelRequestsPerTenant, cors, observers }
  const edge = new Edge({ ...options, runningMax: limits.runningMax }, served)
  const server = createServer(
    {
      maxHeaderSize: HEADER_BYTES,
      headersTimeout: limits.headersTimeoutMs ?? HEADERS_TIMEOUT_MS,
      // This limit is meant for uploads. For other bodies, readBody enforces REQUEST_TIMEOUT_MS.
      requestTimeout: UPLOAD_TIMEOUT_MS,
      keepAliveTimeout: limits.keepAliveTimeoutMs ?? KEEP_ALIVE_TIMEOUT_MS,
      // How often Node checks connections for timeouts. The default of 30 s would apply the timeouts above far too
      // late.
      connectionsCheckingInterval: limits.checkEveryMs ?? CONNECTIONS_CHECK_MS,
      requireHostHeader: false,
    },
    (request, response) => void edge.handle(request, response, 'nothing'),
  )
  // 0 disables Node's limit, because checkRequestHead counts the headers. Node would silently drop headers above its
  // own limit.
  server.maxHeadersCount = 0
  server.setTimeout(limits.quietMs ?? SOCKET_QUIET_MS, (socket) => edge.onQuietSocket(socket))
  server.on('checkContinue', (request, response) => void edge.handle(request, response, '100-continue'))
  server.on('checkExpectation', (request, response) => void edge.handle(request, response, 'something unknown'))
  server.on('connect', (_request, socket) => refuseOnSocket(socket, noTunnel(), clock.now()))
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => edge.onClientError(error, socket as Socket))
  await listen(server, where)
  const { address, family, port } = server.address() as AddressInfo
  return {
    url: `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`,
    serve: ({ routes, ...served }) => edge.serve({ ...served, router: createRouter(routes) }),
    isDraining: () => edge.draining,
    running: () => edge.running,
    connections: () => new Promise((resolve) => server.getConnections((error, count) => resolve(error ? 0 : count))),
    drain: (timeoutMs) => edge.drain(timeoutMs),
    close: () => close(server, clock),
  }
}

function listen(server: Server, { host, port }: { host: string; port: number }): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host, port, backlog: 4096 }, () => {
      server.off('error', reject)
      resolve()
    })
  })
}

/** Responses in flight may still be flushed; after a second, all remaining connections are closed. */
function close(server: Server, clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    const cut = clock.after(1000, () => server.closeAllConnections())
    server.close(() => {
      cut.cancel()
      resolve()
    })
    server.closeIdleConnections()
  })
}

const noTunnel = () =>
  new GatewayError('METHOD_NOT_ALLOWED', 'CONNECT is not supported, because this server is not a proxy.')
