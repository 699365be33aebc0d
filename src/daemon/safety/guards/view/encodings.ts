// Decodes what can be decoded without knowing a language, and maps each decoded character to the characters that encode
// it. Every decoder takes time linear in the length of the text.
import { hexValueOf } from './characters.ts'
import type { Patch } from './mapped-text.ts'

/** The maximum length of one encoded run. Longer runs are files, and are decoded only in part. */
export const ENCODED_CHARS = 32_768
/** The minimum length of an encoded run: the base64 of a social security number. */
export const LEAST_RUN_CHARS = 15
const LEAST_TEXT_BYTES = 9

/** Decoded bytes: `startOf` and `endOf` return the range that encodes a byte. */
type Bytes = { bytes: Uint8Array; startOf(byte: number): number; endOf(byte: number): number }

/** Whether a byte is printable ASCII, a tab or a line break. */
const isPrintable = (byte: number): boolean => (byte >= 0x20 && byte < 0x7f) || byte === 9 || byte === 10 || byte === 13

/** Returns the length of the UTF-8 character that begins here. Returns 0 for invalid and for control characters. */
function characterBytes(bytes: Uint8Array, at: number): number {
  const first = bytes[at]
  if (first === undefined) return 0
  if (first < 0x80) return isPrintable(first) ? 1 : 0
  const length =
    first >= 0xc2 && first < 0xe0 ? 2 : first >= 0xe0 && first < 0xf0 ? 3 : first >= 0xf0 && first < 0xf5 ? 4 : 0
  for (let next = 1; next < length; next++) if ((bytes[at + next] ?? 0) >> 6 !== 2) return 0
  return length
}

/** Returns the patch for the bytes from `from` to `to`, which must be valid UTF-8. */
function patchOf({ bytes, startOf, endOf }: Bytes, from: number, to: number): Patch {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8', from, to)
  const starts: number[] = []
  const ends: number[] = []
  for (let at = from; at < to; ) {
    const length = Math.max(1, characterBytes(bytes, at))
    for (let unit = 0; unit < (length === 4 ? 2 : 1); unit++) {
      starts.push(startOf(at))
      ends.push(endOf(Math.min(to, at + length) - 1))
    }
    at += length
  }
  return { start: startOf(from), end: endOf(to - 1), text, starts, ends }
}

/** Returns the patch for bytes that are text as a whole. Returns undefined if they are not text. */
function wholePatch(bytes: Bytes): Patch | undefined {
  const { length } = bytes.bytes
  let plain = 0
  for (let at = 0; at < length; at += Math.max(1, characterBytes(bytes.bytes, at))) {
    if (characterBytes(bytes.bytes, at) === 0) return undefined
    plain++
  }
  return length < 4 || plain === 0 ? undefined : patchOf(bytes, 0, length)
}

/** Returns the patches for all stretches of the bytes that are text of at least `least` bytes. */
function stretchPatches(all: Bytes, least: number): Patch[] {
  const patches: Patch[] = []
  let start = 0
  for (let at = 0; at <= all.bytes.length; ) {
    const length = characterBytes(all.bytes, at)
    if (length > 0) {
      at += length
      continue
    }
    if (at - start >= least) patches.push(patchOf(all, start, at))
    at++
    start = at
  }
  return patches
}

const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
const NOT_BASE64 = 255
/** Both alphabets of base64: RFC 4648 §§4 and 5. */
const BASE64_VALUE = Uint8Array.from({ length: 128 }, (_, code) => {
  const character = { '-': '+', _: '/' }[String.fromCharCode(code)] ?? String.fromCharCode(code)
  const value = BASE64.indexOf(character)
  return value < 0 ? NOT_BASE64 : value
})
export const isBase64 = (code: number): boolean => code < 128 && BASE64_VALUE[code] !== NOT_BASE64

/** The letters of one base64 text: their codes, and their offsets in the text. */
export type Base64Letters = { codes: readonly number[]; at: readonly number[] }

function bytesOf({ codes, at }: Base64Letters, skipped: number): Bytes {
  const count = Math.floor(((codes.length - skipped) * 3) / 4)
  const bytes = new Uint8Array(count)
  for (let byte = 0; byte < count; byte++) {
    const bit = byte * 8
    const letter = skipped + Math.floor(bit / 6)
    const pair =
      ((BASE64_VALUE[codes[letter] as number] as number) << 6) | (BASE64_VALUE[codes[letter + 1] as number] as number)
    bytes[byte] = (pair >> (4 - (bit % 6))) & 0xff
  }
  return {
    bytes,
    startOf: (byte) => at[skipped + Math.floor((byte * 8) / 6)] as number,
    endOf: (byte) => (at[Math.min(codes.length - 1, skipped + Math.ceil(((byte + 1) * 8) / 6) - 1)] as number) + 1,
  }
}

