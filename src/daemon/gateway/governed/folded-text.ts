/**
 * A text in the form in which it is compared: lower case, without white space and ASCII punctuation, as UTF-8. Quoting,
 * escapes and line breaks therefore do not matter. A stretch of 12 bytes is about two English words or four Chinese
 * characters.
 */
export type FoldedText = {
  text: string
  bytes: Buffer
  /** The index of the character of each byte in the original text. */
  charOf: Uint32Array
}

/** 1 for each byte that is kept: letters and digits, and all bytes of other characters. */
const KEPT = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte >= 128 || (byte >= 48 && byte <= 57) || (byte >= 97 && byte <= 122) ? 1 : 0,
)

/** Folds a short text. The positions of its characters are kept. */
export function foldText(text: string): FoldedText {
  const bytes: number[] = []
  const charOf: number[] = []
  let at = 0
  for (const character of text) {
    for (const byte of foldedBytes(character)) {
      bytes.push(byte)
      charOf.push(at)
    }
    at += character.length
  }
  return { text, bytes: Buffer.from(bytes), charOf: Uint32Array.from(charOf) }
}

/** The folded bytes of a text of any length. */
export function foldedBytes(text: string): Buffer {
  const bytes = Buffer.from(plain(text).toLowerCase())
  let length = 0
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] as number
    bytes[length] = byte
    length += KEPT[byte] as number
  }
  return bytes.subarray(0, length)
}

/** Decodes escapes, and replaces the variants of characters, and white space and invisible characters beyond ASCII. */
function plain(text: string): string {
  const decoded = ESCAPE.test(text) ? withoutEscapes(text) : text
  return BEYOND_ASCII.test(decoded) ? decoded.normalize('NFKC').replace(/[\p{Z}\p{C}]+/gu, ' ') : decoded
}

/** Decodes the escapes of JSON, URLs and HTML, because a provider may quote a text in any of these forms. */
export const withoutEscapes = (text: string): string =>
  text
    .replace(/\\u([0-9a-f]{4})/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
    .replace(/\\[nrt]/g, ' ')
    .replace(/\\(["'/\\])/g, '$1')
    .replace(/(?:%[0-9a-f]{2})+/gi, fromPercents)
    .replace(/&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z]{2,6});/gi, ' ')

function fromPercents(escapes: string): string {
  try {
    return decodeURIComponent(escapes)
  } catch {
    return escapes
  }
}

const ESCAPE = /[\\%&]/
const BEYOND_ASCII = /[\u0080-\uffff]/
