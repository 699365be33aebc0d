import type { IncomingHttpHeaders } from 'node:http'
import type { Dispatcher } from 'undici'
import { STREAM_BUFFER_BYTES } from '../../../../shared/spec-limits.ts'
import type { Clock, Timer } from '../../../../shared/time.ts'
import type { PooledCall, SocketWatch } from '../../pool.ts'
import type { Entitled, ProviderCall } from '../../provider.ts'
import { abortedError, connectionError } from './failure.ts'

export type UpstreamRequest = {
  path: string
  headers: readonly string[]
  body: string
  /** Of a governed call: the model it asks, and what has to let it leave. */
  governed?: { model: string; entitled: Entitled } | undefined
}

/** The right to send `body`, of a call that is governed. To be asked for as soon as the bytes are known. */
export const governed = (
  { model, entitle }: Pick<ProviderCall, 'model' | 'entitle'>,
  body: string,
): UpstreamRequest['governed'] => entitle && { model, entitled: entitle(model, body) }

/** Asks, right before a call is sent, whether it may be. @throws what refuses it, or rejects with it */
export const mayLeave = ({ governed, body }: Pick<UpstreamRequest, 'body' | 'governed'>): Promise<void> | undefined =>
  governed?.entitled(governed.model, body)

export type UpstreamHead = { status: number; headers: IncomingHttpHeaders }

/** One running HTTP call. It has one reader, which first awaits `takeHead` and then calls `next` one at a time. */
export type Upstream = {
  /** Status and headers, once: a stream need not hold them for minutes. Rejects with a ProviderError. */
  takeHead(): Promise<UpstreamHead>
  /**
   * All bytes that came since the last call, null at the end of the body. At most STREAM_BUFFER_BYTES wait here; then
   * the socket is no longer read. Rejects with a ProviderError once the bytes before the failure have been handed out.
   */
  next(): Promise<Buffer | null>
  /** Ends the call with `error`, drops what was buffered and closes the connection. Does nothing after the end. */
  cancel(error: Error): void
  /** Nothing more is wanted: what still comes is dropped for `graceMs`, so that the connection can be used again. */
  release(clock: Clock, graceMs: number): void
}

/** One read of a socket is at most this long, so pausing this much before the bound keeps it. */
const SOCKET_READ_BYTES = 65_536
/** Held pieces cost memory beyond their bytes: a hundred times as much for a piece of one byte. */
const HELD_PIECES = 1_024

/**
 * POSTs straight on the pool: no fetch, Web Stream or Readable in between, which cost several times the call itself.
 * The signal closes the connection at once, whatever state the call is in.
 */
export function openUpstream(pool: Dispatcher, request: UpstreamRequest, signal: AbortSignal): Upstream {
  return new UpstreamCall(pool, request, signal)
}

class UpstreamCall implements Upstream, Dispatcher.DispatchHandler {
  #head: Promise<UpstreamHead>
  readonly #signal: AbortSignal
  readonly #onAbort = () => this.cancel(abortedError(this.#signal))
  readonly #watch: SocketWatch = { onEnd: () => this.#readToEnd() }
  #resolveHead: (head: UpstreamHead) => void = ignore
  #rejectHead: (error: Error) => void = ignore
  #answering = false
  #mayPause = true
  /** While it runs on a connection. */
  #controller: Dispatcher.DispatchController | undefined
  #held: Buffer[] = []
  #heldBytes = 0
  #reader: { resolve: (bytes: Buffer | null) => void; reject: (error: Error) => void } | undefined
  #failure: Error | undefined
  #ended = false
  #released = false
  #releaseTimer: Timer | undefined

  constructor(pool: Dispatcher, { path, headers, body }: UpstreamRequest, signal: AbortSignal) {
    this.#signal = signal
    this.#head = new Promise((resolve, reject) => {
      this.#resolveHead = resolve
      this.#rejectHead = reject
    })
    if (signal.aborted) {
      this.#onAbort()
      return
    }
    signal.addEventListener('abort', this.#onAbort, { once: true })
    // undici never writes to the headers.
    const call: PooledCall = { method: 'POST', path, headers: headers as string[], body, watch: this.#watch }
    pool.dispatch(call, this)
  }

  takeHead(): Promise<UpstreamHead> {
    const head = this.#head
    this.#head = TAKEN
    return head
  }

  next(): Promise<Buffer | null> {
    const bytes = this.#takeHeld()
    if (bytes) return Promise.resolve(bytes)
    if (this.#failure) return Promise.reject(this.#failure)
    if (this.#ended) return Promise.resolve(null)
    return new Promise((resolve, reject) => {
      this.#reader = { resolve, reject }
    })
  }

  cancel(error: Error): void {
    if (this.#ended || this.#failure) return
    this.#held = []
    const controller = this.#controller
    // First, because undici reports the abort as a failure.
    this.#fail(error)
    controller?.abort(error)
  }

  release(clock: Clock, graceMs: number): void {
    if (this.#ended || this.#failure || this.#released) return
    this.#released = true
    this.#held = []
    this.#signal.removeEventListener('abort', this.#onAbort)
    this.#releaseTimer = clock.after(graceMs, () => this.cancel(new Error('the answer was complete')))
    this.#controller?.resume()
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // A call that was cancelled while it waited for a connection has nothing to send.
    if (this.#failure) controller.abort(this.#failure)
    else this.#controller = controller
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: IncomingHttpHeaders): void {
    if (status < 200) return
    // Bytes that undici would keep until the end of the answer.
    controller.rawHeaders = null
    this.#answering = true
    this.#resolveHead({ status, headers })
    // Both hold the promise, and with it the headers.
    this.#resolveHead = ignore
    this.#rejectHead = ignore
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#released || this.#failure) return
    const reader = this.#reader
    if (reader) {
      this.#reader = undefined
      reader.resolve(chunk)
      return
    }
    this.#held.push(chunk)
    this.#heldBytes += chunk.length
    const isFull = this.#heldBytes > STREAM_BUFFER_BYTES - SOCKET_READ_BYTES || this.#held.length > HELD_PIECES
    if (isFull && this.#mayPause) controller.pause()
  }

  onResponseEnd(): void {
    this.#ended = true
    this.#settle()
    this.#reader?.resolve(null)
    this.#reader = undefined
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    if (this.#ended || this.#failure) return
    this.#fail(connectionError(error, this.#answering))
  }

  #readToEnd(): void {
    this.#mayPause = false
    this.#controller?.resume()
  }

  #takeHeld(): Buffer | undefined {
    const [first, second] = this.#held
    if (!first) return undefined
    const bytes = second ? Buffer.concat(this.#held) : first
    this.#held = []
    this.#heldBytes = 0
    this.#controller?.resume()
    return bytes
  }

  #fail(error: Error): void {
    this.#failure = error
    this.#settle()
    this.#rejectHead(error)
    this.#reader?.reject(error)
    this.#reader = undefined
  }

  #settle(): void {
    this.#controller = undefined
    this.#watch.onEnd = undefined
    this.#signal.removeEventListener('abort', this.#onAbort)
    this.#releaseTimer?.cancel()
  }
}

const ignore = () => {}

const TAKEN: Promise<never> = new Promise(() => {})
