import type { IncomingHttpHeaders } from 'node:http'
import type { Dispatcher } from 'undici'
import { STREAM_END_GRACE_MS } from '../../../../shared/spec-limits.ts'
import type { Clock } from '../../../../shared/time.ts'
import { createPacer, runInSlices } from '../../../platform/pacing.ts'
import { LARGE_JSON_BYTES, readingJson } from '../../../platform/text/json-reader.ts'
import { type ChatPart, type OnHead, ProviderError } from '../../provider.ts'
import type { AnswerAssembly, AnswerFormat } from './answer-format.ts'
import { assembleAnswer } from './assembly.ts'
import { statusError, unreadableError } from './failure.ts'
import { requestIdOf } from './request-id.ts'
import { type SilenceWatch, type Timeouts, watchSilence } from './silence.ts'
import { withWholeCalls } from './tool-arguments.ts'
import { mayLeave, openUpstream, type RequestSource, type Upstream } from './upstream.ts'

/** The maximum size of a response body that is not streamed. */
export const PROVIDER_BODY_BYTES = 33_554_432
/**
 * The maximum size of all events of one stream. This limit is more than twice the maximum of a body, because each event
 * repeats its envelope.
 */
const PROVIDER_STREAM_BYTES = 67_108_864
/** The maximum nesting of a large JSON answer. Deeper answers could take many times their size in memory. */
const ANSWER_DEPTH = 10_000
/**
 * The maximum number of bytes that are read from a provider's error body. Only the error code and the message in this
 * body are needed.
 */
const PROVIDER_ERROR_BODY_BYTES = 65_536

export type AnswerCall = {
  pool: Dispatcher
  clock: Clock
  request: RequestSource
  format: AnswerFormat
  streamed: boolean
  timeouts: Timeouts
  onHead?: OnHead | undefined
}

/**
 * Runs one provider call under the contract of `Provider.chat`. The first batch is yielded at the commit point. The
 * iteration either ends with the part `end` or throws a ProviderError. The first `next` starts the call. Ending the
 * iteration early closes the connection.
 */
export function readAnswer(call: AnswerCall, signal: AbortSignal): AsyncIterable<readonly ChatPart[]> {
  return new AnswerReader(call, signal)
}

/**
 * Runs one call whose answer is a JSON body, and returns that body.
 * @throws ProviderError
 */
export async function readJson(
  {
    pool,
    clock,
    request: source,
    attemptMs,
    onHead,
  }: Pick<AnswerCall, 'pool' | 'clock' | 'onHead' | 'request'> & { attemptMs: number },
  signal: AbortSignal,
): Promise<unknown> {
  const request = typeof source === 'function' ? await source() : source
  const leave = mayLeave(request)
  if (leave) await leave
  const upstream = openUpstream(pool, request, signal)
  const limits = { attemptMs, firstTokenMs: attemptMs, stallMs: attemptMs }
  const watch = watchSilence(clock, limits, false, (error) => upstream.cancel(error))
  let requestId: string | undefined
  try {
    const { status, headers } = await upstream.takeHead()
    requestId = requestIdOf(headers)
    onHead?.({ status, requestId })
    if (status !== 200) throw await toStatusError(upstream, status, headers, { clock, signal })
    return await readJsonBody(upstream)
  } catch (error) {
    throw withRequestId(error, requestId)
  } finally {
    watch.stop()
    upstream.cancel(GIVEN_UP)
  }
}

// An iterator class instead of a generator, because a generator would add three microtask turns to every network read.
class AnswerReader implements AsyncIterableIterator<readonly ChatPart[]> {
  /** The request is cleared when the call starts, because it may be large and is not needed any more. */
  #call: AnswerCall | undefined
  readonly #clock: Clock
  readonly #signal: AbortSignal
  // These callbacks are created once per answer. If each read created its own callbacks, thousands of idle streams
  // would retain a lot of memory.
  readonly #onBytes = (bytes: Buffer | null) => this.#take(bytes) ?? this.#readOn()
  readonly #onFailure = (error: unknown) => this.#fail(error)
  #upstream: Upstream | undefined
  #watch: SilenceWatch | undefined
  /** The object that assembles a streamed answer. It is set when the response head has arrived. */
  #assembly: AnswerAssembly | undefined
  #requestId: string | undefined
  #streamedBytes = 0
  #over = false

