import type { IncomingHttpHeaders } from 'node:http'
import { PROVIDER_HEAD_BYTES } from '../../../shared/spec-limits.ts'

/** What one response is made of, in this order; `body` comes any number of times. */
export type ResponseReceiver = {
  head(status: number, headers: IncomingHttpHeaders): void
  /** Bytes that belong to the receiver from now on. */
  body(bytes: Buffer): void
}

/** Bytes that are no response of HTTP/1.1, or end before it does. */
export class ResponseFault extends Error {
  override readonly name = 'ResponseFault'
}

/** What the next byte is part of. */
type State =
  | 'head'
  | 'counted' // of a body whose length was declared
  | 'until close'
  | 'size' // of a chunk, in hexadecimal digits
  | 'extension' // what may follow it
  | 'size LF'
  | 'chunk'
  | 'chunk CR'
  | 'chunk LF'
  | 'trailer'
  | 'trailer LF'
  | 'over'

/**
 * Reads the responses of one connection, one after another (RFC 9112 §§2 to 7), in pieces as they come. It is as strict as a
 * client may be: a response that could be framed in two ways is none, for what one of them takes for the end of the body
 * may be the middle of the other's.
 */
export class ResponseParser {
  #state: State = 'over'
  #receiver: ResponseReceiver | undefined
  /** What has come of a head that is not whole yet. */
  #head = ''
  /** Of the body or the chunk, what is still to come. */
  #bytesLeft = 0
  #digits = 0
  /** Of extensions and trailers. */
  #bytesSkipped = 0
  #lineIsEmpty = true
  #persistent = false
  /** What the server says of how long it keeps the connection. */
  #keptSeconds: number | undefined
  #excess = false

  /** The response of the next request. */
  begin(receiver: ResponseReceiver): void {
    this.#state = 'head'
    this.#receiver = receiver
    this.#excess = false
  }

  /** Nobody listens any more, and what still comes is of no response. */
  stop(): void {
    this.#end()
    this.#excess = true
  }

  isOver(): boolean {
    return this.#state === 'over'
  }

