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

/** Replaces the variants of characters, and removes white space and invisible characters beyond ASCII. */
const plain = (text: string): string =>
  BEYOND_ASCII.test(text) ? text.normalize('NFKC').replace(/[\p{Z}\p{C}]+/gu, ' ') : text

const BEYOND_ASCII = /[\u0080-\uffff]/
