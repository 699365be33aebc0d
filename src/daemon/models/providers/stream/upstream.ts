// Sends one request to a provider and reads its response.
import type { IncomingHttpHeaders } from 'node:http'
import { setImmediate } from 'node:timers/promises'
import type { Dispatcher } from 'undici'
import { STREAM_BUFFER_BYTES } from '../../../../shared/spec-limits.ts'
import type { Clock, Timer } from '../../../../shared/time.ts'
import { createPacer, runInSlices } from '../../../platform/pacing.ts'
import { writingBody } from '../../../platform/text/json-writer.ts'
import { type PooledCall, type SocketWatch, wasIncomplete } from '../../pool.ts'
import type { CallBody, Entitled, ProviderCall } from '../../provider.ts'
import { abortedError, connectionError } from './failure.ts'

export type UpstreamRequest = {
  path: string
  headers: readonly string[]
  body: CallBody
  /** Set only for a governed call: the model, and the check that runs before the call is sent. */
  governed?: { model: string; entitled: Entitled } | undefined
}

/** For a governed call, requests the right to send `body`. Called as soon as the bytes are known. */
export const governed = (
  { model, entitle }: Pick<ProviderCall, 'model' | 'entitle'>,
  body: CallBody,
): UpstreamRequest['governed'] => entitle && { model, entitled: entitle(model, body) }

/** The request, or a function that creates the request right before the call: to sign it, or to write a large body. */
export type RequestSource = UpstreamRequest | (() => Promise<UpstreamRequest>)

/**
 * Creates a request with its credentials. `make` gets the headers with the credentials. If the credentials must be
 * fetched first, the result is a function.
 */
export type Authorized = (
  headers: readonly string[],
  make: (headers: readonly string[]) => RequestSource,
) => RequestSource

/** A POST of a JSON value. A large value is converted and written in turns of its own. */
export function jsonRequest(
  call: Pick<ProviderCall, 'model' | 'entitle' | 'isLarge'>,
  { path, headers }: Pick<UpstreamRequest, 'path' | 'headers'>,
  toValue: () => object,
): RequestSource {
  if (call.isLarge) {
    return async () => {
      await setImmediate()
      const value = toValue()
      await setImmediate()
      const body = await runInSlices(writingBody(value), createPacer())
      return { path, headers, body, governed: governed(call, body) }
    }
  }
  const body = JSON.stringify(toValue())
  return { path, headers, body, governed: governed(call, body) }
}

/**
 * Checks that a call is allowed. Call this right before the call is sent.
 * @throws the error that rejects the call, synchronously or asynchronously
 */
export const mayLeave = ({ governed, body }: Pick<UpstreamRequest, 'body' | 'governed'>): Promise<void> | undefined =>
  governed?.entitled(governed.model, body)

export type UpstreamHead = { status: number; headers: IncomingHttpHeaders }

/**
 * One HTTP call in flight. It has one reader. The reader first awaits `takeHead`, and then calls `next` sequentially.
 */
export type Upstream = {
  /**
   * Returns status and headers. Works only once, because it releases the headers: a long stream would otherwise keep
   * them in memory for minutes. Rejects with a ProviderError.
   */
  takeHead(): Promise<UpstreamHead>
  /**
   * Returns all bytes since the last call, or null at the end of the body. Reading pauses while STREAM_BUFFER_BYTES are
   * buffered. After a failure, first returns the bytes that were received before the failure, and then rejects with a
   * ProviderError.
   */
  next(): Promise<Buffer | null>
  /**
   * Ends the call with `error`, drops buffered bytes and closes the connection. Has no effect after the call has ended.
   */
  cancel(error: Error): void
  /** Reads and discards further bytes for at most `graceMs`, so that the connection can be reused. */
  release(clock: Clock, graceMs: number): void
}

/**
 * The maximum length of one socket read. Reading pauses before the buffer limit, so that one more read of this length
 * fits.
 */
const SOCKET_READ_BYTES = 65_536
/**
 * The maximum number of buffered chunks. Each chunk has an overhead: a one-byte chunk takes a hundred bytes of memory.
 */
const BUFFERED_CHUNKS = 1_024

