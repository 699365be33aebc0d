import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { GatewayError } from '../../shared/errors.ts'
import { newRequestId } from '../../shared/ids.ts'
import {
  CONNECTIONS_CHECK_MS,
  HEADER_BYTES,
  HEADERS_TIMEOUT_MS,
  KEEP_ALIVE_TIMEOUT_MS,
  UPLOAD_IDLE_MS,
  UPLOAD_TIMEOUT_MS,
} from '../../shared/spec-limits.ts'
import type { Clock } from '../../shared/time.ts'
import type { Caller } from '../keys/caller.ts'
import type { Log } from '../log.ts'
import { discardBody, parseBody, parseQuery, readBody, requireJson } from './body.ts'
import { toErrorReply } from './error-response.ts'
import { checkRequestHead } from './request-head.ts'
import type { ErrorShape, Reply, RequestContext, Route } from './route.ts'
import { createRouter, type Router } from './router.ts'
import { type EventStream, openEventStream } from './sse.ts'

/** Connection limits in milliseconds; tests shorten them. */
export type ConnectionLimits = { headersTimeoutMs: number; keepAliveTimeoutMs: number; checkEveryMs: number }

export type HttpServerOptions = {
  routes: readonly Route[]
  /** @throws UNAUTHORIZED */
  authenticate(authorization: string | undefined): Caller | Promise<Caller>
  clock: Clock
  log: Log
  listen: { host: string; port: number }
  limits?: Partial<ConnectionLimits>
}

export type HttpServer = {
  /** The bound address, for example `http://127.0.0.1:8787`. */
  url: string
  isDraining(): boolean
  /**
   * Refuses new work with 503, waits up to `timeoutMs` for what runs, aborts the rest (streams get an error frame), and
   * resolves when no request is left.
   */
  drain(timeoutMs: number): Promise<void>
  /** Closes the listener and every connection. */
  close(): Promise<void>
}

/** Why a request's signal was aborted. */
export class RequestAborted extends Error {
  override name = 'RequestAborted'
  readonly by: 'client' | 'shutdown'
  constructor(by: 'client' | 'shutdown') {
    super(by === 'client' ? 'the client went away' : 'the gateway is shutting down')
    this.by = by
  }
}