/** The minimum length of a text that does not begin with its run, so that noise does not count as text. */
const LEAST_SHIFTED_BYTES = 12

/**
 * Decodes base64. If the letters as a whole are no text, other letters may precede or follow the encoded text. In this
 * case, all four alignments are read, and the parts that are text are returned. These parts may overlap.
 */
export function fromBase64(letters: Base64Letters): Patch[] {
  const whole = mayBeText(letters) ? wholePatch(bytesOf(letters, 0)) : undefined
  if (whole) return [whole]
  return ALIGNMENTS.flatMap((skipped) =>
    mayHoldText(letters, skipped) ? stretchPatches(bytesOf(letters, skipped), LEAST_SHIFTED_BYTES) : [],
  )
}

const ALIGNMENTS = [0, 1, 2, 3]

function byteAt({ codes }: Base64Letters, skipped: number, byte: number): number {
  const bit = byte * 8
  const letter = skipped + Math.floor(bit / 6)
  const first = BASE64_VALUE[codes[letter] as number] as number
  const second = BASE64_VALUE[codes[letter + 1] as number] as number
  return (((first << 6) | second) >> (4 - (bit % 6))) & 0xff
}

const mayBeByteOfText = (byte: number): boolean => isPrintable(byte) || byte >= 0x80

/** Whether the first bytes are text. */
function mayBeText(letters: Base64Letters): boolean {
  if (letters.codes.length < LEAST_RUN_CHARS) return false
  for (let byte = 0; byte < LEAST_TEXT_BYTES; byte++) if (!mayBeByteOfText(byteAt(letters, 0, byte))) return false
  return true
}

const PROBE_BYTES = 4

/** Whether any stretch of text can be in these letters: probes every fourth byte. */
function mayHoldText(letters: Base64Letters, skipped: number): boolean {
  const count = Math.floor(((letters.codes.length - skipped) * 3) / 4)
  let row = 0
  for (let byte = 0; byte < count; byte += PROBE_BYTES) {
    row = mayBeByteOfText(byteAt(letters, skipped, byte)) ? row + 1 : 0
    if (row >= LEAST_SHIFTED_BYTES / PROBE_BYTES) return true
  }
  return false
}

const HEX_RUN = /(?:(?:\\x|0x|\\u00|%)?[0-9a-fA-F]{2}(?:, |[ :,;-])?){8,}/g
const HEX_CHARACTERS = /^[^g-wyzG-WYZ]+$/

/** Decodes pairs of hex digits, with the usual prefixes and separators: `76 65`, `0x76, 0x65`, `\x76\x65`. */
export function hexPatches(text: string): Patch[] {
  const patches: Patch[] = []
  for (const { 0: run, index } of text.matchAll(HEX_RUN)) {
    if (!HEX_CHARACTERS.test(run)) continue
    const values: number[] = []
    const starts: number[] = []
    const ends: number[] = []
    for (const { 0: pair, 1: digits = '', index: inside } of run
      .slice(0, ENCODED_CHARS)
      .matchAll(/(?:\\x|0x|\\u00|%)?([0-9a-fA-F]{2})/g)) {
      values.push(hexValueOf(digits.charCodeAt(0)) * 16 + hexValueOf(digits.charCodeAt(1)))
      starts.push(index + inside)
      ends.push(index + inside + pair.length)
    }
    patches.push(...textPatches(values, starts, ends))
  }
  return patches
}

const BINARY_RUN = /(?:[01]{8}[ ,]?){4,}/g

export function binaryPatches(text: string): Patch[] {
  const patches: Patch[] = []
  for (const { 0: run, index } of text.matchAll(BINARY_RUN)) {
    const bytes = Array.from(run.slice(0, ENCODED_CHARS).matchAll(/[01]{8}/g))
    const starts = bytes.map(({ index: inside }) => index + inside)
    const values = bytes.map(([bits]) => Number.parseInt(bits, 2))
    patches.push(
      ...textPatches(
        values,
        starts,
        starts.map((start) => start + 8),
      ),
    )
  }
  return patches
}

const DECIMAL_RUN = /(?<![\d.,])\d{2,3}(?:(?:, ?|[ ;|-])\d{2,3}){7,}(?![\d.])/g

/** Decodes character codes in decimal: `52, 49, 49, 49`. */
export function decimalPatches(text: string): Patch[] {
  const patches: Patch[] = []
  for (const { 0: run, index } of text.matchAll(DECIMAL_RUN)) {
    const numbers = Array.from(run.slice(0, ENCODED_CHARS).matchAll(/\d{2,3}/g))
    const values = numbers.map(([digits]) => Number(digits))
    if (values.some((value) => !isPrintable(value))) continue
    const starts = numbers.map(({ index: inside }) => index + inside)
    patches.push(
      ...textPatches(
        values,
        starts,
        starts.map((start, at) => start + String(numbers[at]?.[0]).length),
      ),
    )
  }
  return patches
}

