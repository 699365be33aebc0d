// Reads large JSON in pieces. V8 cannot pause JSON.parse, so 32 MB would block the event loop for up to 150 ms. The file
// is long because the scanner and the places where pieces may end depend on each other.

/** JSON up to this size is read by JSON.parse in one step, which takes a few milliseconds at most. */
export const LARGE_JSON_BYTES = 262_144
/** The approximate size of the pieces that are passed to JSON.parse. */
const PIECE_BYTES = 65_536

const [QUOTE, COMMA, COLON, BACKSLASH, LETTER_U] = [0x22, 0x2c, 0x3a, 0x5c, 0x75]
const [OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d]
const STRUCTURAL: ReadonlySet<number> = new Set([
  QUOTE,
  COMMA,
  COLON,
  OPEN_ARRAY,
  CLOSE_ARRAY,
  OPEN_OBJECT,
  CLOSE_OBJECT,
])
const [TAB, LINE_FEED, CARRIAGE_RETURN, SPACE] = [0x09, 0x0a, 0x0d, 0x20]

export type JsonReaderOptions = {
  maxDepth?: number
  /** The error for JSON that is nested deeper. */
  tooDeep?: () => Error
  /**
   * Called before values are created. An upper bound of their number, counted since the last call. Throws if there are
   * too many.
   */
  beforeValues?: (count: number) => void
  /** Called at the end of a valid text, with the number of members that its objects have in the text. */
  atEnd?: (members: number) => void
  /**
   * The maximum length of a name or a number. Each of them is read in one step. Default: unlimited, as for JSON.parse.
   * White space is unlimited.
   */
  maxTokenBytes?: number
  tokenTooLong?: () => Error
  pieceBytes?: number
}

/**
 * An open array or object. It has a `value` only if it is too large for one piece. Otherwise it remains a part of its
 * parent's next piece.
 */
type Frame = {
  isArray: boolean
  /** The position of its bracket. */
  start: number
  value: unknown[] | Record<string, unknown> | undefined
  /** All members before this position are in `value`. */
  readTo: number
  /** The start of the current member. */
  member: number
  /** Whether the current member is an object's member whose key has ended. */
  isAfterColon: boolean
  /** Whether the value of the current member is already in `value`. */
  isAttached: boolean
  /** Whether a comma precedes `readTo`, so that another member must follow. */
  isAfterComma: boolean
}

const frameAt = (isArray: boolean, start: number): Frame => ({
  isArray,
  start,
  value: undefined,
  readTo: start + 1,
  member: start + 1,
  isAfterColon: false,
  isAttached: false,
  isAfterComma: false,
})

/**
 * Returns the value of the UTF-8 text, exactly as JSON.parse does. Yields after each piece.
 *
 * One pass finds the brackets, commas and strings, and remembers the open arrays and objects. Whenever a piece is
 * complete, JSON.parse reads the members of these arrays and objects that have ended. JSON.parse checks the syntax of
 * every byte except of the brackets and commas between pieces, which are checked here. A string that is larger than a
 * piece is read in pieces too.
 * @throws SyntaxError if the text is not JSON; the error of `tooDeep`; errors of `beforeValues`
 */
export function readingJson(bytes: Buffer, options: JsonReaderOptions = {}): Generator<void, unknown> {
  return new JsonReader(bytes, options).reading()
}

class JsonReader {
  readonly #bytes: Buffer
  readonly #options: JsonReaderOptions
  readonly #pieceBytes: number
  readonly #maxDepth: number
  readonly #maxTokenBytes: number
  /** The text itself is treated as the only element of an array. */
  readonly #root: Frame = { ...frameAt(true, -1), value: [] }
  readonly #frames: Frame[] = [this.#root]
  #values = 0
  #members = 0
  #pieceStart = 0

  constructor(bytes: Buffer, options: JsonReaderOptions) {
    this.#bytes = bytes
    this.#options = options
    this.#pieceBytes = options.pieceBytes ?? PIECE_BYTES
    this.#maxDepth = options.maxDepth ?? Number.POSITIVE_INFINITY
    this.#maxTokenBytes = options.maxTokenBytes ?? Number.POSITIVE_INFINITY
  }

