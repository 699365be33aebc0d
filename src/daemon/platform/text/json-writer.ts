// Writes large JSON in pieces. V8 cannot pause JSON.stringify.
import { createHash, type Hash } from 'node:crypto'

/** The approximate size of a piece. A piece takes less than a millisecond. */
const PIECE_CHARS = 65_536
/** Values with at most so many members, at all levels, are written in one step. */
const PIECE_VALUES = 1_024

/**
 * Yields the pieces of the text that JSON.stringify returns. `value` consists of plain objects, arrays, strings,
 * numbers, booleans, null and undefined, and is not undefined itself.
 */
export function* writingJson(value: unknown, pieceChars: number = PIECE_CHARS): Generator<string, void> {
  const rest = yield* writing(value, '', pieceChars)
  if (rest !== '') yield rest
}

/** @param before the text that is not yielded yet. Returns such a text. */
function* writing(value: unknown, before: string, pieceChars: number): Generator<string, string> {
  let text = before
  if (typeof value === 'string' && value.length > pieceChars) {
    yield `${text}"`
    for (const piece of piecesOf(value, pieceChars)) yield JSON.stringify(piece).slice(1, -1)
    return '"'
  }
  if (typeof value !== 'object' || value === null || isSmall(value, pieceChars)) {
    text += JSON.stringify(value)
  } else if (Array.isArray(value)) {
    text += '['
    for (let at = 0; at < value.length; at++) {
      text = yield* writing(value[at] ?? null, at === 0 ? text : `${text},`, pieceChars)
    }
    text += ']'
  } else {
    text += '{'
    let separator = ''
    for (const [key, member] of Object.entries(value)) {
      if (member === undefined) continue
      text = yield* writing(member, `${text}${separator}${JSON.stringify(key)}:`, pieceChars)
      separator = ','
    }
    text += '}'
  }
  if (text.length < pieceChars) return text
  yield text
  return ''
}

/** Whether the value can be written in one step. Stops counting at the limits. */
function isSmall(value: object, pieceChars: number): boolean {
  let chars = 0
  let values = 0
  const isWithin = (one: unknown): boolean => {
    values += 1
    if (typeof one === 'string') chars += one.length
    if (values > PIECE_VALUES || chars > pieceChars) return false
    if (typeof one !== 'object' || one === null) return true
    if (Array.isArray(one)) return one.length <= PIECE_VALUES && one.every(isWithin)
    for (const key in one) {
      chars += key.length
      if (!isWithin((one as Record<string, unknown>)[key])) return false
    }
    return true
  }
  return isWithin(value)
}

/** Cuts a text into pieces. A surrogate pair is never cut. */
export function* piecesOf(text: string, pieceChars: number = PIECE_CHARS): Generator<string, void> {
  for (let at = 0; at < text.length; ) {
    let end = at + pieceChars
    if (isLeadingSurrogate(text.charCodeAt(end - 1)) && isTrailingSurrogate(text.charCodeAt(end))) end += 1
    yield text.slice(at, end)
    at = end
  }
}

const isLeadingSurrogate = (unit: number): boolean => unit >= 0xd800 && unit < 0xdc00
const isTrailingSurrogate = (unit: number): boolean => unit >= 0xdc00 && unit < 0xe000

/** The SHA-256 of a long text or of many bytes. Yields after each piece. */
export function* hashing(pieces: Iterable<string | Uint8Array>): Generator<void, Hash> {
  const sha256 = createHash('sha256')
  for (const piece of pieces) {
    sha256.update(piece)
    yield
  }
  return sha256
}

/** Joins the parts of a text and hashes it. Yields after each part. */
export function* joining(parts: Iterable<string>): Generator<void, { text: string; sha256: string }> {
  const sha256 = createHash('sha256')
  const texts: string[] = []
  for (const part of parts) {
    sha256.update(part)
    texts.push(part)
    yield
  }
  return { text: texts.join(''), sha256: sha256.digest('hex') }
}

/** A large body, in pieces. Its pieces must not be changed. */
export type LargeBody = { readonly pieces: readonly Uint8Array[]; readonly length: number; readonly sha256: string }

/** Writes a value as a large body. Yields after each piece. */
export function* writingBody(value: object): Generator<void, LargeBody> {
  const sha256 = createHash('sha256')
  const pieces: Uint8Array[] = []
  let length = 0
  for (const text of writingJson(value)) {
    const bytes = Buffer.from(text)
    sha256.update(bytes)
    pieces.push(bytes)
    length += bytes.length
    yield
  }
  return { pieces, length, sha256: sha256.digest('hex') }
}