/**
 * Sends a POST directly on the pool, because fetch, Web Streams and Readable would cost several times as much as the
 * call itself. An aborted signal closes the connection immediately, in any state.
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
  readonly #pool: Dispatcher
  /** The call that may still be sent once more. */
  #call: PooledCall | undefined
  #mayPause = true
  #paused = false
  /** Set while the call runs on a connection. */
  #controller: Dispatcher.DispatchController | undefined
  #held: Buffer[] = []
  #heldBytes = 0
  #reader: { resolve: (bytes: Buffer | null) => void; reject: (error: Error) => void } | undefined
  #failure: Error | undefined
  #ended = false
  #released = false
  #releaseTimer: Timer | undefined

  constructor(pool: Dispatcher, { path, headers: usual, body, governed }: UpstreamRequest, signal: AbortSignal) {
    const own = governed?.entitled.headers
    const headers = own ? [...usual, ...own] : usual
    this.#signal = signal
    this.#pool = pool
    this.#head = new Promise((resolve, reject) => {
      this.#resolveHead = resolve
      this.#rejectHead = reject
    })
    if (signal.aborted) {
      this.#onAbort()
      return
    }
    signal.addEventListener('abort', this.#onAbort, { once: true })
    this.#call = { method: 'POST', path, ...toContent(headers, body), watch: this.#watch }
    pool.dispatch(this.#call, this)
  }

  takeHead(): Promise<UpstreamHead> {
    const head = this.#head
    this.#head = ACCEPTED
    return head
  }

  next(): Promise<Buffer | null> {
    if (this.#paused) return this.#nextInOtherTurn()
    const bytes = this.#takeHeld()
    if (bytes) return Promise.resolve(bytes)
    if (this.#failure) return Promise.reject(this.#failure)
    if (this.#ended) return Promise.resolve(null)
    return new Promise((resolve, reject) => {
      this.#reader = { resolve, reject }
    })
  }

  /** Without this, one turn of the event loop would read everything that a fast server has sent. */
  async #nextInOtherTurn(): Promise<Buffer | null> {
    await setImmediate()
    this.#paused = false
    return this.next()
  }

  cancel(error: Error): void {
    if (this.#ended || this.#failure) return
    this.#held = []
    const controller = this.#controller
    // Set this first: undici reports the abort as a failure, and this failure must not replace the reason.
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
    // The call was cancelled while it waited for a connection, so there is nothing to send.
    if (this.#failure) controller.abort(this.#failure)
    else this.#controller = controller
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: IncomingHttpHeaders): void {
    if (status < 200) return
    // Otherwise undici would keep the request's bytes in memory until the answer ends.
    controller.rawHeaders = null
    this.#answering = true
    this.#call = undefined
    this.#resolveHead({ status, headers })
    // Drop both functions, because they retain the promise and thus the headers.
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
    const isFull = this.#heldBytes > STREAM_BUFFER_BYTES - SOCKET_READ_BYTES || this.#held.length > BUFFERED_CHUNKS
    if (!isFull || !this.#mayPause) return
    this.#paused = true
    controller.pause()
  }

  onResponseEnd(): void {
    this.#ended = true
    this.#settle()
    this.#reader?.resolve(null)
    this.#reader = undefined
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    if (this.#ended || this.#failure) return
    const call = this.#call
    if (call && wasIncomplete(error)) {
      this.#call = undefined
      this.#controller = undefined
      this.#pool.dispatch(call, this)
      return
    }
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
    this.#call = undefined
    this.#watch.onEnd = undefined
    this.#watch.onFree?.()
    this.#signal.removeEventListener('abort', this.#onAbort)
    this.#releaseTimer?.cancel()
  }
}

/** undici never writes to the headers. It accepts any iterable as a body, which its types omit. */
function toContent(headers: readonly string[], body: CallBody): Pick<PooledCall, 'headers' | 'body'> {
  if (typeof body === 'string') return { headers: headers as string[], body }
  const { pieces, length } = body
  return { headers: [...headers, 'content-length', String(length)], body: pieces as unknown as Uint8Array }
}

const ignore = () => {}

const ACCEPTED: Promise<never> = new Promise(() => {})
