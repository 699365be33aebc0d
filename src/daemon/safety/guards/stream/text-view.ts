/** The text of one stretch becomes another. */
export type Edit = { start: number; end: number; text: string }

/** How a text is written: as it is read, or as JSON, whose strings may spell a character in several ways. */
export type TextFormat = 'text' | 'json'

/**
 * A text that comes in pieces, as whoever reads it sees it. Detectors look at what `add` returns, so that no spelling hides
 * a value; offsets of it are turned back into those of the text as it came. Both count from the very beginning.
 */
export type TextView = {
  /** Takes the next piece and returns what it adds to what is read. */
  add(raw: string): string
  /** Returns what could not be read because the text broke off, as it came. */
  end(): string
  /** Where a piece that can only be replaced as a whole has begun and not ended; the end of what was read when there is none. */
  openFrom(): number
  /** The stretch that has to be replaced where this one is. */
  widen(start: number, end: number): { start: number; end: number }
  toRaw(offset: number): number
  /** The changes of the text as it came that make this one of what is read. A JSON text stays one. */
  toRawEdits(edit: Edit): Edit[]
  /** Nothing before this offset will be asked for again. */
  forget(offset: number): void
}

export const createTextView = (format: TextFormat): TextView => (format === 'json' ? new JsonView() : new PlainView())

class PlainView implements TextView {
  #length = 0

  add(raw: string): string {
    this.#length += raw.length
    return raw
  }

  end(): string {
    return ''
  }

  openFrom(): number {
    return this.#length
  }

  widen(start: number, end: number): { start: number; end: number } {
    return { start, end }
  }

  toRaw(offset: number): number {
    return offset
  }

  toRawEdits(edit: Edit): Edit[] {
    return [edit]
  }

  forget(): void {}
}

/** `structure`: brackets, commas, blanks and the quotes themselves. `scalar`: numbers, true, false and null. */
type Kind = 'structure' | 'string' | 'scalar'

