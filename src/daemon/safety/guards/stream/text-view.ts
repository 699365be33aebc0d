/** Replaces the text of one range. */
export type Edit = { start: number; end: number; text: string }

/** The encoding of a text: plain text or JSON. A JSON string may escape a character in several ways. */
export type TextFormat = 'text' | 'json'

/**
 * A text that arrives in chunks. The text is decoded in the same way as its recipient decodes it. Detectors scan the
 * output of `add`, so that an escape cannot hide a value. Offsets in the decoded text are mapped back to offsets in the
 * raw text. Both kinds of offsets count from the start of the text.
 */
export type TextView = {
  /** Adds the next chunk and returns its decoded text. */
  add(raw: string): string
  /** Returns the raw incomplete escape at the end of an interrupted text, or an empty string if there is none. */
  end(): string
  /**
   * Returns where an incomplete token starts, if the token can only be replaced as a whole. Returns the end of the
   * decoded text if there is no such token.
   */
  openFrom(): number
  /** Extends a range that will be replaced. In JSON, a number or a literal can only be replaced as a whole. */
  widen(start: number, end: number): { start: number; end: number }
  toRaw(offset: number): number
  /** Converts an edit of the decoded text to edits of the raw text. JSON text remains valid JSON. */
  toRawEdits(edit: Edit): Edit[]
  /** Frees the mapping of all offsets before this offset. Those offsets must not be used afterwards. */
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

/** `structure`: brackets, commas, whitespace and the quotes themselves. `scalar`: numbers, true, false and null. */
type Kind = 'structure' | 'string' | 'scalar'

const QUOTE = 0x22
const BACKSLASH = 0x5c
/** RFC 8259 §7. After a backslash, any other character represents itself. */
const ESCAPES: Record<string, string> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' }
const UNICODE_ESCAPE = /^\\u[0-9a-fA-F]{4}/
const UNICODE_ESCAPE_CHARS = 6
/** Matches the beginning of an escape that the next chunk may complete. */
const CUT_ESCAPE = /^\\(?:u[0-9a-fA-F]{0,3})?$/
/** In a JSON string that itself contains JSON, matches an escape with doubled backslashes. */
const INNER_ESCAPE = /^\\\\(?:u[0-9a-fA-F]{4}|\\["\\]|[bfnrt/])/
const CUT_INNER_ESCAPE = /^\\(?:u[0-9a-fA-F]{0,3}|\\(?:\\|u[0-9a-fA-F]{0,3})?)?$/
const INNER_ESCAPE_CHARS = 7

/**
 * The maximum length of a number, true, false or null. Longer tokens are not valid JSON, and are replaced in parts
 * instead of being held back.
 */
const SCALAR_CHARS = 64

/**
 * A range of text of one kind. `isJson` marks a string that looks like JSON and is therefore decoded twice. `goesOn`
 * marks the continuation of an overlong scalar.
 */
type Section = { at: number; kind: Kind; isJson?: boolean; goesOn?: true }

class JsonView implements TextView {
  #kind: Kind = 'structure'
  #length = 0
  /** The beginning of an incomplete escape. */
  #cut = ''
  /** The start and kind of each token. The first entry is always at or before the first offset that is still needed. */
  #sections: Section[] = [{ at: 0, kind: 'structure' }]
  /** From the decoded offset `at` on, a raw offset is the corresponding decoded offset plus `by`. */
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
        this.#beginSection(this.#length + read.length + (at - from), 'structure')
      } else if (code === BACKSLASH) {
        const isJson = this.#sections.at(-1)?.isJson === true
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
        const section = this.#sections.at(-1) as Section
        if (section.at === this.#length + read.length + (at - from)) section.isJson = true
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
    return this.#kind === 'scalar' ? (this.#sections.at(-1)?.at ?? 0) : this.#length
  }

  widen(start: number, end: number): { start: number; end: number } {
    const [first, last] = [this.#sectionAt(start), this.#sectionAt(end - 1)]
    return {
      start: this.#sections[first]?.kind === 'scalar' ? (this.#sections[first]?.at ?? start) : start,
      end: this.#sections[last]?.kind === 'scalar' ? this.#endOf(last) : end,
    }
  }

  toRaw(offset: number): number {
    const shift = lastBefore(this.#shifts, offset)
    return offset + (this.#shifts[shift]?.by ?? 0)
  }

  toRawEdits({ start, end, text }: Edit): Edit[] {
    const edits: Edit[] = []
    let words = text
    for (let section = this.#sectionAt(start); section < this.#sections.length; section++) {
      const { at, kind, isJson, goesOn } = this.#sections[section] as Section
      if (at >= end) break
      const [from, to] = [Math.max(at, start), Math.min(this.#endOf(section), end)]
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
    this.#sections.splice(0, this.#sectionAt(offset))
    this.#shifts.splice(0, Math.max(0, lastBefore(this.#shifts, offset)))
  }

  #readOutside(code: number, at: number): void {
    switch (code) {
      case QUOTE:
        this.#beginSection(at, 'structure')
        this.#beginSection(at + 1, 'string')
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
        this.#beginSection(at, 'structure')
        return
      default:
        this.#beginSection(at, 'scalar')
        if (at - (this.#sections.at(-1)?.at ?? at) >= SCALAR_CHARS && !isLowSurrogate(code)) {
          this.#sections.push({ at, kind: 'scalar', goesOn: true })
        }
    }
  }

  #beginSection(at: number, kind: Kind): void {
    if (kind === this.#kind) return
    this.#kind = kind
    this.#sections.push({ at, kind })
  }

  #sectionAt(offset: number): number {
    return Math.max(0, lastBefore(this.#sections, offset))
  }

  #endOf(section: number): number {
    return this.#sections[section + 1]?.at ?? this.#length
  }
}

const isLowSurrogate = (code: number): boolean => (code & 0xfc00) === 0xdc00

/** Returns the character that the escape at the start of `rest` represents, and the escape's length. */
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

/** Returns the index of the last entry at or before the offset, or -1 if there is none. */
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
