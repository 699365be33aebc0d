import { DETECTION_HOLD_CHARS } from '../detection.ts'
import { BASE64, has } from './characters.ts'

/** The first characters of private keys in text form. */
const HEADS = ['-----BEGIN', '---- BEGIN SSH2 ENCRYPTED PRIVATE', 'PuTTY-User-Key-File-'] as const
const [HYPHEN, CAPITAL_P] = [45, 80]
const beginsHead = (code: number): boolean => code === HYPHEN || code === CAPITAL_P
const LONGEST_HEAD = Math.max(...HEADS.map(({ length }) => length))
/** Matches the header line: `-----BEGIN RSA PRIVATE KEY-----`, `-----BEGIN PGP PRIVATE KEY BLOCK-----`. */
const HEAD_LINE =
  /-----BEGIN ?[A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----|---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----|PuTTY-User-Key-File-\d:/y
const FOOT =
  /-----END ?[A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----|---- END SSH2 ENCRYPTED PRIVATE KEY ----|Private-MAC: ?[0-9a-f]{16,64}/g
/** A block with fewer base64 characters is an example, not a key. */
const KEY_CHARS = 24
const HEAD_CHARS = 64

/** Whether the text from `at` on is the beginning of a possible header. */
export function mayBeHead(text: string, at: number): boolean {
  const length = text.length - at
  return HEADS.some((head) => (length < head.length ? head.startsWith(text.slice(at)) : text.startsWith(head, at)))
}

/**
 * Returns the private key whose header is at `at`. The key ends at its footer. If the footer is missing or too far away
 * for a finding, the key ends at its last line.
 */
export function privateKeyAt(text: string, at: number): { end: number } | undefined {
  HEAD_LINE.lastIndex = at
  if (!HEAD_LINE.test(text)) return undefined
  const from = HEAD_LINE.lastIndex
  const window = text.slice(from, at + DETECTION_HOLD_CHARS)
  FOOT.lastIndex = 0
  const foot = FOOT.exec(window)
  const body = foot === null ? window.slice(0, bodyLength(window)) : window.slice(0, foot.index)
  if (countBase64(body) < KEY_CHARS) return undefined
  return { end: from + (foot === null ? body.length : foot.index + foot[0].length) }
}

/**
 * Returns the start of the first key, at or after `from`, that may still become longer. Returns `limit` if no such key
 * begins before `limit`.
 */
export function openKeyFrom(text: string, from: number, limit: number): number {
  let open = limit
  for (const head of HEADS) {
    for (let at = text.indexOf(head, from); at >= 0 && at < open; at = text.indexOf(head, at + 1)) {
      if (keyIsOpen(text, at)) open = at
    }
  }
  // The last characters may be the beginning of a header.
  for (let at = Math.max(from, text.length - LONGEST_HEAD + 1); at < open; at += 1) {
    if (beginsHead(text.charCodeAt(at)) && mayBeHead(text, at) && keyIsOpen(text, at)) open = at
  }
  return open
}

/** Whether later text may extend the key that begins at `at`. */
function keyIsOpen(text: string, at: number): boolean {
  const length = text.length - at
  if (length >= DETECTION_HOLD_CHARS) return false
  HEAD_LINE.lastIndex = at
  if (!HEAD_LINE.test(text)) return length < HEAD_CHARS && !text.slice(at).includes('\n')
  FOOT.lastIndex = HEAD_LINE.lastIndex
  return !FOOT.test(text)
}

/** Returns the length of the key's lines: base64, headers, and line breaks in any notation. */
function bodyLength(text: string): number {
  const stop = text.search(/[^A-Za-z0-9+/=\s\\:,.-]/)
  return stop < 0 ? text.length : stop
}

function countBase64(text: string): number {
  let count = 0
  for (let at = 0; at < text.length && count < KEY_CHARS; at += 1) if (has(BASE64, text.charCodeAt(at))) count += 1
  return count
}