function textPatches(values: readonly number[], starts: readonly number[], ends: readonly number[]): Patch[] {
  const bytes = {
    bytes: Uint8Array.from(values),
    startOf: (at: number) => starts[at]!,
    endOf: (at: number) => ends[at]!,
  }
  const patch = wholePatch(bytes)
  return patch ? [patch] : stretchPatches(bytes, LEAST_SHIFTED_BYTES)
}

const PERCENT = /(?:%[0-9a-fA-F]{2})+/g

export function percentPatches(text: string): Patch[] {
  return Array.from(text.matchAll(PERCENT), ({ 0: run, index }) => {
    const count = run.length / 3
    const bytes = Uint8Array.from({ length: count }, (_, at) => Number.parseInt(run.slice(3 * at + 1, 3 * at + 3), 16))
    const all = { bytes, startOf: (byte: number) => index + 3 * byte, endOf: (byte: number) => index + 3 * byte + 3 }
    return wholeUtf8(bytes) ? patchOf(all, 0, count) : { start: index, end: index + run.length, text: latin1(bytes) }
  })
}

const latin1 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('latin1')

function wholeUtf8(bytes: Uint8Array): boolean {
  for (let at = 0; at < bytes.length; ) {
    const length = (bytes[at] as number) < 0x80 ? 1 : characterBytes(bytes, at)
    if (length === 0) return false
    at += length
  }
  return true
}

const ENTITY = /&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-zA-Z]{2,8}));?/g
/** The named characters of HTML that occur in values and in prose. */
const ENTITIES: Record<string, string> = {
  lt: '<',
  gt: '>',
  amp: '&',
  quot: '"',
  apos: "'",
  nbsp: ' ',
  ensp: ' ',
  emsp: ' ',
  thinsp: ' ',
  shy: '',
  zwj: '',
  zwnj: '',
  ndash: '-',
  mdash: '-',
  minus: '-',
  hyphen: '-',
  dash: '-',
  period: '.',
  middot: '·',
  comma: ',',
  colon: ':',
  sol: '/',
  commat: '@',
  lowbar: '_',
  equals: '=',
  num: '#',
  plus: '+',
  Tab: '\t',
  NewLine: '\n',
}

export function entityPatches(text: string): Patch[] {
  const patches: Patch[] = []
  for (const { 0: whole, 1: decimal, 2: hex, 3: name, index } of text.matchAll(ENTITY)) {
    const clear =
      name === undefined
        ? character(Number.parseInt(decimal ?? hex ?? '0', decimal ? 10 : 16))
        : whole.endsWith(';')
          ? ENTITIES[name]
          : undefined
    if (clear !== undefined) patches.push({ start: index, end: index + whole.length, text: clear })
  }
  return patches
}

const ESCAPE = /\\(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([nrt"'\\/]))/g
const SHORT_ESCAPES: Record<string, string> = { n: '\n', r: '\n', t: '\t' }

/** Decodes the escapes of string literals: `\u0041`, `\x41`, `\n`. */
export function escapePatches(text: string): Patch[] {
  return Array.from(text.matchAll(ESCAPE), ({ 0: whole, 1: braced, 2: unit, 3: byte, 4: short, index }) => {
    const code = braced ?? unit ?? byte
    const clear =
      code === undefined ? (SHORT_ESCAPES[short as string] ?? (short as string)) : character(Number.parseInt(code, 16))
    return { start: index, end: index + whole.length, text: clear }
  })
}

const character = (code: number): string => (code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : '')
const LOWER_OR_UPPER = /[a-z]/gi

/** Shifts each letter by 13 places. Applying it twice returns the text. */
export const rot13 = (text: string): string =>
  text.replace(LOWER_OR_UPPER, (letter) => {
    const base = letter <= 'Z' ? 65 : 97
    return String.fromCharCode(((letter.charCodeAt(0) - base + 13) % 26) + base)
  })

/** Returns a patch that writes a range backwards. */
export function reversedPatch(text: string, start: number, end: number): Patch {
  const chars = Array.from(text.slice(start, end)).reverse()
  const starts: number[] = []
  const ends: number[] = []
  let at = end
  for (const char of chars) {
    for (let unit = 0; unit < char.length; unit++) {
      starts.push(at - char.length)
      ends.push(at)
    }
    at -= char.length
  }
  return { start, end, text: chars.join(''), starts, ends }
}