/** Listens; resolves when connections are accepted. @throws the error of `listen` (EADDRINUSE, EACCES …). */
export async function startHttpServer(options: HttpServerOptions): Promise<HttpServer> {
  const { clock, limits = {} } = options
  const edge = new Edge(options, createRouter(options.routes))
  const server = createServer(
    {
      maxHeaderSize: HEADER_BYTES,
      headersTimeout: limits.headersTimeoutMs ?? HEADERS_TIMEOUT_MS,
      // The backstop for uploads; other bodies have REQUEST_TIMEOUT_MS, kept by readBody.
      requestTimeout: UPLOAD_TIMEOUT_MS,
      keepAliveTimeout: limits.keepAliveTimeoutMs ?? KEEP_ALIVE_TIMEOUT_MS,
      // Node looks for late connections this seldom; its default of 30 s would let the limits above fire far too late.
      connectionsCheckingInterval: limits.checkEveryMs ?? CONNECTIONS_CHECK_MS,
      requireHostHeader: false,
    },
    (request, response) => void edge.handle(request, response),
  )
  // Counted by checkRequestHead; Node would drop the headers above its own limit without a word.
  server.maxHeadersCount = 0
  server.on('checkContinue', (request, response) => void edge.handle(request, response, true))
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => edge.refuseConnection(error, socket))
  await listen(server, options.listen)
  const { address, family, port } = server.address() as AddressInfo
  return {
    url: `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`,
    isDraining: () => edge.draining,
    drain: (timeoutMs) => edge.drain(timeoutMs, clock),
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

/** Answers that are on their way may still be flushed; what is left after a second is cut. */
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

/** What all requests share: the route table, who is running, and whether we still take work. */
class Edge {
  draining = false
  readonly #options: HttpServerOptions
  readonly #router: Router
  readonly #running = new RunningExchanges()
  readonly #connections = new WeakMap<Socket, AbortController>()
  #onIdle: (() => void) | undefined

  constructor(options: HttpServerOptions, router: Router) {
    this.#options = options
    this.#router = router
  }

  async handle(request: IncomingMessage, response: ServerResponse, awaitsContinue = false): Promise<void> {
    const exchange = new Exchange(request, response, this.#connectionOf(request.socket), awaitsContinue)
    this.#running.add(exchange)
    let shape: ErrorShape = 'flat'
    try {
      const { path, search } = checkRequestHead(request)
      shape = this.#router.shapeOf(path)
      const { route, params } = this.#router.match(request.method ?? '', path)
      shape = route.errors
      if (this.draining && route.access !== 'none') throw shuttingDown()
      const answer = await this.#run(route, params, search, exchange)
      if (answer) await this.#send(exchange, answer)
    } catch (error) {
      await this.#fail(exchange, error, shape)
    } finally {
      this.#running.remove(exchange)
      if (this.#running.count === 0) this.#onIdle?.()
    }
  }

  /**
   * What is aborted when the client goes away. One for the connection: it carries one request after another, and a new
   * AbortController for each would cost more than their authentication.
   */
  #connectionOf(socket: Socket): AbortController {
    const known = this.#connections.get(socket)
    if (known) return known
    const connection = new AbortController()
    this.#connections.set(socket, connection)
    socket.once('close', () => connection.abort(new RequestAborted('client')))
    return connection
  }

  /** Rights, body, handler: in the order of architecture §8. */
  async #run(route: Route, params: Record<string, string>, search: string, exchange: Exchange) {
    const { request } = exchange
    if (route.access !== 'none') {
      exchange.caller = await this.#options.authenticate(request.headers.authorization)
      checkRights(route, exchange.caller)
    }
    exchange.params = params
    if (route.query) exchange.query = parseQuery(search, route.query)
    if (route.body && route.bodyLimit !== 'unread') {
      requireJson(request)
      exchange.continueBody()
      exchange.rawBody = await readBody(request, route.bodyLimit, this.#options.clock)
      exchange.body = parseBody(exchange.rawBody, route.body)
    } else if (route.bodyLimit === 'unread') {
      exchange.continueBody()
      request.setTimeout(UPLOAD_IDLE_MS, () => request.destroy())
    }
    return route.handle(exchange)
  }

  async #send(exchange: Exchange, { status, body, headers }: Reply): Promise<void> {
    const { request, response } = exchange
    if (response.headersSent || response.destroyed) return
    const text = typeof body === 'string' ? body : JSON.stringify(body)
    // What is left of a refused body must be read first: closing on unread bytes resets the connection, and the client
    // may never see the answer.
    const reusable = request.complete || (!exchange.bodyHeldBack && (await discardBody(request, this.#options.clock)))
    const sent: Record<string, string | number> = {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(text),
      'x-request-id': exchange.requestId,
    }
    if (!reusable || this.draining) sent.connection = 'close'
    if (headers !== undefined) Object.assign(sent, headers)
    response.writeHead(status, sent)
    response.end(text)
  }

  async #fail(exchange: Exchange, error: unknown, shape: ErrorShape): Promise<void> {
    const { requestId, response } = exchange
    const { log } = this.#options
    if (error instanceof RequestAborted && error.by === 'client') {
      response.destroy()
      return
    }
    const known = error instanceof RequestAborted ? shuttingDown() : error
    const answer = toErrorReply(known, shape, requestId, (bug) =>
      log.error(
        { err: bug, request_id: requestId, route: `${exchange.request.method} ${exchange.request.url}` },
        'bug',
      ),
    )
    // A stream that broke for a reason its handler did not foresee: ending it without [DONE] says it is not complete.
    if (!response.headersSent) await this.#send(exchange, answer)
    else if (!response.writableEnded) response.destroy()
  }

  /** Bytes that are no HTTP request, headers that are too large or too slow. */
  refuseConnection(error: NodeJS.ErrnoException, socket: Socket): void {
    const running = this.#running.find(({ request }) => request.socket === socket)?.response
    const midAnswer = running?.headersSent && !running.writableFinished
    if (error.code === 'ECONNRESET' || !socket.writable || midAnswer) {
      socket.destroy()
      return
    }
    const requestId = newRequestId(this.#options.clock.now())
    const { status, body } = toErrorReply(connectionFault(error), 'flat', requestId, () => {})
    const text = JSON.stringify(body)
    socket.end(
      `HTTP/1.1 ${status} ${STATUS_TEXT[status]}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\n` +
        `x-request-id: ${requestId}\r\nconnection: close\r\n\r\n${text}`,
      () => socket.destroy(),
    )
  }

  async drain(timeoutMs: number, clock: Clock): Promise<void> {
    this.draining = true
    if (this.#running.count === 0) return
    const idle = new Promise<void>((resolve) => {
      this.#onIdle = resolve
    })
    const deadline = clock.after(timeoutMs, () => {
      for (const exchange of this.#running.all()) exchange.abort(new RequestAborted('shutdown'))
    })
    await idle
    deadline.cancel()
  }
}

const STATUS_TEXT: Record<number, string> = {
  400: 'Bad Request',
  408: 'Request Timeout',
  431: 'Request Header Fields Too Large',
}

function connectionFault(error: NodeJS.ErrnoException): GatewayError {
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW':
      return new GatewayError('HEADERS_TOO_LARGE', `The headers may have at most ${HEADER_BYTES} bytes.`)
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new GatewayError('REQUEST_TIMEOUT', 'The request did not arrive in time; send it again.')
    default:
      return new GatewayError('INVALID_HTTP', 'This is not a well-formed HTTP/1.1 request.')
  }
}

const shuttingDown = () =>
  new GatewayError('OVERLOADED', 'The gateway is shutting down; try again in a moment.', { retryAfterSeconds: 2 })

function checkRights(route: Route, caller: Caller): void {
  if (route.access === 'admin' && !caller.isAdmin) {
    throw new GatewayError('INSUFFICIENT_PERMISSIONS', 'This needs a key with administrator privileges.')
  }
  if (route.access === 'operator' && !caller.isOperator) {
    throw new GatewayError('INSUFFICIENT_PERMISSIONS', 'This needs the operator key of this installation.')
  }
}

const ignore = () => {}

const NOBODY: Caller = Object.freeze({
  tenantId: '',
  keyId: '',
  keyName: '',
  userId: '',
  userRole: '',
  isAdmin: false,
  isOperator: false,
})

/**
 * The requests that run. A Set would do, were it not for V8: each time it grows or shrinks, its old table keeps pointing at
 * the new one, and through such chains dead requests survive the young generation (measured: a third of all CPU).
 */
class RunningExchanges {
  readonly #list: Exchange[] = []

  get count(): number {
    return this.#list.length
  }

  add(exchange: Exchange): void {
    exchange.slot = this.#list.push(exchange) - 1
  }

  remove({ slot }: Exchange): void {
    const last = this.#list.pop() as Exchange
    if (last.slot === slot) return
    this.#list[slot] = last
    last.slot = slot
  }

  find(test: (exchange: Exchange) => boolean): Exchange | undefined {
    return this.#list.find(test)
  }

  all(): readonly Exchange[] {
    return [...this.#list]
  }
}

/** One request and its answer: what the handler is given, and whether the client is still there. */
class Exchange implements RequestContext {
  readonly requestId = newRequestId()
  /** Its place among the running ones. */
  slot = -1
  readonly request: IncomingMessage
  readonly response: ServerResponse
  caller: Caller = NOBODY
  params: Record<string, string> = {}
  query: unknown
  body: unknown
  rawBody: Buffer | undefined
  /** The client sent `Expect: 100-continue` and has not been told to go on. */
  bodyHeldBack: boolean
  readonly #connection: AbortController

  constructor(request: IncomingMessage, response: ServerResponse, connection: AbortController, bodyHeldBack: boolean) {
    this.request = request
    this.response = response
    this.#connection = connection
    this.bodyHeldBack = bodyHeldBack
    // A socket that breaks is seen through its 'close'; without a listener the 'error' would end the process.
    response.on('error', ignore)
    request.on('error', ignore)
  }

  get signal(): AbortSignal {
    return this.#connection.signal
  }

  abort(reason: RequestAborted): void {
    this.#connection.abort(reason)
  }

  continueBody(): void {
    if (!this.bodyHeldBack) return
    this.bodyHeldBack = false
    this.response.writeContinue()
  }

  openStream(headers: Record<string, string> = {}): EventStream {
    return openEventStream(this.response, { 'x-request-id': this.requestId, ...headers })
  }
}
