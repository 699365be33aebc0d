// One delivery attempt: checks the address, connects, sends a signed POST and reads the response.
import { LRUCache } from 'lru-cache'
import type { Dispatcher } from 'undici'
import { WEBHOOK_ATTEMPT_MS, WEBHOOK_RESPONSE_BYTES } from '../../../shared/spec-limits.ts'
import type { Clock, Timer } from '../../../shared/time.ts'
import { readTarget, type Target, TargetRefused } from '../target-address.ts'
import { addressesOf, mayShowReceiver, type TargetGuard } from '../target-guard.ts'
import { type Connection, type ConnectionBook, type ConnectionDeps, createConnectionBook } from './connections.ts'

export type AttemptRequest = { url: string; headers: readonly string[]; body: string }

/** The result of one attempt. */
export type AttemptResult = {
  /** HTTP status. Null if there was no response. */
  status: number | null
  /** The reason for the failure, in a few words. Null after a 2xx. */
  error: string | null
  durationMs: number
  /**
   * The first WEBHOOK_RESPONSE_BYTES of the response as text. Null if there was no response, and for private receivers
   * (`showPrivateBodies`).
   */
  response: string | null
  timedOut: boolean
}

export type Sender = {
  /**
   * Sends at most one POST and never rejects. The attempt ends within WEBHOOK_ATTEMPT_MS. This time includes DNS
   * lookup, connection, TLS, the response head and the part of the body that is read. A 2xx counts as a success as soon
   * as the response head arrives. Redirects are not followed, bodies are not decompressed, and proxy environment
   * variables are ignored.
   */
  send(request: AttemptRequest): Promise<AttemptResult>
  /** Aborts all attempts in flight. These attempts count as failed. */
  close(): Promise<void>
}

/** Whether a response acknowledges a delivery. */
export const isAcknowledged = ({ status }: Pick<AttemptResult, 'status'>): boolean =>
  status !== null && status >= 200 && status < 300

const TARGETS_KEPT = 10_000

export function createSender(deps: ConnectionDeps): Sender {
  const { guard, clock } = deps
  const book = createConnectionBook(deps)
  const targets = new LRUCache<string, Target>({ max: TARGETS_KEPT })
  const running = new Set<Attempt>()

  function targetOf(url: string): Target {
    let target = targets.get(url)
    if (!target) {
      target = readTarget(url)
      targets.set(url, target)
    }
    return target
  }

  return {
    send(request) {
      return new Promise((resolve) => {
        const attempt = new Attempt(request, { book, clock, guard }, (result) => {
          running.delete(attempt)
          resolve(result)
        })
        running.add(attempt)
        try {
          const target = targetOf(request.url)
          const addresses = addressesOf(target, guard)
          if (!(addresses instanceof Promise)) attempt.begin(target, addresses)
          else {
            addresses.then(
              (found) => attempt.begin(target, found),
              (error) =>
                attempt.fail(error instanceof TargetRefused ? error.message : `name lookup: ${reasonOf(error)}`),
            )
          }
        } catch (error) {
          attempt.fail(reasonOf(error))
        }
      })
    },
    async close() {
      for (const attempt of running) attempt.cutOff('the gateway was shut down')
      await book.close()
    },
  }
}

class Attempt implements Dispatcher.DispatchHandler {
  readonly #request: AttemptRequest
  readonly #book: ConnectionBook
  readonly #guard: TargetGuard
  readonly #clock: Clock
  readonly #done: (result: AttemptResult) => void
  readonly #startedAt: number
  readonly #timer: Timer
  #connection: Connection | undefined
  #status: number | null = null
  #kept: Buffer[] = []
  #keptBytes = 0
  #ended = false
  #mayShow = true