  /** How long the connection may wait for its next request, in ms: no longer than `usualMs`. 0 when it has to be closed. */
  reusableForMs(usualMs: number): number {
    if (!this.#persistent || this.#excess) return 0
    if (this.#keptSeconds === undefined) return usualMs
    // It counts from when it has sent the end, which is a while ago.
    return Math.min(usualMs, Math.max(0, this.#keptSeconds * 1000 - CLOSING_MARGIN_MS))
  }

  /**
   * Takes the first `length` bytes, which are read again as soon as this returns.
   * @throws ResponseFault
   */
  take(bytes: Buffer, length: number): void {
    let at = 0
    while (at < length) {
      switch (this.#state) {
        case 'head':
          at = this.#takeHead(bytes, at, length)
          break
        case 'counted':
          at = this.#takeBody(bytes, at, length)
          if (this.#bytesLeft === 0) this.#end()
          break
        case 'chunk':
          at = this.#takeBody(bytes, at, length)
          if (this.#bytesLeft === 0) this.#state = 'chunk CR'
          break
        case 'until close':
          this.#bytesLeft = length - at
          at = this.#takeBody(bytes, at, length)
          break
        case 'over':
          // Nobody asked for it, and the next response must not begin with it.
          this.#excess = true
          return
        default:
          this.#takeFraming(bytes[at++] as number)
      }
    }
  }

  /** The server has closed the connection. @throws ResponseFault where the response was not over */
  close(): void {
    if (this.#state === 'until close') this.#end()
    else if (this.#state === 'head' && this.#head === '') throw new ResponseFault('The connection was closed.')
    else throw new ResponseFault('The connection was closed in the middle of a response.')
  }

  #end(): void {
    this.#state = 'over'
    this.#receiver = undefined
  }

  /** Hands out what is there of `bytesLeft`. @returns where it ends */
  #takeBody(bytes: Buffer, from: number, length: number): number {
    const size = Math.min(this.#bytesLeft, length - from)
    const piece = Buffer.allocUnsafe(size)
    bytes.copy(piece, 0, from, from + size)
    this.#bytesLeft -= size
    this.#receiver?.body(piece)
    return from + size
  }

  #takeHead(bytes: Buffer, from: number, length: number): number {
    const before = this.#head.length
    const until = Math.min(length, from + PROVIDER_HEAD_BYTES - before)
    const text = this.#head + bytes.toString('latin1', from, until)
    // Whoever speaks something else may wait for us now.
    if (!text.startsWith(HTTP_1) && !HTTP_1.startsWith(text)) throw new ResponseFault('This is not HTTP/1.')
    const end = text.indexOf('\r\n\r\n', Math.max(0, before - 3))
    if (end < 0) {
      if (text.length >= PROVIDER_HEAD_BYTES) throw new ResponseFault('The head of the response is too long.')
      this.#head = text
      return until
    }
    this.#head = ''
    this.#readHead(text.slice(0, end).split('\r\n'))
    return from + end + 4 - before
  }

  #readHead(lines: readonly string[]): void {
    const [, minor, digits] = STATUS_LINE.exec(lines[0] as string) ?? []
    if (digits === undefined) throw new ResponseFault('The status line cannot be read.')
    const status = Number(digits)
    const headers = readHeaders(lines)
    if (status === 101) throw new ResponseFault('The server wants another protocol.')
    // RFC 9110 §15.2: an interim response, and the real one is still to come.
    if (status < 200) return
    this.#persistent = minor === '0' ? says(headers.connection, 'keep-alive') : !says(headers.connection, 'close')
    this.#keptSeconds = keptSeconds(headers['keep-alive'] as string | undefined)
    const receiver = this.#receiver
    // First, for an answer whose end nobody can know has not begun.
    this.#frame(status, headers)
    receiver?.head(status, headers)
  }

  /** How the end of the body is known (RFC 9112 §6.3). */
  #frame(status: number, headers: IncomingHttpHeaders): void {
    const { 'transfer-encoding': coding, 'content-length': declared } = headers
    if (status === 204 || status === 304) {
      this.#end()
    } else if (coding !== undefined) {
      if (coding.toLowerCase() !== 'chunked') throw new ResponseFault('The transfer coding is not known.')
      if (declared !== undefined) throw new ResponseFault('The body is both chunked and of a declared length.')
      this.#beginChunk()
    } else if (declared !== undefined) {
      if (!LENGTH.test(declared)) throw new ResponseFault('The length of the body cannot be read.')
      this.#bytesLeft = Number(declared)
      if (this.#bytesLeft === 0) this.#end()
      else this.#state = 'counted'
    } else {
      this.#persistent = false
      this.#state = 'until close'
    }
  }

  #beginChunk(): void {
    this.#state = 'size'
    this.#bytesLeft = 0
    this.#digits = 0
    this.#bytesSkipped = 0
  }

  /** One byte of what is around chunks (RFC 9112 §7.1). */
  #takeFraming(byte: number): void {
    switch (this.#state) {
      case 'size':
        this.#takeSize(byte)
        break
      case 'extension':
        if (byte === CR) this.#state = 'size LF'
        else this.#skip(byte)
        break
      case 'size LF':
        expect(byte, LF)
        this.#state = this.#bytesLeft === 0 ? 'trailer' : 'chunk'
        this.#lineIsEmpty = true
        break
      case 'chunk CR':
        expect(byte, CR)
        this.#state = 'chunk LF'
        break
      case 'chunk LF':
        expect(byte, LF)
        this.#beginChunk()
        break
      case 'trailer':
        if (byte === CR) {
          this.#state = 'trailer LF'
        } else {
          this.#skip(byte)
          this.#lineIsEmpty = false
        }
        break
      default:
        expect(byte, LF)
        if (this.#lineIsEmpty) {
          this.#end()
        } else {
          this.#state = 'trailer'
          this.#lineIsEmpty = true
        }
    }
  }

  #takeSize(byte: number): void {
    const digit = hexDigit(byte)
    if (digit >= 0) {
      this.#bytesLeft = this.#bytesLeft * 16 + digit
      this.#digits++
      if (this.#digits > SIZE_DIGITS) throw new ResponseFault('A chunk is too long.')
      return
    }
    if (this.#digits === 0) throw new ResponseFault('The size of a chunk cannot be read.')
    if (byte === CR) this.#state = 'size LF'
    else if (byte === SEMICOLON || byte === SPACE || byte === TAB) this.#state = 'extension'
    else throw new ResponseFault('The size of a chunk cannot be read.')
  }

  /** Extensions and trailers mean nothing to us. */
  #skip(byte: number): void {
    if (byte === LF) throw new ResponseFault('A line around a chunk ends without CR.')
    this.#bytesSkipped++
    if (this.#bytesSkipped > PROVIDER_HEAD_BYTES) throw new ResponseFault('A line around a chunk is too long.')
  }
}

const HTTP_1 = 'HTTP/1.'
const STATUS_LINE = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: [\t\x20-\x7e\x80-\xff]*)?$/
/** RFC 9110 §§5.1, 5.5: a token, and a value without control characters. It begins with no blank, so that many are read only once. */
const HEADER_LINE = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*((?:[\x21-\x7e\x80-\xff][\t\x20-\x7e\x80-\xff]*)?)$/
const LENGTH = /^\d{1,15}$/
const KEEP_ALIVE_SECONDS = /\btimeout=(\d{1,6})/i
const CLOSING_MARGIN_MS = 2_000
/** As many as a safe integer holds. */
const SIZE_DIGITS = 13
const CR = 0x0d
const LF = 0x0a
const SEMICOLON = 0x3b
const SPACE = 0x20
const TAB = 0x09

/** Names in lower case; the values of a name that comes more than once are joined, as RFC 9110 §5.2 has it. */
function readHeaders(lines: readonly string[]): IncomingHttpHeaders {
  // Without a prototype, whose members would pass for headers.
  const headers: Record<string, string> = Object.create(null)
  for (let at = 1; at < lines.length; at++) {
    const [, field, text] = HEADER_LINE.exec(lines[at] as string) ?? []
    if (field === undefined || text === undefined) throw new ResponseFault('A header line cannot be read.')
    const name = field.toLowerCase()
    const known = headers[name]
    const value = withoutBlanksBehind(text)
    headers[name] = known === undefined ? value : `${known}, ${value}`
  }
  return headers
}

/** Of RFC 9110 §5.6.3: there are others, such as 0xa0, and they belong to the value. */
function withoutBlanksBehind(text: string): string {
  let end = text.length
  while (end > 0 && (text[end - 1] === ' ' || text[end - 1] === '\t')) end--
  return text.slice(0, end)
}

/** A number, since a piece of the head would keep all of it in memory for as long as the connection lives. */
function keptSeconds(keepAlive: string | undefined): number | undefined {
  const seconds = keepAlive === undefined ? undefined : KEEP_ALIVE_SECONDS.exec(keepAlive)?.[1]
  return seconds === undefined ? undefined : Number(seconds)
}

const says = (header: string | undefined, word: string): boolean =>
  header?.split(',').some((option) => option.trim().toLowerCase() === word) ?? false

const expect = (byte: number, expected: number): void => {
  if (byte !== expected) throw new ResponseFault('The end of a line around a chunk is missing.')
}

/** -1 when it is none. */
function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const letter = byte | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1
}
