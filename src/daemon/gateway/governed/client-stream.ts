// The stream of one answer to its client.
import { createHash, type Hash, hash } from 'node:crypto'
import type { Clock, Timer } from '../../../shared/time.ts'
import type { RequestContext } from '../../platform/http/route.ts'
import type { EventStream } from '../../platform/http/sse.ts'

/**
 * Maximum backlog for a client whose response is stored for replay. The limit prevents replays from waiting for a slow
 * client.
 */
const IDEMPOTENCY_BACKLOG_BYTES = 1_048_576

/** What a client receives while its model is silent. */
export type KeepAlive = {
  /** A frame without content: an SSE comment, or an event that clients ignore. */
  frame: string
  /** Whether it may be the first frame. The status is then 200, so a later failure becomes an error frame. */
  opens: boolean
  /** The content type of the stream. Default: server-sent events. */
  contentType?: string
}

const SERVER_SENT_EVENTS = 'text/event-stream; charset=utf-8'

type Options = {
  clock: Clock
  /** Whether to keep the transcript for a replay. */
  keep: boolean
  keepAlive: KeepAlive
  /** The client gets a keep-alive whenever it has received no data for this time. 0 means never. */
  everyMs: number
}

/**
 * Opens the response with the first frames, and sends keep-alives until `stop`. Keep-alives are part of the sent body:
 * the hash and the transcript contain them.
 */
export class ClientStream {
  readonly #context: Pick<RequestContext, 'openStream' | 'response'>
  readonly #options: Options
  readonly #left = createTextHash()
  #stream: EventStream | undefined
  #transcript = ''
  #tail = ''
  #timer: Timer | undefined
  #quietSinceMs: number

  constructor(context: Pick<RequestContext, 'openStream' | 'response'>, options: Options) {
    this.#context = context
    this.#options = options
    this.#quietSinceMs = options.clock.monotonic()
    if (options.everyMs > 0) this.#arm(options.everyMs)
  }

  get contentType(): string {
    return this.#options.keepAlive.contentType ?? SERVER_SENT_EVENTS
  }

  /** Whether the client has received the head of the response. */
  get isOpen(): boolean {
    return this.#stream !== undefined
  }

  /** Sends complete frames. Returns false if the client is slow: await `drained` before the next call. */
  send(frames: string): boolean {
    this.#stream ??= this.#open()
    this.#left.add(frames)
    this.#quietSinceMs = this.#options.clock.monotonic()
    if (!this.#options.keep) return this.#stream.write(frames)
    this.#transcript += frames
    // Backpressure is not applied, because other requests may wait for this answer. If a client's backlog becomes too
    // large, the client is disconnected and can retry to get the answer.
    const { response } = this.#context
    if (response.writableLength > IDEMPOTENCY_BACKLOG_BYTES) response.destroy()
    else this.#stream.write(frames)
    return true
  }

  drained(signal: AbortSignal): Promise<void> {
    return this.#stream?.drained(signal) ?? Promise.resolve()
  }

  /** Sets the last frames. Returns the kept transcript with these frames, and the hash of everything sent. */
  close(frames: string): { body: string; sha256: string } {
    this.stop()
    this.#tail = frames
    this.#left.add(frames)
    return { body: this.#transcript + frames, sha256: this.#left.end() }
  }

  /** Returns the hash of everything sent so far, or null if nothing was sent. */
  abandon(): string | null {
    this.stop()
    return this.#stream ? this.#left.end() : null
  }

  /** Sends the last frames and ends the response. */
  end(): void {
    this.#stream ??= this.#open()
    this.#stream.end(this.#tail)
  }

  /** Ends the keep-alives. Safe to call again. */
  stop(): void {
    this.#timer?.cancel()
    this.#timer = undefined
  }

  #open(): EventStream {
    const { contentType } = this.#options.keepAlive
    return this.#context.openStream(contentType === undefined ? undefined : { 'content-type': contentType })
  }

  #arm(ms: number): void {
    this.#timer = this.#options.clock.after(ms, () => this.#onTimer())
  }

  // Writes do not reset the timer: when it fires, it is set to the remaining time.
  #onTimer(): void {
    const { clock, everyMs, keepAlive } = this.#options
    const leftMs = this.#quietSinceMs + everyMs - clock.monotonic()
    if (leftMs > 0) {
      this.#arm(Math.ceil(leftMs))
      return
    }
    this.#quietSinceMs = clock.monotonic()
    const mayWrite = this.isOpen || keepAlive.opens
    // A client that does not read already has data to receive.
    if (mayWrite && this.#context.response.writableLength === 0) this.send(keepAlive.frame)
    this.#arm(everyMs)
  }
}

/**
 * Number of characters that are buffered before hashing. Hashing each frame separately takes several times as long. A
 * larger buffer would cost memory for each open stream (measured: 3 KiB at 4,096).
 */
const HASHED_CHARS = 1_024

/** Computes the SHA-256 of a text that arrives in parts, as UTF-8. */
function createTextHash(): { add(text: string): void; end(): string } {
  let waiting = ''
  let hasher: Hash | undefined
  return {
    add(text) {
      waiting += text
      if (waiting.length < HASHED_CHARS) return
      hasher ??= createHash('sha256')
      hasher.update(waiting)
      waiting = ''
    },
    // Hashes a copy, because the answer is ended a second time if the commit fails.
    end: () => (hasher ? hasher.copy().update(waiting).digest('hex') : hash('sha256', waiting, 'hex')),
  }
}