  constructor(call: AnswerCall, signal: AbortSignal) {
    this.#call = call
    this.#clock = call.clock
    this.#signal = signal
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  // Returns the inner promise unwrapped: each wrapper would add microtask turns to every network read.
  next(): Promise<IteratorResult<readonly ChatPart[]>> {
    if (this.#over) return Promise.resolve(NO_MORE)
    if (this.#assembly) return this.#nextBytes().then(this.#onBytes, this.#onFailure)
    const call = this.#call as AnswerCall
    this.#call = undefined
    return this.#start(call)
  }

  async return(): Promise<IteratorResult<readonly ChatPart[]>> {
    this.#finish(false)
    return NO_MORE
  }

  /**
   * Sends the request and reads the first parts. A stream is read up to the commit point; any other response is read
   * completely.
   */
  async #start(call: AnswerCall): Promise<IteratorResult<readonly ChatPart[]>> {
    const { pool, clock, timeouts, streamed, format, onHead } = call
    try {
      const request = typeof call.request === 'function' ? await call.request() : call.request
      const leave = mayLeave(request)
      if (leave) await leave
      if (this.#over) throw GIVEN_UP
      const upstream = openUpstream(pool, request, this.#signal)
      this.#upstream = upstream
      this.#watch = watchSilence(clock, timeouts, streamed, (error) => upstream.cancel(error))
      const { status, headers } = await upstream.takeHead()
      this.#requestId = requestIdOf(headers)
      onHead?.({ status, requestId: this.#requestId })
      if (status !== 200) throw await toStatusError(upstream, status, headers, { clock, signal: this.#signal })
      const opening = streamed ? await readOpening(upstream) : undefined
      // Even if a stream was requested, some servers respond with one JSON body, usually an error. The content type of
      // this body is not reliable.
      if (!streamed || (opening && opensJson(opening))) {
        const body = await readJsonBody(upstream, opening ?? undefined)
        const parts = format.decodeBody(body)
        return this.#handOut(format.createAssembly ? parts : withWholeCalls(parts, format))
      }
      this.#assembly = format.createAssembly?.() ?? assembleAnswer(format)
      return this.#take(opening ?? null) ?? (await this.#readOn())
    } catch (error) {
      return this.#fail(error)
    }
  }

  /** Waits for the next bytes of a stream. Returns null at the end of the stream. */
  #nextBytes(): Promise<Buffer | null> {
    // This size limit ends streams that never pause. The watch does not detect them, because it limits only silence.
    if (this.#streamedBytes > PROVIDER_STREAM_BYTES) return Promise.reject(tooLong(PROVIDER_STREAM_BYTES))
    const state = this.#assembly?.state()
    if (state === 'broken') return NOTHING
    this.#watch?.waiting()
    const bytes = (this.#upstream as Upstream).next()
    if (state === 'open') return bytes
    // Once the finish reason has arrived, the answer is complete, however the connection ends.
    return bytes.catch((error) => {
      if (this.#signal.aborted) throw error
      return null
    })
  }

  /** Returns the parts that are complete after the bytes of one read, if any. */
  #take(bytes: Buffer | null): IteratorResult<readonly ChatPart[]> | undefined {
    const assembly = this.#assembly as AnswerAssembly
    const watch = this.#watch as SilenceWatch
    watch.heard()
    this.#streamedBytes += bytes?.length ?? 0
    try {
      const parts = assembly.take(bytes)
      if (parts.length > 0) watch.committed()
      if (assembly.state() === 'finishing') watch.finishing()
      return parts.length > 0 ? this.#handOut(parts) : undefined
    } catch (error) {
      return this.#fail(error)
    }
  }

  /** Reads until there are parts. */
  async #readOn(): Promise<IteratorResult<readonly ChatPart[]>> {
    for (;;) {
      const bytes = await this.#nextBytes().catch(this.#onFailure)
      const result = this.#take(bytes)
      if (result) return result
    }
  }

  #fail(error: unknown): never {
    this.#finish(false)
    throw withRequestId(error, this.#requestId)
  }

  #handOut(parts: readonly ChatPart[]): IteratorResult<readonly ChatPart[]> {
    // The call is finished here, because the consumer might stop reading after the `end` part.
    if (parts.at(-1)?.type === 'end') this.#finish(true)
    return { done: false, value: parts }
  }

  #finish(complete: boolean): void {
    if (this.#over) return
    this.#over = true
    this.#watch?.stop()
    if (complete) this.#upstream?.release(this.#clock, STREAM_END_GRACE_MS)
    else this.#upstream?.cancel(GIVEN_UP)
  }
}

const NO_MORE: IteratorResult<never> = Object.freeze({ done: true, value: undefined })

// All calls share this instance, because creating an Error captures a stack trace. A stack is useless here, because
// this is not a fault.
const GIVEN_UP = new Error('the answer is not read further')

const NOTHING: Promise<null> = Promise.resolve(null)

/** Adds the provider's request id, so that every log line about the error contains it. */
function withRequestId(error: unknown, requestId: string | undefined): unknown {
  if (error instanceof ProviderError) error.upstreamRequestId = requestId
  return error
}

async function toStatusError(
  upstream: Upstream,
  status: number,
  headers: IncomingHttpHeaders,
  { clock, signal }: { clock: Clock; signal: AbortSignal },
): Promise<ProviderError> {
  // If the body is incomplete, only the provider's error code is lost: the status is already known.
  const body = await readBody(upstream, PROVIDER_ERROR_BODY_BYTES).catch((error) => {
    if (signal.aborted) throw error
  })
  return statusError(status, headers, body?.toString() ?? '', clock.now())
}

async function readJsonBody(upstream: Upstream, opening?: Buffer): Promise<unknown> {
  const bytes = await readBody(upstream, PROVIDER_BODY_BYTES, opening)
  if (!bytes) throw tooLong(PROVIDER_BODY_BYTES)
  try {
    const json = withoutMark(bytes)
    if (json.length <= LARGE_JSON_BYTES) return JSON.parse(json.toString())
    return await runInSlices(readingJson(json, { maxDepth: ANSWER_DEPTH }), createPacer())
  } catch (error) {
    throw unreadableError('an answer that is not JSON', error)
  }
}

/**
 * Removes a byte order mark. RFC 8259 §8.1: senders must not add a byte order mark to JSON, but parsers may ignore it.
 */
const withoutMark = (bytes: Buffer) => (bytes.subarray(0, 3).equals(BYTE_ORDER_MARK) ? bytes.subarray(3) : bytes)

/** Returns the whole body, or undefined if it is longer than `limit` bytes. */
async function readBody(upstream: Upstream, limit: number, opening?: Buffer): Promise<Buffer | undefined> {
  const pieces = opening ? [opening] : []
  let length = opening?.length ?? 0
  for (let piece = await upstream.next(); piece; piece = await upstream.next()) {
    pieces.push(piece)
    length += piece.length
    if (length > limit) return undefined
  }
  return pieces.length === 1 ? pieces[0] : Buffer.concat(pieces)
}

const BYTE_ORDER_MARK = Buffer.from('\u{feff}')

const tooLong = (limit: number) => unreadableError(`an answer over ${limit} bytes`)

/**
 * Returns the first bytes that are not whitespace. Some servers send whitespace as keep-alive. Returns null if the body
 * contains only whitespace.
 */
async function readOpening(upstream: Upstream): Promise<Buffer | null> {
  let bytes = await upstream.next()
  while (bytes?.every((byte) => BLANKS.has(byte))) bytes = await upstream.next()
  return bytes
}

const opensJson = (opening: Buffer) => {
  const first = withoutMark(opening).find((byte) => !BLANKS.has(byte))
  return first === 0x7b || first === 0x5b
}

/** Tab, line feed, carriage return and space, as in RFC 8259 §2. */
const BLANKS: ReadonlySet<number> = new Set([0x09, 0x0a, 0x0d, 0x20])
