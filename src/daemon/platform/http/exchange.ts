import type { IncomingMessage, ServerResponse } from 'node:http'
import { newRequestId } from '../../../shared/ids.ts'
import type { RateCounterRow } from '../db/tables.ts'
import type { Admission } from './admission.ts'
import type { BodyShare } from './body-memory.ts'
import { type Caller, NOBODY } from './caller.ts'
import type { RequestAborted } from './request-aborted.ts'
import type { Access, RequestContext } from './route.ts'
import { type EventStream, openEventStream } from './sse.ts'

/** On every reply to a request that leaves evidence: what that is called. */
export const BUNDLE_ID_HEADER = 'x-smltp-bundle-id'

/** One request and its answer: what the handler is given, and whether the client is still there. */
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
  bundleId: string | undefined
  /** The client sent `Expect: 100-continue` and has not been told to go on. */
  bodyHeldBack: boolean
  /** No request follows this one on its connection. */
  isLast = false
  /** What its body holds of the memory for all bodies, once it is read. */
  bodyShare: BodyShare | undefined
  /** Its place among the running ones. */
  slot = -1
  readonly shutdown: AbortSignal
  readonly #connection: AbortController

  /** @param connection what is aborted when the client's connection closes; its next requests share it. */
  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    connection: AbortController,
    { bodyHeldBack, nowMs, shutdown }: { bodyHeldBack: boolean; nowMs: number; shutdown: AbortSignal },
  ) {
    this.requestId = newRequestId(nowMs)
    this.request = request
    this.response = response
    this.bodyHeldBack = bodyHeldBack
    this.shutdown = shutdown
    this.#connection = connection
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

  takeCounters(): readonly RateCounterRow[] {
    return this.admission?.takeCounters() ?? []
  }

  openStream(headers: Record<string, string> = {}): EventStream {
    return openEventStream(this.response, {
      'x-request-id': this.requestId,
      ...(this.bundleId !== undefined && { [BUNDLE_ID_HEADER]: this.bundleId }),
      ...this.admission?.headers,
      ...headers,
    })
  }
}

const ignore = () => {}

/**
 * The requests that run. A Set would do, were it not for V8: each time it grows or shrinks, its old table keeps pointing at
 * the new one, and through such chains dead requests survive the young generation (measured: a quarter of all CPU).
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