  constructor(
    request: AttemptRequest,
    { book, clock, guard }: { book: ConnectionBook; clock: Clock; guard: TargetGuard },
    done: (result: AttemptResult) => void,
  ) {
    this.#request = request
    this.#book = book
    this.#guard = guard
    this.#clock = clock
    this.#done = done
    this.#startedAt = clock.monotonic()
    this.#timer = clock.after(WEBHOOK_ATTEMPT_MS, () => this.#timeOut())
  }

  begin(target: Target, addresses: readonly string[]): void {
    if (this.#ended) return
    this.#mayShow = mayShowReceiver(addresses, this.#guard)
    this.#connection = this.#book.take(target, addresses, this.#startedAt + WEBHOOK_ATTEMPT_MS)
    // The cast is safe, because undici never modifies the headers.
    const headers = this.#request.headers as string[]
    this.#connection.client.dispatch({ method: 'POST', path: target.path, headers, body: this.#request.body }, this)
  }

  fail(reason: string): void {
    this.#end(reason)
  }

  /** Aborts the attempt and closes its connection. */
  cutOff(reason: string, timedOut = false): void {
    this.#end(reason, { timedOut })
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // The attempt was aborted while it was opening its connection.
    if (this.#ended) controller.abort(new Error('cut off'))
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number): void {
    if (status >= 200) this.#status = status
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#ended) return
    const wanted = chunk.subarray(0, WEBHOOK_RESPONSE_BYTES - this.#keptBytes)
    // Copies the bytes, because a slice would keep the socket's whole buffer in memory.
    this.#kept.push(Buffer.from(wanted))
    this.#keptBytes += wanted.length
    // The limit is reached, so the rest of the body is aborted.
    if (wanted.length < chunk.length) this.#end(null)
  }

  onResponseEnd(): void {
    this.#end(null, { isWhole: true })
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    if (this.#ended) return
    const isStale = this.#connection?.used === true && this.#status === null && isClosed(error)
    this.#end(this.#mayShow ? reasonOf(error) : codeOf(error), { closedEarly: isStale })
  }

  #timeOut(): void {
    this.cutOff(`no complete response within ${WEBHOOK_ATTEMPT_MS / 1000} s`, true)
  }

  #end(failure: string | null, { isWhole = false, timedOut = false, closedEarly = false } = {}): void {
    if (this.#ended) return
    this.#ended = true
    this.#timer.cancel()
    if (this.#connection) this.#book[isWhole ? 'keep' : closedEarly ? 'distrust' : 'drop'](this.#connection)
    const status = this.#status
    const acknowledged = isAcknowledged({ status })
    this.#done({
      status,
      error: acknowledged ? null : (failure ?? `status ${status}`),
      durationMs: Math.round(this.#clock.monotonic() - this.#startedAt),
      response: status === null || !this.#mayShow ? null : toText(this.#kept),
      timedOut,
    })
    this.#kept = []
  }
}

const toText = (bytes: readonly Buffer[]): string =>
  bytes.length === 0 ? '' : storable(Buffer.concat(bytes).toString('utf8'))

/** PostgreSQL rejects NUL and unpaired surrogates. Truncation can create an unpaired surrogate. */
const storable = (text: string): string => text.replace(/[\0\p{Surrogate}]/gu, '\uFFFD')

const isClosed = (error: Error): boolean =>
  'code' in error && ['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'].includes(String(error.code))

/** The reason for a failure without the address, because a tenant could map the operator's network otherwise. */
const codeOf = (error: Error): string =>
  error instanceof TargetRefused ? error.message : 'code' in error ? String(error.code) : 'the connection failed'

/**
 * Returns the reason for a failure in a few words, for the delivery log. The gateway's own messages are shown in full.
 * For all other errors, only the code is shown, because it is clearer than the message.
 */
function reasonOf(error: unknown): string {
  if (error instanceof TargetRefused) return error.message
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0])
  if (!(error instanceof Error)) return 'unknown error'
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined
  return storable((code === undefined ? error.message : `${code}: ${error.message}`).slice(0, 200))
}
