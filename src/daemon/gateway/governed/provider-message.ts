// Cleans the messages with which providers reject calls. Providers echo the request in these messages, also credentials.
import { PROVIDER_MESSAGE_CHARS, PROVIDER_MESSAGE_RECEIVED_CHARS } from '../../../shared/spec-limits.ts'
import type { ConfiguredSecrets } from '../../models/credentials.ts'
import { sensitiveRanges } from '../../safety/guards/sensitive-text.ts'
import { type FoldedText, foldedBytes, foldText, withoutEscapes } from './folded-text.ts'
import { sharedStretches } from './shared-stretches.ts'

/** The length from which a stretch that also occurs in the request is replaced, in bytes of folded text. */
const STRETCH_BYTES = 12
/** The same for configured credentials. Shorter credentials are replaced as a whole. */
const CREDENTIAL_BYTES = 8
const CREDENTIAL_MIN_BYTES = 5
/** If the request has more text than this, it takes too long to compare, and the message is left out. */
const COMPARED_BYTES = 300_000
/** The end of a message that was cut off on receipt may be the beginning of a stretch that was not recognised. */
const UNSURE_CHARS = 40

/**
 * Values that look like credentials or encoded text. Names that providers use, such as `gpt-4o-2024-08-06` and
 * `ThrottlingException`, do not match.
 */