  *reading(): Generator<void, unknown> {
    const bytes = this.#bytes
    let yieldAt = this.#pieceBytes
    let tokenStart = 0
    for (let at = 0; at < bytes.length; at++) {
      at = nextStructural(bytes, at, Math.min(bytes.length, yieldAt + 1))
      if (at - tokenStart > this.#maxTokenBytes && isBlank(bytes, tokenStart, at)) tokenStart = at
      this.#requireShort(tokenStart, at)
      const byte = bytes[at]
      const isStructural = byte !== undefined && STRUCTURAL.has(byte)
      if (byte === QUOTE) at = yield* this.#readingString(at)
      else if (byte === COMMA) this.#comma(at)
      else if (byte === COLON) this.#colon()
      else if (byte === OPEN_ARRAY || byte === OPEN_OBJECT) this.#open(byte === OPEN_ARRAY, at)
      else if (byte === CLOSE_ARRAY || byte === CLOSE_OBJECT) this.#close(byte === CLOSE_ARRAY, at)
      if (isStructural) tokenStart = at + 1
      if (at >= yieldAt) {
        yieldAt = at + this.#pieceBytes
        yield
      }
    }
    if (this.#frames.length !== 1) throw invalid(bytes.length)
    this.#endFrame(this.#root, bytes.length)
    const values = this.#root.value as unknown[]
    if (values.length !== 1) throw invalid(bytes.length)
    this.#options.atEnd?.(this.#members)
    return values[0]
  }

  get #frame(): Frame {
    return this.#frames.at(-1) as Frame
  }

  #colon(): void {
    this.#frame.isAfterColon = true
    this.#members += 1
  }

  #comma(at: number): void {
    const frame = this.#frame
    if (frame === this.#root) throw invalid(at)
    this.#values += 1
    if (frame.isAttached) {
      this.#requireBlank(frame.readTo, at)
      frame.isAttached = false
      frame.isAfterComma = true
      frame.readTo = at + 1
    }
    frame.member = at + 1
    frame.isAfterColon = false
    if (at - this.#pieceStart >= this.#pieceBytes) this.#readPiece(at + 1)
  }

  #open(isArray: boolean, at: number): void {
    // A second value of the same member. Without this check, it would be attached like the first one.
    if (this.#frame.isAttached) throw invalid(at)
    this.#values += 1
    this.#frames.push(frameAt(isArray, at))
    if (this.#frames.length - 1 > this.#maxDepth) throw this.#options.tooDeep?.() ?? invalid(at)
    if (at - this.#pieceStart >= this.#pieceBytes) this.#readPiece(at + 1)
  }

  #close(isArray: boolean, at: number): void {
    const frame = this.#frame
    if (frame === this.#root || frame.isArray !== isArray) throw invalid(at)
    this.#frames.pop()
    if (!frame.value) return
    this.#endFrame(frame, at)
    this.#frame.readTo = at + 1
  }

  #endFrame(frame: Frame, end: number): void {
    if (frame.isAttached) this.#requireBlank(frame.readTo, end)
    else this.#readMembers(frame, end, frame.isAfterComma)
    this.#pieceStart = end
  }

  /** Reads all complete members. The open arrays and objects get their own values. */
  #readPiece(at: number): void {
    for (const [depth, frame] of this.#frames.entries()) {
      if (frame.value === undefined) {
        frame.value = frame.isArray ? [] : {}
        this.#attach(this.#frames[depth - 1] as Frame, frame.start, frame.value)
      }
      if (!frame.isAttached && frame.member > frame.readTo) {
        this.#readMembers(frame, frame.member - 1, true)
        frame.isAfterComma = true
        frame.readTo = frame.member
      }
    }
    this.#pieceStart = at
  }

  /** Reads members, which are separated by commas. `end` is the position of the comma or bracket after them. */
  #readMembers(frame: Frame, end: number, isRequired: boolean): void {
    this.#beforeValues()
    const text = this.#bytes.toString('utf8', frame.readTo, end)
    const members = parse<object>(frame.isArray ? `[${text}]` : `{${text}}`, frame.readTo)
    let isEmpty = true
    if (frame.isArray) {
      for (const value of members as unknown[]) {
        ;(frame.value as unknown[]).push(value)
        isEmpty = false
      }
    } else {
      for (const [key, value] of Object.entries(members)) {
        setMember(frame.value as Record<string, unknown>, key, value)
        isEmpty = false
      }
    }
    if (isEmpty && isRequired) throw invalid(end)
  }

