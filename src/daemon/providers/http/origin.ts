import net, { type Socket } from 'node:net'
import tls from 'node:tls'
import {
  PROVIDER_CONNECT_TIMEOUT_MS,
  PROVIDER_IDLE_CONNECTION_MS,
  PROVIDER_TCP_PROBE_MS,
} from '../../../shared/spec-limits.ts'
import type { Clock, Timer } from '../../../shared/time.ts'
import { ResponseFault, ResponseParser, type ResponseReceiver } from './response-parser.ts'

export type PostRequest = {
  /** As it is sent: in ASCII, without blanks. */
  path: string
  /** Name and value in turn. One list that is used again and again is put into words once. */
  headers: readonly string[]
  body: string
}

/** What becomes of a request: `head`, `body` any number of times, then `end` or `failed`; `failed` may come at any point. */
export type CallReceiver = ResponseReceiver & {
  end(): void
  failed(error: Error): void
}

/** A request that was sent. After its end nothing of this does anything. */
export type SentCall = {
  /** No more is read until `resume`. */
  pause(): void
  resume(): void
  /** Closes the connection; the receiver hears no more. */
  abort(): void
}

/**
 * The connections to one server, as many as calls run at once: a stream may take minutes. HTTP/1.1 over TCP or TLS; a connection
 * whose call has ended is used again for a while. POST only, for that is all that models are asked with.
 */
export class Origin {
  readonly #url: URL
  readonly #owner: Owner
  readonly #open = new Set<Connection>()
  /** Whose calls have ended, the one that waits longest first. */
  readonly #idle: Connection[] = []
  readonly #headerLines = new WeakMap<readonly string[], string>()
  /** Of TLS, so that the next connection need not negotiate everything anew. */
  #session: Buffer | undefined
  #closed = false

  /** @param options tests shorten the time for which a connection without a call is kept */
  constructor(url: string | URL, clock: Clock, { idleMs = PROVIDER_IDLE_CONNECTION_MS } = {}) {
    this.#url = new URL(url)
    this.#owner = {
      clock,
      idleMs,
      idle: (connection) => this.#idle.push(connection),
      closed: (connection) => this.#forget(connection),
    }
  }

  /** Sends one request. It is not sent twice, whatever happens: who asks decides. @throws TypeError for what is no request */
  post({ path, headers, body }: PostRequest, receiver: CallReceiver): SentCall {
    if (this.#closed) throw new ResponseFault('The provider was closed.')
    if (!PATH.test(path)) throw new TypeError('The path of a request must be in ASCII, without blanks.')
    const bodyBytes = Buffer.byteLength(body)
    const head = `POST ${path} HTTP/1.1\r\n${this.#linesOf(headers)}content-length: ${bodyBytes}\r\n\r\n`
    const call = new Call({ head, body, isAscii: bodyBytes === body.length }, receiver)
    const kept = this.#takeIdle()
    if (kept) setImmediate(() => this.#sendOnKept(kept, call))
    else this.#connect().send(call)
    return call
  }

  /**
   * What the server has done to a kept connection in the meantime, closed it or said something that nobody asked for, may not have
   * been read yet. It has been by now, and none of it becomes part of this call.
   */
  #sendOnKept(kept: Connection, call: Call): void {
    if (call.isOver) {
      if (!kept.isGone) this.#idle.push(kept)
    } else if (this.#closed) {
      call.fail(new ResponseFault('The provider was closed.'))
    } else if (kept.isGone) {
      this.#connect().send(call)
    } else {
      kept.send(call)
    }
  }

  /** Breaks all connections, and with them the calls that run. */
  close(): Promise<void> {
    this.#closed = true
    for (const connection of [...this.#open]) connection.break(new ResponseFault('The provider was closed.'))
    return Promise.resolve()
  }

  #linesOf(headers: readonly string[]): string {
    const known = this.#headerLines.get(headers)
    if (known !== undefined) return known
    const lines = toHeaderLines(headers, this.#url.host)
    this.#headerLines.set(headers, lines)
    return lines
  }

  #takeIdle(): Connection | undefined {
    const nowMs = this.#owner.clock.monotonic()
    for (;;) {
      const connection = this.#idle.pop()
      if (!connection || connection.idleUntilMs > nowMs) return connection
      connection.drop()
    }
  }

  #connect(): Connection {
    const connection = new Connection(
      this.#dial(() => connection),
      this.#owner,
    )
    this.#open.add(connection)
    return connection
  }

  #forget(connection: Connection): void {
    this.#open.delete(connection)
    const at = this.#idle.indexOf(connection)
    if (at >= 0) this.#idle.splice(at, 1)
  }

  #dial(connection: () => Connection): Socket {
    const { protocol, hostname, port } = this.#url
    const isTls = protocol === 'https:'
    const host = hostname.replace(/^\[|\]$/g, '')
    const options = {
      host,
      port: port === '' ? (isTls ? 443 : 80) : Number(port),
      onread: {
        buffer: READ_BUFFER,
        callback(length: number, bytes: Uint8Array) {
          connection().take(bytes as Buffer, length)
          return true
        },
      },
    }
    if (!isTls) return net.connect(options)
    // RFC 6066 §3: an address is no server name.
    const servername = net.isIP(host) ? '' : host
    const socket = tls.connect({ ...options, servername, ALPNProtocols: ['http/1.1'], session: this.#session })
    return socket.on('session', (session) => {
      this.#session = session
    })
  }
}

/** One for all connections: what is read is copied or put into words before the next read begins. */
const READ_BUFFER = Buffer.allocUnsafeSlow(65_536)