const OPAQUE = [
  // Keys and accounts by their usual prefixes.
  /\b(?:sk|pk|rk|ak|gsk|xai|hf|r8|nvapi|pplx)[-_][\w*.-]{6,}/gi,
  /\b(?:api|key|token|org|proj)[-_](?=[\w.-]*[\d*])[\w*.-]{6,}/gi,
  /\b(?:AIza|AKIA|ASIA|eyJ)[\w*.-]{8,}/g,
  // Access tokens of Google. They are not configured, so they are recognised only by their form.
  /\bya29\.[\w*.-]{6,}/g,
  // Masked values.
  /[^\s"'`]*\*{3,}[^\s"'`]*/g,
  // Values of authentication headers.
  /(?<=\b(?:bearer|basic)\s+)[^\s"',;]{6,}/gi,
  // Encoded text: base64, hex, percent and Unicode escapes.
  /(?:[%\\]u?[0-9a-f]{2,4}){4,}/gi,
  /(?<![\w+/])(?=[\w+/]*(?:\d|[a-z][A-Z]))(?!(?:[a-z]{2,})?(?:[A-Z][a-z]{2,}){1,6}(?![\w+/=]))[\w+/]{16,}={0,2}/g,
  /(?<![a-z])[a-z]{20,}|(?<![A-Z])[A-Z]{20,}/g,
]

/**
 * Returns the provider's message for administrators: without control characters, configured credentials and hosts,
 * secrets, personal data, and without any stretch that also occurs in the request. Each is replaced by `…`. Returns
 * undefined if nothing readable remains, or if the request is too large to compare.
 * @param sent everything that contains text of the request. Strings are found at any depth.
 */
export type CleanMessage = (said: string, sent: readonly unknown[]) => string | undefined

/** Creates the function that cleans messages. The credentials and hosts are prepared once. */
export function createMessageCleaner({ credentials, hosts }: ConfiguredSecrets): CleanMessage {
  const known = [
    ...credentials.map((text) => ({ bytes: foldedBytes(text), least: CREDENTIAL_BYTES })),
    ...hosts.map((text) => ({ bytes: foldedBytes(text), least: STRETCH_BYTES })),
  ].filter(({ bytes }) => bytes.length >= CREDENTIAL_MIN_BYTES)
  return (said, sent) => {
    const request = foldedBytesOf(sent)
    if (!request) return undefined
    const text = readable(said)
    const folded = foldText(text)
    const hidden = new Uint8Array(text.length)
    for (const [start, end] of sharedStretches(folded.bytes, request, STRETCH_BYTES)) hide(hidden, folded, start, end)
    for (const { bytes, least } of known) {
      const stretches = sharedStretches(folded.bytes, bytes, Math.min(least, bytes.length))
      for (const [start, end] of stretches) hide(hidden, folded, start, end)
    }
    hideQuotes(hidden, text, request)
    for (const pattern of OPAQUE) {
      for (const { index, 0: value } of text.matchAll(pattern)) hidden.fill(1, index, index + value.length)
    }
    for (const { start, end } of sensitiveRanges(text)) hidden.fill(1, start, end)
    if (said.length >= PROVIDER_MESSAGE_RECEIVED_CHARS) hidden.fill(1, Math.max(0, text.length - UNSURE_CHARS))
    return shortened(withoutHidden(text, hidden))
  }
}

/** Decodes escapes, and replaces control and formatting characters and white space. */
const readable = (said: string): string =>
  withoutEscapes(said.slice(0, PROVIDER_MESSAGE_RECEIVED_CHARS))
    .normalize('NFKC')
    .replace(/[\p{C}\p{Z}]+/gu, ' ')
    .trim()

/** Marks the characters of a stretch, and the rest of the words in which it begins and ends. */
function hide(hidden: Uint8Array, { text, charOf }: FoldedText, start: number, end: number): void {
  let from = charOf[start] ?? 0
  let to = (charOf[end - 1] ?? text.length - 1) + 1
  while (from > 0 && !hidden[from - 1] && isOfWord(text, from - 1)) from -= 1
  while (to < text.length && !hidden[to] && isOfWord(text, to)) to += 1
  hidden.fill(1, from, to)
}

const isOfWord = (text: string, at: number): boolean => /[\p{L}\p{N}\p{M}\p{Cs}]/u.test(text[at] ?? '')

/** The maximum number of quotations that are compared, because each is searched in the whole request. */
const QUOTATIONS = 16
/** The characters of a quotation. Longer ones are found as stretches. */
const QUOTATION = /(["'`“‘«])([^"'`”’»]{3,40})["'`”’»]/g

/** Hides short quotations that occur in the request, such as `'hunter2'`. */
function hideQuotes(hidden: Uint8Array, text: string, request: Buffer): void {
  let left = QUOTATIONS
  for (const { index, 2: quoted = '' } of text.matchAll(QUOTATION)) {
    const bytes = foldedBytes(quoted)
    const isUnread = left-- <= 0
    if (isUnread || (bytes.length >= 3 && request.includes(bytes))) {
      hidden.fill(1, index + 1, index + 1 + quoted.length)
    }
  }
}

function withoutHidden(text: string, hidden: Uint8Array): string {
  let shown = ''
  for (let at = 0; at < text.length; at++) {
    if (!hidden[at]) shown += text[at]
    else if (!hidden[at - 1]) shown += '…'
  }
  return shown
    .replace(/…(?:[\s\p{P}\p{S}]*…)+/gu, '…')
    .replace(/ +/g, ' ')
    .trim()
}

function shortened(text: string): string | undefined {
  if (!/\p{L}{2}/u.test(text)) return undefined
  const characters = [...text]
  if (characters.length <= PROVIDER_MESSAGE_CHARS) return text.toWellFormed()
  return `${characters.slice(0, PROVIDER_MESSAGE_CHARS - 1).join('')}…`.toWellFormed()
}

/** Members below which the caller chooses the names: JSON Schemas, and members that only one API has. */
const WITH_CHOSEN_NAMES: ReadonlySet<string> = new Set([
  'parameters',
  'schema',
  'fields',
  'definition',
  'members',
  'block',
])

/** The folded text of everything that was sent. Returns undefined if there is too much of it. */
function foldedBytesOf(sent: readonly unknown[]): Buffer | undefined {
  const texts: string[] = []
  const seen = new Set<unknown>()
  let left = COMPARED_BYTES
  const waiting: { value: unknown; withNames: boolean }[] = sent.map((value) => ({ value, withNames: false }))
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const { value, withNames } = next
    const text = value instanceof Uint8Array ? Buffer.from(value.buffer, value.byteOffset, value.length) : value
    if (typeof text === 'string' || Buffer.isBuffer(text)) {
      const content = text.toString()
      // The received and the sent form of a request share most of their texts.
      if (seen.has(content)) continue
      seen.add(content)
      left -= Buffer.byteLength(content)
      if (left < 0) return undefined
      texts.push(content)
    } else if (typeof value === 'object' && value !== null && !seen.has(value)) {
      seen.add(value)
      if (Array.isArray(value)) for (const item of value) waiting.push({ value: item, withNames })
      else {
        for (const [name, member] of Object.entries(value)) {
          if (withNames) waiting.push({ value: name, withNames })
          waiting.push({ value: member, withNames: withNames || WITH_CHOSEN_NAMES.has(name) })
        }
      }
      left -= 1
      if (left < 0) return undefined
    }
  }
  return foldedBytes(texts.join(' '))
}