  /** Sets the value of the current member, which starts at `start`. */
  #attach(frame: Frame, start: number, value: unknown): void {
    if (frame.isArray) {
      this.#requireBlank(frame.member, start)
      ;(frame.value as unknown[]).push(value)
    } else {
      // `[]` cannot continue a number before it, so only a key and a colon may precede the value.
      const text = `{${this.#bytes.toString('utf8', frame.member, start)}[]}`
      const [key] = Object.keys(parse(text, start))
      setMember(frame.value as Record<string, unknown>, key as string, value)
    }
    frame.isAttached = true
  }

  /** Returns the position of the quote that closes the string. */
  *#readingString(start: number): Generator<void, number> {
    const bytes = this.#bytes
    const pieceBytes = this.#pieceBytes
    /** The positions where the string may be cut: not inside an escape or a character. */
    let cuts: number[] | undefined
    let nextCut = start + pieceBytes
    let escapeEnd = 0
    let end = start + 1
    for (; ; end++) {
      end = nextQuoteOrEscape(bytes, end, end < nextCut ? nextCut : end)
      if (end >= bytes.length) throw invalid(bytes.length)
      const byte = bytes[end] as number
      if (byte === QUOTE) break
      if (end >= nextCut && end >= escapeEnd && (byte & 0xc0) !== 0x80) {
        cuts ??= [start + 1]
        cuts.push(end)
        nextCut = end + pieceBytes
        yield
      }
      if (byte === BACKSLASH) {
        escapeEnd = end + (bytes[end + 1] === LETTER_U ? 6 : 2)
        end += 1
      }
    }
    const frame = this.#frame
    const isName = !frame.isArray && !frame.isAfterColon
    if (isName) this.#requireShort(start, end)
    if (!cuts || isName) return end
    if (frame.isAttached) throw invalid(start)
    this.#readPiece(start)
    cuts.push(end)
    this.#attach(frame, start, yield* this.#readingPieces(cuts))
    frame.readTo = end + 1
    this.#pieceStart = end
    return end
  }

  *#readingPieces(cuts: readonly number[]): Generator<void, string> {
    const pieces: string[] = []
    this.#beforeValues()
    for (let at = 1; at < cuts.length; at++) {
      const start = cuts[at - 1] as number
      pieces.push(parse(`"${this.#bytes.toString('utf8', start, cuts[at])}"`, start))
      yield
    }
    return pieces.join('')
  }

  #requireShort(start: number, end: number): void {
    if (end - start > this.#maxTokenBytes) throw this.#options.tokenTooLong?.() ?? invalid(start)
  }

  #beforeValues(): void {
    this.#options.beforeValues?.(this.#values)
    this.#values = 0
  }

  #requireBlank(start: number, end: number): void {
    if (!isBlank(this.#bytes, start, end)) throw invalid(start)
  }
}

function isBlank(bytes: Buffer, start: number, end: number): boolean {
  for (let at = start; at < end; at++) {
    const byte = bytes[at]
    if (byte !== SPACE && byte !== LINE_FEED && byte !== CARRIAGE_RETURN && byte !== TAB) return false
  }
  return true
}

// These two functions scan most of the bytes. In a generator, the same loops take several times as long.

/** The position of the next bracket, comma, colon or quote. `limit` if there is none before it. */
function nextStructural(bytes: Buffer, start: number, limit: number): number {
  let at = start
  for (; at < limit; at++) {
    const byte = bytes[at] as number
    if (byte === QUOTE || byte === COMMA || byte === COLON) return at
    // Both kinds of brackets differ only in this bit.
    const bracket = byte & ~0x20
    if (bracket === OPEN_ARRAY || bracket === CLOSE_ARRAY) return at
  }
  return at
}

/** The position of the next quote or backslash. `limit`, or the end of the bytes, if there is none before it. */
function nextQuoteOrEscape(bytes: Buffer, start: number, limit: number): number {
  const end = Math.min(limit, bytes.length)
  let at = start
  while (at < end && bytes[at] !== QUOTE && bytes[at] !== BACKSLASH) at++
  return at
}

/** Assigning to `__proto__` would change the prototype. JSON.parse creates a member. */
function setMember(object: Record<string, unknown>, key: string, value: unknown): void {
  if (key !== '__proto__') object[key] = value
  else Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true })
}

function parse<T>(text: string, start: number): T {
  try {
    return JSON.parse(text)
  } catch {
    throw invalid(start)
  }
}

const invalid = (at: number) => new SyntaxError(`invalid JSON near byte ${at}`)