/** What a connection needs of whoever keeps it, and tells them. */
type Owner = {
  clock: Clock
  idleMs: number
  /** It has no call any more, and may have another. */
  idle(connection: Connection): void
  closed(connection: Connection): void
}

type RequestWords = { head: string; body: string; isAscii: boolean }

/** One call, wherever it is: waiting for its connection, on it, or over. */
class Call implements SentCall {
  isOver = false
  /** Until they are sent. */
  words: RequestWords | undefined
  /** While it is on one. */
  connection: Connection | undefined
  readonly receiver: CallReceiver

  constructor(words: RequestWords, receiver: CallReceiver) {
    this.words = words
    this.receiver = receiver
  }

  pause(): void {
    this.connection?.pause()
  }

  resume(): void {
    this.connection?.resume()
  }

  abort(): void {
    const { connection } = this
    this.#leave()
    connection?.drop()
  }

  end(): void {
    if (this.isOver) return
    this.#leave()
    this.receiver.end()
  }

  fail(error: Error): void {
    if (this.isOver) return
    this.#leave()
    this.receiver.failed(error)
  }

  #leave(): void {
    this.isOver = true
    this.words = undefined
    this.connection = undefined
  }
}

/** One connection. It carries one call at a time. */
class Connection {
  /** On the clock that never jumps back; once it has no call. */
  idleUntilMs = 0
  isGone = false
  readonly #socket: Socket
  readonly #owner: Owner
  readonly #parser = new ResponseParser()
  #call: Call | undefined
  readonly #tooLate: Timer
  #isUp = false
  #paused = false

  constructor(socket: Socket, owner: Owner) {
    this.#socket = socket
    this.#owner = owner
    socket.setNoDelay(true)
    // A server that vanishes while a model thinks would not be noticed else.
    socket.setKeepAlive(true, PROVIDER_TCP_PROBE_MS)
    this.#tooLate = owner.clock.after(PROVIDER_CONNECT_TIMEOUT_MS, () =>
      this.break(Object.assign(new Error('The connection took too long.'), { code: 'ETIMEDOUT' })),
    )
    socket.once(socket instanceof tls.TLSSocket ? 'secureConnect' : 'connect', () => {
      this.#isUp = true
      this.#tooLate.cancel()
    })
    // Node counts anew with whatever is read or written.
    socket.setTimeout(owner.idleMs)
    socket.on('timeout', () => {
      if (!this.#call) this.drop()
    })
    socket.on('end', () => this.#serverClosed())
    socket.on('error', (error) => this.break(error))
    socket.on('close', () => this.break(new ResponseFault('The connection was closed.')))
  }

  send(call: Call): void {
    const { head, body, isAscii } = call.words as RequestWords
    call.words = undefined
    call.connection = this
    this.#call = call
    this.#parser.begin(call.receiver)
    const socket = this.#socket
    if (isAscii) {
      // One text, one write, and the encoding that is only copied.
      socket.write(head + body, 'latin1')
    } else {
      socket.cork()
      socket.write(head, 'latin1')
      socket.write(body)
      socket.uncork()
    }
  }

  take(bytes: Buffer, length: number): void {
    if (this.isGone) return
    if (!this.#call) {
      // It speaks although nobody asked.
      this.drop()
      return
    }
    try {
      this.#parser.take(bytes, length)
    } catch (error) {
      this.break(error as Error)
      return
    }
    if (this.#parser.isOver()) this.#finish()
  }

  pause(): void {
    this.#paused = true
    this.#socket.pause()
  }

  resume(): void {
    if (!this.#paused) return
    this.#paused = false
    this.#socket.resume()
  }

  /** Ends it without a word to anybody. */
  drop(): void {
    if (this.isGone) return
    this.isGone = true
    this.#call = undefined
    this.#tooLate.cancel()
    this.#parser.stop()
    this.#owner.closed(this)
    this.#socket.destroy()
  }

  /** Ends it, and the call that it carries fails. */
  break(error: Error): void {
    const call = this.#call
    this.drop()
    call?.fail(error)
  }

  #serverClosed(): void {
    // The reason why there is no connection comes as an 'error'.
    if (!this.#isUp) return
    if (this.#call) {
      try {
        this.#parser.close()
      } catch (error) {
        this.break(error as Error)
        return
      }
      this.#finish()
    }
    this.drop()
  }

  #finish(): void {
    // The receiver may have given it up in the middle of this read.
    if (this.isGone) return
    const call = this.#call
    this.#call = undefined
    this.resume()
    // An answer that came before all of its request was sent says that nobody reads the rest.
    const forMs = this.#socket.writableLength > 0 ? 0 : this.#parser.reusableForMs(this.#owner.idleMs)
    if (forMs > 0) {
      this.idleUntilMs = this.#owner.clock.monotonic() + forMs
      this.#owner.idle(this)
    } else {
      this.drop()
    }
    call?.end()
  }
}

const PATH = /^[\x21-\x7e]+$/
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
/** RFC 9110 §5.5 */
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

/** @throws TypeError for a name or a value that would be more than one header */
function toHeaderLines(headers: readonly string[], host: string): string {
  let lines = ''
  let namesHost = false
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at] as string
    const value = headers[at + 1] as string
    if (!HEADER_NAME.test(name) || !HEADER_VALUE.test(value)) throw new TypeError(`The header ${name} cannot be sent.`)
    namesHost ||= name.toLowerCase() === 'host'
    lines += `${name}: ${value}\r\n`
  }
  return namesHost ? lines : `host: ${host}\r\n${lines}`
}
