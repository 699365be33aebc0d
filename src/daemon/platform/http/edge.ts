// Processes every HTTP request in order: head, route, key, rate, rights, body, handler, response. The file is long
// because it contains this whole sequence.
import { hash } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { z } from 'zod'
import { GatewayError } from '../../../shared/errors.ts'
import { JSON_DEPTH } from '../../../shared/spec-limits.ts'
import type { Clock } from '../../../shared/time.ts'
import { isStoreFailure } from '../db/store-failure.ts'
import type { Log } from '../log.ts'
import { LARGE_JSON_BYTES } from '../text/json-reader.ts'
import { hashing, piecesOf } from '../text/json-writer.ts'
import { requireAccess } from './access.ts'
import type { Limiter } from './admission.ts'
import {
  checkAgainst,
  DISCARD_BYTES,
  discardBody,
  parseBody,
  parseQuery,
  parsingBody,
  readBody,
  requireJson,
} from './body.ts'
import { BodyMemory, type BodyShare, defaultBodyMemory } from './body-memory.ts'
import { type Caller, NOBODY } from './caller.ts'
import { CooperativeQueue } from './cooperative-queue.ts'
import type { Cors } from './cors.ts'
import { shuttingDown, toErrorReply } from './error-response.ts'
import { BUNDLE_ID_HEADER, Exchange, RunningExchanges } from './exchange.ts'
import { takeKeyFromAddress } from './key-in-address.ts'
import { connectionFault, refuseOnSocket } from './raw-refusal.ts'
import { RequestAborted } from './request-aborted.ts'
import { checkRequestHead, type Target } from './request-head.ts'
import { endOf, type RequestObserver } from './request-observer.ts'
import { type ErrorShape, endpointOf, type RateClass, type Reply, type Route } from './route.ts'
import type { Router } from './router.ts'
import { TenantShares } from './tenant-shares.ts'

/** Maximum number of concurrent requests; further requests get 503. */
const RUNNING_REQUESTS = 10_000
/** This share of the concurrent requests is reserved for routes that call no model, such as administration. */
const RESERVED_SHARE = 0.1
/** Maximum number of concurrent requests of one tenant to routes that call no model: half of the reserve. */
const TENANT_OTHER_REQUESTS = 500
/** A large body is hashed in parts of this size. */
const HASHED_BYTES = 262_144
/** Maximum time that aborted requests may take to end after the drain timeout. */
const DRAIN_ABORT_MS = 1_000

/** What a reload of the configuration replaces. */
export type Serving = {
  router: Router
  /** Maximum number of concurrent requests of one tenant to routes that call models; default: unlimited. */
  modelRequestsPerTenant?: number | undefined
  /** Undefined: web pages of other origins cannot read responses. */
  cors?: Cors | undefined
  /** Count, trace and log the requests. A request keeps those that it began with. */
  observers?: readonly RequestObserver[] | undefined
}

export type EdgeOptions = {
  /** @throws UNAUTHORIZED */
  authenticate(request: IncomingMessage): Caller | Promise<Caller>
  limiter: Limiter
  clock: Clock
  log: Log
  /** Maximum number of concurrent requests; default RUNNING_REQUESTS. */
  runningMax?: number | undefined
  /** Limits the memory of all request bodies; default `defaultBodyMemory`. */
  bodies?: BodyMemory
}

/**
 * Handles a parsed request until its response is sent, with a fixed order of checks. Also tracks running requests and
 * shutdown.
 */
export class Edge {
  draining = false
  readonly #options: EdgeOptions
  readonly #bodies: BodyMemory
  readonly #largeBodies = new CooperativeQueue()
  readonly #running = new RunningExchanges()
  readonly #shares: Record<'models' | 'other', TenantShares>
  #serving: Serving
  #modelRequests = 0
  /** Rejected requests whose response is sent and whose body is being discarded. They take no capacity. */
  #discarding = 0
  readonly #connections = new WeakMap<Socket, AbortController>()
  /** Connections whose request head was rejected. Node may have parsed further requests from the same bytes. */
  readonly #ending = new WeakSet<Socket>()
  readonly #shutdown = new AbortController()
  #onIdle: (() => void) | undefined

