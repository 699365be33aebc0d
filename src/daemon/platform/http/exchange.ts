import type { IncomingMessage, ServerResponse } from 'node:http'
import { newRequestId } from '../../../shared/ids.ts'
import type { RateCounterRow } from '../db/tables.ts'
import type { Admission } from './admission.ts'
import type { BodyShare } from './body-memory.ts'
import { type Caller, NOBODY } from './caller.ts'
import type { Observed, RequestTrace } from './observed.ts'
import type { RequestAborted } from './request-aborted.ts'
import type { Access, RequestContext, Route } from './route.ts'
import { type EventStream, openEventStream } from './sse.ts'
import type { TenantShares } from './tenant-shares.ts'

/** The header with the evidence id, set on every response to a request that leaves evidence. */
export const BUNDLE_ID_HEADER = 'x-smltp-bundle-id'

/** One request and its response: the handler's context, and the state of the client's connection. */
export class Exchange implements RequestContext {
  readonly requestId: string
  readonly request: IncomingMessage
  readonly response: ServerResponse
  endpoint = ''
  access: Access = 'none'
  caller: Caller = NOBODY
  admission: Admission | undefined
  params: Record<string, string> = {}
  query: unknown
  body: unknown
  bodySha256 = ''
  isLarge = false
  bundleId: string | undefined
  observed: Observed | undefined
  trace: RequestTrace | undefined
  /** Undefined until the route is known. */
  route: Route | undefined
  /** When the request began, in monotonic milliseconds. */
  readonly startedMs: number
  /** The code of the error that ended the request. */
  failure: string | undefined
  /** True if the client has sent `Expect: 100-continue` and has not received `100 Continue` yet. */
  bodyHeldBack: boolean
  /** True if the connection closes after this request. */
  isLast = false
  /** The headers that let web pages of allowed origins read the response. */
  corsHeaders: Record<string, string> | undefined
  /** The memory that is reserved for the request's body, once the body is read. */
  bodyShare: BodyShare | undefined
  /** True while the request counts as one that calls models. */
  callsModels = false
  /** Set while the request counts towards its tenant's share of the concurrent requests. */
  tenantShare: TenantShares | undefined
  /** The request's index among the running requests. */
  slot = -1
  readonly shutdown: AbortSignal
  readonly #connection: AbortController

  /** @param connection aborted when the client's connection closes; later requests on the same connection share it. */
  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    connection: AbortController,
    {
      bodyHeldBack,
      nowMs,
      startedMs,
      shutdown,
    }: { bodyHeldBack: boolean; nowMs: number; startedMs: number; shutdown: AbortSignal },
  ) {
    this.requestId = newRequestId(nowMs)
    this.request = request
    this.response = response
    this.bodyHeldBack = bodyHeldBack
    this.startedMs = startedMs
    this.shutdown = shutdown
    this.#connection = connection
    // `error` is ignored, because `close` also signals a broken socket. Without a listener, an `error` event would end
    // the process.
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

  unstoredCounters(): readonly RateCounterRow[] {
    return this.admission?.unstoredCounters() ?? []
  }

  countersStored(): void {
    this.admission?.countersStored()
  }

  openStream(headers: Record<string, string> = {}): EventStream {
    return openEventStream(this.response, {
      'x-request-id': this.requestId,
      ...this.corsHeaders,
      ...(this.bundleId !== undefined && { [BUNDLE_ID_HEADER]: this.bundleId }),
      ...this.admission?.headers,
      ...headers,
    })
  }
}

const ignore = () => {}

/**
 * The running requests. Avoids a Set: after a resize, V8's old table keeps a reference to the new table. Finished
 * requests would then survive the young generation (measured: a quarter of all CPU).
 */
export class RunningExchanges {
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