const QUOTE = 0x22
const BACKSLASH = 0x5c
/** RFC 8259 §7. What follows a backslash and is not here stands for itself. */
const ESCAPES: Record<string, string> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' }
const UNICODE_ESCAPE = /^\\u[0-9a-fA-F]{4}/
const UNICODE_ESCAPE_CHARS = 6
/** The beginning of an escape that the next piece may complete. */
const CUT_ESCAPE = /^\\(?:u[0-9a-fA-F]{0,3})?$/
/** An escape within JSON that is written as a string, whose backslashes are escaped themselves, and its beginning. */
const INNER_ESCAPE = /^\\\\(?:u[0-9a-fA-F]{4}|\\["\\]|[bfnrt/])/
const CUT_INNER_ESCAPE = /^\\(?:u[0-9a-fA-F]{0,3}|\\(?:\\|u[0-9a-fA-F]{0,3})?)?$/
const INNER_ESCAPE_CHARS = 7

/** No number, true, false or null is longer. What is longer is no JSON: it is replaced in parts, so that it need not wait. */
const SCALAR_CHARS = 64

/**
 * A stretch of one kind. `isJson`: a string that is JSON by its beginning, and so read a second time. `goesOn`: the next part
 * of a scalar that is too long for one.
 */
type Turn = { at: number; kind: Kind; isJson?: boolean; goesOn?: true }

class JsonView implements TextView {
  #kind: Kind = 'structure'
  #length = 0
  /** The beginning of an escape. */
  #cut = ''
  /** Where what kind of token begins; the first is always at or before the first offset that may be asked for. */
  #turns: Turn[] = [{ at: 0, kind: 'structure' }]
  /** From `at` on an offset is so many characters further in the text as it came. */
  #shifts: { at: number; by: number }[] = [{ at: 0, by: 0 }]

  add(raw: string): string {
    const text = this.#cut + raw
    this.#cut = ''
    let read = ''
    let from = 0
    for (let at = 0; at < text.length; at++) {
      const code = text.charCodeAt(at)
      if (this.#kind !== 'string') {
        this.#readOutside(code, this.#length + read.length + (at - from))
      } else if (code === QUOTE) {
        this.#turn(this.#length + read.length + (at - from), 'structure')
      } else if (code === BACKSLASH) {
        const isJson = this.#turns.at(-1)?.isJson === true
        const rest = text.slice(at, at + INNER_ESCAPE_CHARS)
        read += text.slice(from, at)
        from = at
        if ((isJson ? CUT_INNER_ESCAPE : CUT_ESCAPE).test(rest)) {
          this.#cut = text.slice(at)
          from = text.length
          break
        }
        const { char, chars } = readEscape(rest, isJson)
        read += char
        const by = (this.#shifts.at(-1)?.by ?? 0) + chars - 1
        this.#shifts.push({ at: this.#length + read.length, by })
        from += chars
        at = from - 1
      } else if (code === 0x7b || code === 0x5b) {
        const turn = this.#turns.at(-1) as Turn
        if (turn.at === this.#length + read.length + (at - from)) turn.isJson = true
      }
    }
    read += text.slice(from)
    this.#length += read.length
    return read
  }

  end(): string {
    const cut = this.#cut
    this.#cut = ''
    this.#length += cut.length
    return cut
  }

  openFrom(): number {
    return this.#kind === 'scalar' ? (this.#turns.at(-1)?.at ?? 0) : this.#length
  }

  widen(start: number, end: number): { start: number; end: number } {
    const [first, last] = [this.#turnAt(start), this.#turnAt(end - 1)]
    return {
      start: this.#turns[first]?.kind === 'scalar' ? (this.#turns[first]?.at ?? start) : start,
      end: this.#turns[last]?.kind === 'scalar' ? this.#endOf(last) : end,
    }
  }

  toRaw(offset: number): number {
    const shift = lastBefore(this.#shifts, offset)
    return offset + (this.#shifts[shift]?.by ?? 0)
  }

  toRawEdits({ start, end, text }: Edit): Edit[] {
    const edits: Edit[] = []
    let words = text
    for (let turn = this.#turnAt(start); turn < this.#turns.length; turn++) {
      const { at, kind, isJson, goesOn } = this.#turns[turn] as Turn
      if (at >= end) break
      const [from, to] = [Math.max(at, start), Math.min(this.#endOf(turn), end)]
      if (kind === 'structure' || from >= to) continue
      const spelled = JSON.stringify(isJson ? JSON.stringify(words).slice(1, -1) : words)
      edits.push({
        start: this.toRaw(from),
        end: this.toRaw(to),
        text: kind === 'string' || (goesOn && words === '') ? spelled.slice(1, -1) : spelled,
      })
      words = ''
    }
    return edits
  }

  forget(offset: number): void {
    this.#turns.splice(0, this.#turnAt(offset))
    this.#shifts.splice(0, Math.max(0, lastBefore(this.#shifts, offset)))
  }

  #readOutside(code: number, at: number): void {
    switch (code) {
      case QUOTE:
        this.#turn(at, 'structure')
        this.#turn(at + 1, 'string')
        return
      case 0x7b:
      case 0x5b:
      case 0x7d:
      case 0x5d:
      case 0x09:
      case 0x0a:
      case 0x0d:
      case 0x20:
      case 0x2c:
      case 0x3a:
        this.#turn(at, 'structure')
        return
      default:
        this.#turn(at, 'scalar')
        if (at - (this.#turns.at(-1)?.at ?? at) >= SCALAR_CHARS && !isLowSurrogate(code)) {
          this.#turns.push({ at, kind: 'scalar', goesOn: true })
        }
    }
  }

  #turn(at: number, kind: Kind): void {
    if (kind === this.#kind) return
    this.#kind = kind
    this.#turns.push({ at, kind })
  }

  #turnAt(offset: number): number {
    return Math.max(0, lastBefore(this.#turns, offset))
  }

  #endOf(turn: number): number {
    return this.#turns[turn + 1]?.at ?? this.#length
  }
}

const isLowSurrogate = (code: number): boolean => (code & 0xfc00) === 0xdc00

/** The character that an escape at the beginning of `rest` stands for, and how long it is. */
function readEscape(rest: string, isJson: boolean): { char: string; chars: number } {
  const inner = isJson ? INNER_ESCAPE.exec(rest)?.[0] : undefined
  if (inner !== undefined) {
    const last = inner.at(-1) as string
    return { char: inner[2] === 'u' ? fromHex(inner.slice(3)) : (ESCAPES[last] ?? last), chars: inner.length }
  }
  const second = rest[1] as string
  return UNICODE_ESCAPE.test(rest)
    ? { char: fromHex(rest.slice(2, UNICODE_ESCAPE_CHARS)), chars: UNICODE_ESCAPE_CHARS }
    : { char: ESCAPES[second] ?? second, chars: 2 }
}

const fromHex = (digits: string): string => String.fromCharCode(Number.parseInt(digits, 16))

/** The last entry at or before the offset; -1 when there is none. */
function lastBefore(entries: readonly { at: number }[], offset: number): number {
  let low = 0
  let high = entries.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((entries[middle]?.at ?? 0) <= offset) low = middle + 1
    else high = middle
  }
  return low - 1
}