  constructor(options: EdgeOptions, serving: Serving) {
    this.#options = options
    this.#serving = serving
    this.#bodies = options.bodies ?? new BodyMemory(defaultBodyMemory())
    this.#shares = {
      models: new TenantShares(serving.modelRequestsPerTenant ?? Infinity),
      other: new TenantShares(TENANT_OTHER_REQUESTS),
    }
    // Every running request may add a listener, and above ten listeners Node would warn of a leak.
    setMaxListeners(0, this.#shutdown.signal)
  }

  /** Applies to all requests that begin from now on. */
  serve(served: Serving): void {
    const { modelRequestsPerTenant } = this.#serving
    this.#serving = served
    // Running requests leave the count that they entered.
    if (served.modelRequestsPerTenant !== modelRequestsPerTenant)
      this.#shares.models = new TenantShares(served.modelRequestsPerTenant ?? Infinity)
  }

  async handle(
    request: IncomingMessage,
    response: ServerResponse,
    expects: 'nothing' | '100-continue' | 'something unknown',
  ): Promise<void> {
    if (this.#ending.has(request.socket)) return
    const connection = this.#connectionOf(request.socket)
    const exchange = new Exchange(request, response, connection, {
      bodyHeldBack: expects !== 'nothing',
      nowMs: this.#options.clock.now(),
      startedMs: this.#options.clock.monotonic(),
      shutdown: this.#shutdown.signal,
    })
    this.#running.add(exchange)
    const { router, cors, observers = NO_OBSERVERS } = this.#serving
    for (const observer of observers) observer.began?.(exchange)
    if (cors) exchange.corsHeaders = cors.headersFor(request)
    const method = request.method ?? ''
    let shape: ErrorShape | undefined
    try {
      const { path, search: given } = this.#checkHead(exchange)
      const preflight = cors?.preflight(request)
      if (preflight) {
        this.#answerPreflight(exchange, preflight)
        return
      }
      const { route, params } = router.match(method, path)
      exchange.route = route
      shape = route.errors
      const search = route.takesKeyInAddress ? takeKeyFromAddress(request, path, given) : given
      if (expects === 'something unknown') throw unknownExpectation()
      if (route.access !== 'none') this.#refuseWhenBusy(route)
      exchange.callsModels = route.callsModels === true
      if (exchange.callsModels) this.#modelRequests += 1
      exchange.params = params
      exchange.endpoint = endpointOf(route)
      exchange.access = route.access
      const answer = await this.#run(route, search, exchange)
      if (answer) await this.#send(exchange, answer)
    } catch (error) {
      // The rest of a rejected body is discarded as it arrives.
      exchange.bodyShare?.release()
      await this.#fail(exchange, error, shape ?? router.shapeOf(method, pathIn(request.url)))
    } finally {
      exchange.bodyShare?.release()
      exchange.tenantShare?.leave(exchange.caller.tenantId)
      this.#endModelRequest(exchange)
      this.#running.remove(exchange)
      if (observers.length > 0) this.#observe(exchange, observers)
      if (this.#running.count === 0) this.#onIdle?.()
    }
  }

  #observe(exchange: Exchange, observers: readonly RequestObserver[]): void {
    const { clock, log } = this.#options
    try {
      const end = endOf(exchange, clock.monotonic())
      for (const observer of observers) observer.ended(exchange, end)
    } catch (error) {
      log.error({ error, request_id: exchange.requestId }, 'a request could not be counted')
    }
  }

  /** The number of requests that run now. */
  get running(): number {
    return this.#running.count
  }

  #checkHead(exchange: Exchange): Target {
    try {
      return checkRequestHead(exchange.request)
    } catch (error) {
      exchange.isLast = true
      this.#ending.add(exchange.request.socket)
      throw error
    }
  }

  /** Probes are always handled. Other requests are handled only while capacity is free. */
  #refuseWhenBusy({ callsModels }: Route): void {
    if (this.draining) throw shuttingDown()
    const { runningMax = RUNNING_REQUESTS } = this.#options
    const modelsMax = runningMax - Math.floor(runningMax * RESERVED_SHARE)
    const running = this.#running.count - this.#discarding
    if (running <= runningMax && !(callsModels && this.#modelRequests >= modelsMax)) return
    throw new GatewayError('OVERLOADED', 'Too many requests are running. Retry in a moment.', {
      retryAfterSeconds: 1,
    })
  }

  /**
   * Returns the controller that is aborted when the client disconnects. Requests on one connection are sequential and
   * share it: creating an AbortController for each request would cost more than authenticating the request.
   */
  #connectionOf(socket: Socket): AbortController {
    const known = this.#connections.get(socket)
    if (known) return known
    const connection = new AbortController()
    this.#connections.set(socket, connection)
    socket.once('close', () => connection.abort(new RequestAborted('client')))
    return connection
  }

