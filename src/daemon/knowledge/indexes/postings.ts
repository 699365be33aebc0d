/**
 * The stored inverted index of a segment. A segment is a sequence of passages. The position of a passage in the
 * sequence, counted from 0, is its ordinal. The number of pages is a power of two. A term's hash selects the page with
 * all postings of the term.
 *
 *     page     = { bytes of the term: varint, term: UTF-8, bytes of the postings: varint, postings }…
 *     postings = { (ordinal - previous ordinal) * 2 + (frequency > 1): varint, frequency: varint if above 1 }…
 */

/** The occurrences of a term, as alternating ordinals and frequencies. The ordinals are ascending. */
export type Postings = number[]

/** With this value, an index page has about 3 KB, close to the size of a database page. */
const PASSAGES_PER_PAGE = 8

/** Returns the number of pages of a segment with `passages` passages. */
export function pageCountOf(passages: number): number {
  let pages = 1
  while (pages * PASSAGES_PER_PAGE < passages) pages *= 2
  return pages
}

/** Returns the name under which a page of a segment is stored. */
export const pageName = (segmentId: string, page: number): string => `${segmentId}.${page}`

/**
 * Returns the number of the segment page that contains the term. This function must never change, because stored
 * segments depend on it.
 */
export function pageOf(term: string, pages: number): number {
  let hash = 0x811c9dc5
  for (let at = 0; at < term.length; at++) hash = Math.imul(hash ^ term.charCodeAt(at), 0x01000193)
  // Mix in the high bits, because the low bits of FNV-1a depend only on the low bits of the text.
  return (hash ^ (hash >>> 15)) & (pages - 1)
}

/** Encodes one page with these terms. */
export function encodePage(terms: Iterable<readonly [term: string, postings: Readonly<Postings>]>): Uint8Array {
  const writer = new ByteWriter()
  const list = new ByteWriter()
  for (const [term, postings] of terms) {
    list.clear()
    let before = 0
    for (let at = 0; at < postings.length; at += 2) {
      const ordinal = postings[at] as number
      const frequency = postings[at + 1] as number
      list.varint((ordinal - before) * 2 + (frequency > 1 ? 1 : 0))
      if (frequency > 1) list.varint(frequency)
      before = ordinal
    }
    const name = Buffer.from(term)
    writer.varint(name.length)
    writer.append(name)
    writer.varint(list.length)
    writer.append(list.bytes())
  }
  return writer.bytes()
}

/** Yields every term of a page with its postings. */
export function* decodePage(page: Uint8Array): Generator<[term: string, postings: Postings]> {
  const reader = new ByteReader(page)
  while (!reader.isAtEnd()) {
    const term = reader.take(reader.varint()).toString()
    const end = reader.varint() + reader.at
    yield [term, readPostings(reader, end)]
  }
}

/**
 * Finds the postings of the requested terms in the page. For each term found, calls `found` with the term's `id` in
 * `wanted` and its postings.
 */
export function findInPage(
  page: Uint8Array,
  wanted: readonly { id: number; name: Buffer }[],
  found: (id: number, postings: Postings) => void,
): void {
  const reader = new ByteReader(page)
  let left = wanted.length
  while (left > 0 && !reader.isAtEnd()) {
    const length = reader.varint()
    const start = reader.at
    reader.at += length
    const end = reader.varint() + reader.at
    for (const { id, name } of wanted) {
      if (name.length !== length || !reader.holds(name, start)) continue
      found(id, readPostings(reader, end))
      left--
      break
    }
    reader.at = end
  }
}

function readPostings(reader: ByteReader, end: number): Postings {
  const postings: Postings = []
  let ordinal = 0
  while (reader.at < end) {
    const step = reader.varint()
    ordinal += Math.floor(step / 2)
    postings.push(ordinal, step % 2 === 1 ? reader.varint() : 1)
  }
  return postings
}

/**
 * Writes numbers from 0 to 2^53 - 1 as varints: seven bits per byte, lowest bits first. Small numbers take one byte.
 */
export class ByteWriter {
  #buffer = Buffer.allocUnsafe(1_024)
  length = 0

  clear(): void {
    this.length = 0
  }

  varint(value: number): void {
    this.#reserve(8)
    let rest = value
    while (rest > 127) {
      this.#buffer[this.length++] = (rest % 128) + 128
      rest = Math.floor(rest / 128)
    }
    this.#buffer[this.length++] = rest
  }

  append(bytes: Uint8Array): void {
    this.#reserve(bytes.length)
    this.#buffer.set(bytes, this.length)
    this.length += bytes.length
  }

  /** Returns the bytes written so far. The returned bytes are valid until the next write. */
  bytes(): Uint8Array {
    return this.#buffer.subarray(0, this.length)
  }

  #reserve(bytes: number): void {
    if (this.length + bytes <= this.#buffer.length) return
    const larger = Buffer.allocUnsafe(Math.max(this.#buffer.length * 2, this.length + bytes))
    larger.set(this.#buffer.subarray(0, this.length))
    this.#buffer = larger
  }
}

export class ByteReader {
  readonly #bytes: Uint8Array
  at = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
  }

  isAtEnd(): boolean {
    return this.at >= this.#bytes.length
  }

  varint(): number {
    let value = 0
    for (let factor = 1; ; factor *= 128) {
      const byte = this.#bytes[this.at++]
      if (byte === undefined) throw new RangeError('stored postings end in the middle of a number')
      if (byte < 128) return value + byte * factor
      value += (byte - 128) * factor
    }
  }

  take(length: number): Buffer {
    const start = this.at
    this.at += length
    return Buffer.from(this.#bytes.buffer, this.#bytes.byteOffset + start, length)
  }

  holds(name: Buffer, start: number): boolean {
    for (let at = 0; at < name.length; at++) if (this.#bytes[start + at] !== name[at]) return false
    return true
  }
}
