import { isUtf8 } from 'node:buffer'
import { UnreadableDocument } from './unreadable.ts'

const CONTROL = /[\x01-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]/g
const CONTROL_SAMPLE_CHARS = 100_000
const CONTROL_SHARE = 0.01

/** Whether a file begins with a byte order mark of UTF-16. */
export const isUtf16 = (bytes: Buffer): boolean => /^(?:\xff\xfe|\xfe\xff)/.test(bytes.toString('latin1', 0, 2))

/** Decodes a UTF-8 file. @throws UnreadableDocument for any other encoding, so that garbage is not indexed */
export function decodeText(bytes: Buffer): string {
  if (isUtf16(bytes)) throw new UnreadableDocument('The file is UTF-16, not UTF-8; save it as UTF-8.')
  if (!isUtf8(bytes)) throw new UnreadableDocument('The file is not UTF-8 text; convert it first.')
  const text = bytes.toString().replace(/^\uFEFF/, '')
  if (text.includes('\0')) throw new UnreadableDocument('The file contains NUL bytes, so it is not text.')
  const sample = text.slice(0, CONTROL_SAMPLE_CHARS)
  if ((sample.match(CONTROL)?.length ?? 0) > sample.length * CONTROL_SHARE) {
    throw new UnreadableDocument('The file is full of control characters, so it is not text.')
  }
  return text
}

const HTML_START = /^\s*(?:<\?xml[^>]{0,200}>\s*)?(?:<!--[\s\S]{0,2000}?-->\s*)?<(?:!doctype\s+html|html)[\s>]/i
const HTML_START_CHARS = 4_096

/** Whether a text declares itself as HTML. The name of the file is not checked. */
export const looksLikeHtml = (text: string): boolean => HTML_START.test(text.slice(0, HTML_START_CHARS))