  async #run(route: Route, search: string, exchange: Exchange): Promise<Reply | undefined> {
    if (route.access === 'none') return this.#handOver(route, search, exchange)
    const { authenticate, limiter } = this.#options
    exchange.caller = await authenticate(exchange.request)
    this.#enterShare(route, exchange)
    const admission = await limiter.admit(exchange.caller, ratedRoute(route, exchange.request))
    exchange.admission = admission
    if (admission.refusal) throw admission.refusal
    try {
      requireAccess(exchange.caller, route.access, route.method)
      return await this.#handOver(route, search, exchange)
    } finally {
      // The request counts regardless of its response status, and the counter is durable before the response is sent.
      await admission.finish()
    }
  }

  /** @throws OVERLOADED if the tenant has too many requests of this kind. The operator is exempt. */
  #enterShare({ callsModels }: Route, exchange: Exchange): void {
    const { tenantId, isOperator } = exchange.caller
    if (isOperator) return
    const share = callsModels ? this.#shares.models : this.#shares.other
    share.enter(tenantId)
    exchange.tenantShare = share
  }

  async #handOver(route: Route, search: string, exchange: Exchange): Promise<Reply | undefined> {
    if (route.query) exchange.query = queryOf(route, route.query, search)
    if (route.bodyLimit === 'unread') exchange.continueBody()
    else if (route.body) await this.#readBody(route, route.bodyLimit, route.body, exchange)
    return route.handle(exchange)
  }

  /**
   * This is a separate function, so that the raw bytes can be freed while the handler runs. A streaming handler would
   * retain the bytes for minutes.
   */
  async #readBody(route: Route, limit: number, schema: z.ZodType, exchange: Exchange): Promise<void> {
    const { request, signal, caller } = exchange
    if (!route.bodyOptional) requireJson(request)
    const bodyShare = this.#bodies.open(caller.tenantId)
    exchange.bodyShare = bodyShare
    const proceed = () => exchange.continueBody()
    const { bodyBytes, jsonDepth } = limitsOf(route, limit, caller)
    const raw = await readBody(request, bodyBytes, this.#options.clock, signal, bodyShare, proceed)
    if (route.bodyOptional && raw.length === 0) exchange.body = checkAgainst(schema, {})
    else {
      if (route.bodyOptional) requireJson(request)
      if (raw.length > LARGE_JSON_BYTES)
        return this.#readLarge(raw, { ...route, jsonDepth }, schema, exchange, bodyShare)
      exchange.body = parseBody(raw, schema, bodyShare, jsonDepth)
    }
    if (route.hashesBody) exchange.bodySha256 = hash('sha256', raw, 'hex')
  }

  /** Most bodies are small. Large bodies are parsed one at a time, in steps that yield to other requests. */
  async #readLarge(
    raw: Buffer,
    { jsonDepth, hashesBody }: Route,
    schema: z.ZodType,
    exchange: Exchange,
    share: BodyShare,
  ): Promise<void> {
    const { signal } = exchange
    exchange.isLarge = true
    if (hashesBody) {
      const sha256 = await this.#largeBodies.run(hashing(partsOf(raw)), signal)
      exchange.bodySha256 = sha256.digest('hex')
    }
    exchange.body = await this.#largeBodies.run(parsingBody(raw, schema, share, jsonDepth), signal)
    // The handler begins in a turn of its own.
    await new Promise(setImmediate)
  }

  async #send(exchange: Exchange, { status, body, headers }: Reply): Promise<void> {
    const { request, response, bodyHeldBack, admission, isLast } = exchange
    if (response.headersSent || response.destroyed) return
    const text = typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body)
    const sent: Record<string, string | number> = {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(text),
      'x-request-id': exchange.requestId,
    }
    // An early rejection may happen before Node has parsed the rest of the packet that contains the request.
    if (!request.complete) await new Promise(setImmediate)
    if (!request.complete || this.draining || isLast) sent.connection = 'close'
    if (exchange.corsHeaders !== undefined) Object.assign(sent, exchange.corsHeaders)
    if (exchange.bundleId !== undefined) sent[BUNDLE_ID_HEADER] = exchange.bundleId
    if (admission !== undefined) Object.assign(sent, admission.headers)
    if (headers !== undefined) Object.assign(sent, headers)
    response.writeHead(status, sent)
    const isLarge = typeof text === 'string' && text.length > LARGE_JSON_BYTES
    const rest = isLarge ? await writeInPieces(response, text) : text
    if (request.complete || bodyHeldBack || this.draining) {
      response.end(rest)
      return
    }
    // The response is sent immediately, and the connection stays open for a moment. Closing a connection with unread
    // bytes would reset it, and the client might miss the response.
    response.write(rest)
    const kind = exchange.caller === NOBODY ? 'unknown' : 'known'
    this.#endModelRequest(exchange)
    this.#discarding += 1
    await discardBody(request, this.#options.clock, DISCARD_BYTES[kind])
    this.#discarding -= 1
    response.end()
  }

  /** A browser sends a preflight without a key. Its answer says nothing about the path. */
  #answerPreflight({ request, response, requestId, corsHeaders }: Exchange, headers: Record<string, string>): void {
    response.writeHead(204, {
      'x-request-id': requestId,
      ...corsHeaders,
      ...headers,
      ...((!request.complete || this.draining) && { connection: 'close' }),
    })
    response.end()
  }

  #endModelRequest(exchange: Exchange): void {
    if (exchange.callsModels) this.#modelRequests -= 1
    exchange.callsModels = false
  }

  async #fail(exchange: Exchange, error: unknown, shape: ErrorShape): Promise<void> {
    const { requestId, request, response } = exchange
    exchange.failure = failureOf(error)
    if (error instanceof RequestAborted && error.by === 'client') {
      response.destroy()
      return
    }
    // Without the query, which may contain an API key.
    const facts = { error, request_id: requestId, route: `${request.method} ${request.url?.split('?', 1)[0]}` }
    const answer = toErrorReply(error, shape, exchange, () => {
      this.#options.log.error(facts, 'a request failed with an unexpected error')
    })
    if (isStoreFailure(error)) this.#options.log.warn(facts, 'a request failed because the store is unavailable')
    if (!response.headersSent) await this.#send(exchange, answer)
    // A bug ended the stream. `[DONE]` is missing, so clients recognise the stream as incomplete.
    else if (!response.writableEnded) response.destroy()
  }

  /** Handles malformed HTTP, headers that are too large or too slow, and incomplete bodies. */
  onClientError(error: NodeJS.ErrnoException, socket: Socket): void {
    const running = this.#runningOn(socket)
    if (error.code === 'ECONNRESET' || !socket.writable || running?.response.headersSent === true) socket.destroy()
    else if (running?.request.complete) this.#closeAfter(running, socket)
    else refuseOnSocket(socket, connectionFault(error), this.#options.clock.now(), this.#shapeFor(running, error))
  }

  /** The shape that the client expects, as far as its path is known. */
  #shapeFor(running: Exchange | undefined, { rawPacket }: NodeJS.ErrnoException & { rawPacket?: Buffer }): ErrorShape {
    const { router } = this.#serving
    if (running) return router.shapeOf(running.request.method ?? '', pathIn(running.request.url))
    const [, method = '', target] = REQUEST_LINE.exec(rawPacket?.toString('latin1', 0, REQUEST_LINE_BYTES) ?? '') ?? []
    return router.shapeOf(method, pathIn(target))
  }

  /** Invalid bytes followed a valid request: the request gets its response, and then the connection closes. */
  #closeAfter({ response }: Exchange, socket: Socket): void {
    response.shouldKeepAlive = false
    response.once('finish', () => socket.destroySoon())
  }

  /**
   * Called when the connection has been idle for SOCKET_QUIET_MS. Idle time is normal while an upstream works. The
   * connection is closed if the client has stopped reading its response, has stopped sending its body, or has no
   * request.
   */
  onQuietSocket(socket: Socket): void {
    const running = this.#runningOn(socket)
    const isOurTurn = running?.request.complete === true && socket.writableLength === 0
    if (!isOurTurn) socket.destroy()
  }

  #runningOn(socket: Socket): Exchange | undefined {
    return this.#running.find(({ request }) => request.socket === socket)
  }

  /**
   * Resolves when all requests have ended. Requests still running after `timeoutMs` are aborted, and `drain` resolves
   * at most DRAIN_ABORT_MS later.
   */
  drain(timeoutMs: number): Promise<void> {
    const { clock } = this.#options
    this.draining = true
    if (this.#running.count === 0) return Promise.resolve()
    return new Promise((resolve) => {
      const abort = clock.after(timeoutMs, () => {
        const reason = new RequestAborted('shutdown')
        for (const exchange of this.#running.all()) exchange.abort(reason)
        this.#shutdown.abort(reason)
      })
      const giveUp = clock.after(timeoutMs + DRAIN_ABORT_MS, done)
      function done(): void {
        abort.cancel()
        giveUp.cancel()
        resolve()
      }
      this.#onIdle = done
    })
  }
}

const NO_OBSERVERS: readonly RequestObserver[] = []

function failureOf(error: unknown): string {
  if (error instanceof GatewayError) return error.code
  if (error instanceof RequestAborted) return error.by === 'client' ? 'CLIENT_LEFT' : 'OVERLOADED'
  return isStoreFailure(error) ? 'OVERLOADED' : 'INTERNAL_ERROR'
}

/** How much of a malformed request is searched for its path. */
const REQUEST_LINE_BYTES = 1_024
const REQUEST_LINE = /^([A-Z]{1,20}) (\/\S*)/

/** The path of a request target that may be malformed. */
const pathIn = (target = ''): string => target.split('?', 1)[0] as string

/** Writes a long text at the speed of the client. Returns the rest of the text, which is empty. */
async function writeInPieces(response: ServerResponse, text: string): Promise<''> {
  for (const piece of piecesOf(text)) {
    if (response.destroyed) break
    if (!response.write(piece) && !response.destroyed) await drained(response)
  }
  return ''
}

function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    function done(): void {
      response.off('drain', done).off('close', done)
      resolve()
    }
    response.on('drain', done).on('close', done)
  })
}

/** A key may lower the limits of bodies on routes that call models. */
function limitsOf(
  { callsModels, jsonDepth = JSON_DEPTH }: Route,
  bodyBytes: number,
  { settings: { limits } }: Caller,
): { bodyBytes: number; jsonDepth: number } {
  if (!callsModels) return { bodyBytes, jsonDepth }
  return {
    bodyBytes: Math.min(bodyBytes, limits.bodyBytes ?? bodyBytes),
    jsonDepth: Math.min(jsonDepth, limits.jsonDepth ?? jsonDepth),
  }
}

function* partsOf(bytes: Buffer): Generator<Buffer, void> {
  for (let at = 0; at < bytes.length; at += HASHED_BYTES) yield bytes.subarray(at, at + HASHED_BYTES)
}

const ratedRoutes = new WeakMap<Route, Map<RateClass, Route>>()

/** The route with the rate class of this request. The limiter caches by route, so equal classes share one object. */
function ratedRoute(route: Route, request: IncomingMessage): Route {
  if (route.rateOf === undefined) return route
  const rate = route.rateOf(request)
  const known = ratedRoutes.get(route) ?? new Map<RateClass, Route>()
  ratedRoutes.set(route, known)
  const rated = known.get(rate) ?? { ...route, rate }
  known.set(rate, rated)
  return rated
}

/** @throws VALIDATION_ERROR; the message names the parameter, unless `unnamedParameters` is set. */
function queryOf({ unnamedParameters }: Route, schema: z.ZodType, search: string): unknown {
  try {
    return parseQuery(search, schema)
  } catch (error) {
    if (unnamedParameters !== true || !(error instanceof GatewayError)) throw error
    throw new GatewayError(error.code, error.message, { cause: error })
  }
}

const unknownExpectation = () =>
  new GatewayError('EXPECTATION_FAILED', 'The only supported expectation is "Expect: 100-continue".')
