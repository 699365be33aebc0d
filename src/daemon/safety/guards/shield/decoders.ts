// Decodes text that hides an attack. This file is long, because it handles every encoding.
import { isKnownWord } from './words.ts'

/** Encodings that can hide text inside other text. */
export type Encoding =
  | 'base64'
  | 'hex'
  | 'binary'
  | 'url'
  | 'html'
  | 'escapes'
  | 'rot13'
  | 'reversed'
  | 'leetspeak'
  | 'spaced'
  | 'tags'

/** Decoded text, and the encoding in which it was hidden. */
export type Decoded = { encoding: Encoding; text: string }

/** A match of a regular expression: the whole match, then its groups. */
type Match = readonly (string | undefined)[]

/** The maximum length of text to decode, and of decoded text. This limit bounds the work even for hostile input. */
const DECODED_CHARS = 32_768
/**
 * The maximum length of text in which spaced letters are joined. It is smaller than DECODED_CHARS, because joining is
 * expensive.
 */
const SPACED_CHARS = 8_192
const LEAST_CHARS = 8

const HEX_RUN = /(?:(?:\\x|0x|%)?[0-9a-fA-F]{2}[ :,]?){10,}/g
const BINARY_RUN = /(?:[01]{8}[ ,]?){4,}/g
const ENTITY = /&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|(lt|gt|amp|quot|apos|nbsp));/g
const ENTITIES: Record<string, string> = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'", nbsp: ' ' }
const PERCENT = /(?:%[0-9a-fA-F]{2})+/g
const ESCAPE = /\\(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([nrt"'\\/]))/g
const LETTERS_APART = /(?<![\p{L}\p{N}])\p{L}(?:[ ._*|-]{1,3}\p{L}(?![\p{L}\p{N}])){6,}/gu

/** Returns all decodings of a text that differ from the text. Takes time linear in the length of the text. */
export function decodeAll(text: string): Decoded[] {
  const decoded: Decoded[] = []
  const add = (encoding: Encoding, found: string) => {
    if (found.trim().length >= LEAST_CHARS) decoded.push({ encoding, text: found.slice(0, DECODED_CHARS) })
  }
  add('base64', fromBase64Runs(text))
  add('hex', decodeRuns(text, HEX_RUN, fromHex))
  add('binary', decodeRuns(text, BINARY_RUN, fromBinary))
  add('url', substituted(text, PERCENT, fromPercent, 9))
  add('html', substituted(text, ENTITY, fromEntity, 12))
  add('escapes', substituted(text, ESCAPE, fromEscape, 4))
  add('rot13', fromRot13(text))
  add('reversed', fromReversed(text))
  add('leetspeak', fromLeet(text))
  add('spaced', fromSpaced(text))
  return decoded
}

function decodeRuns(text: string, pattern: RegExp, decode: (run: string) => string | undefined): string {
  const found: string[] = []
  for (const [run] of text.matchAll(pattern)) {
    const clear = decode(run.slice(0, DECODED_CHARS))
    if (clear !== undefined) found.push(clear)
  }
  return found.join('\n')
}

const BASE64_GROUP = /[A-Za-z0-9+/_-]+={0,2}/g
/**
 * Matches the separators between two groups of one encoded text: a line break with its indentation, quotation marks, a
 * comma.
 */
const GROUPS_GAP = /^[\s"'`,;.|>\\+/_-]{0,8}$/
/** Matches the shape of an ordinary word. Some short base64 groups also match. */
const WORD_SHAPE = /^[A-Za-z]?[a-z]{4,}$/
const LEAST_CHAIN_CHARS = 16

/** Decodes base64, including base64 that is split into groups. Consecutive groups are decoded as one. */
function fromBase64Runs(text: string): string {
  const found: string[] = []
  let chain: string[] = []
  let end = 0
  const close = () => {
    if (chain.length > 0) found.push(...fromChain(chain))
    chain = []
  }
  for (const { 0: group, index } of text.matchAll(BASE64_GROUP)) {
    if (!/[A-Za-z0-9]/.test(group)) continue
    const isWord = WORD_SHAPE.test(group)
    if (isWord || chain.at(-1)?.endsWith('=') || !GROUPS_GAP.test(text.slice(end, Math.min(index, end + 16)))) close()
    if (!isWord) chain.push(group)
    end = index + group.length
  }
  close()
  return found.join('\n')
}

function fromChain(groups: readonly string[]): string[] {
  const letters = groups.join('')
  if (letters.length < LEAST_CHAIN_CHARS) return []
  const whole = fromBase64(letters)
  if (whole !== undefined) return [whole]
  if (groups.length === 1) return []
  const single = groups.flatMap((group) => (group.length < LEAST_CHAIN_CHARS ? [] : (fromBase64(group) ?? [])))
  if (!/[A-Z]/.test(letters) || !/[a-z]/.test(letters)) return single
  // Tries all four alignments: short words that look like base64 groups may shift the alignment of the real groups.
  const known = single.join('\n')
  const stretches = [0, 1, 2, 3].flatMap((step) => readableStretches(Buffer.from(letters.slice(step), 'base64')))
  return [...single, ...stretches.filter((stretch) => !known.includes(stretch.trim()))]
}

const LEAST_STRETCH_BYTES = 16

/**
 * Returns the parts of the bytes that are text. A wrong alignment yields noise, and noise does not contain long runs of
 * readable characters.
 */
function readableStretches(bytes: Buffer): string[] {
  const stretches: string[] = []
  let start = 0
  for (let at = 0; at <= bytes.length; ) {
    const length = characterBytes(bytes, at)
    if (length > 0) {
      at += length
      continue
    }
    if (at - start >= LEAST_STRETCH_BYTES) stretches.push(bytes.toString('utf8', start, at))
    at++
    start = at
  }
  return stretches
}

/**
 * Returns the length in bytes of the character that begins here. Returns 0 if the bytes are not a valid character, or
 * are a control character other than tab and line breaks.
 */
function characterBytes(bytes: Buffer, at: number): number {
  const first = bytes[at]
  if (first === undefined) return 0
  if (first < 0x80) return first >= 0x20 && first < 0x7f ? 1 : first === 10 || first === 13 || first === 9 ? 1 : 0
  const length =
    first >= 0xc2 && first < 0xe0 ? 2 : first >= 0xe0 && first < 0xf0 ? 3 : first >= 0xf0 && first < 0xf5 ? 4 : 0
  for (let next = 1; next < length; next++) if ((bytes[at + next] ?? 0) >> 6 !== 2) return 0
  return length
}

function substituted(text: string, pattern: RegExp, decode: (match: Match) => string, leastChars: number): string {
  let chars = 0
  const clear = text.replace(pattern, (...match: (string | undefined)[]) => {
    chars += match[0]?.length ?? 0
    return decode(match)
  })
  return chars >= leastChars && clear !== text ? clear : ''
}

function fromBase64(run: string): string | undefined {
  // Excludes words, paths and identifiers: in most of them, all letters have the same case.
  if (!/[A-Z]/.test(run) || !/[a-z]/.test(run)) return undefined
  return readable(Buffer.from(run, 'base64'))
}

const fromHex = (run: string): string | undefined =>
  readable(Buffer.from(run.replace(/\\x|0x|[^0-9a-fA-F]/g, ''), 'hex'))

const fromBinary = (run: string): string | undefined =>
  readable(Buffer.from(Array.from(run.matchAll(/[01]{8}/g), ([bits]) => Number.parseInt(bits, 2))))

/** Returns the bytes as text. Returns undefined if they are not text. */
function readable(bytes: Buffer): string | undefined {
  if (bytes.length < 4) return undefined
  const text = bytes.toString('utf8')
  let plain = 0
  for (const char of text) if (/[\p{L}\p{N}\p{P}\p{Zs}\n\t]/u.test(char)) plain++
  return plain >= text.length * 0.92 && /\p{L}{2}/u.test(text) ? text : undefined
}

function fromPercent([run = '']: Match): string {
  return Buffer.from(run.replaceAll('%', ''), 'hex').toString('utf8')
}

function fromEntity([whole = '', decimal, hex, name]: Match): string {
  if (name !== undefined) return ENTITIES[name] ?? whole
  return character(Number.parseInt(decimal ?? hex ?? '0', decimal ? 10 : 16))
}

function fromEscape([, braced, unit, byte, short]: Match): string {
  const code = braced ?? unit ?? byte
  if (code !== undefined) return character(Number.parseInt(code, 16))
  return short === 'n' || short === 'r' ? '\n' : short === 't' ? '\t' : (short ?? '')
}

const character = (code: number): string => (code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : '')

const PROBES = [
  'the',
  'and',
  'you',
  'your',
  'all',
  'ignore',
  'is',
  'what',
  'password',
  'system',
  'instructions',
  'previous',
  'tell',
  'me',
  'to',
  'prompt',
  'reveal',
  'of',
  'with',
  'how',
  'secret',
  'forget',
  'rules',
  'answer',
]
const CLEAR = new Set(PROBES)
const ROT13 = new Set(PROBES.map((word) => rotate(word)))
const REVERSED = new Set(PROBES.map((word) => Array.from(word).reverse().join('')))
const PROBED_CHARS = 4_000

function rotate(text: string): string {
  return text.replace(/[a-z]/gi, (letter) => {
    const base = letter <= 'Z' ? 65 : 97
    return String.fromCharCode(((letter.charCodeAt(0) - base + 13) % 26) + base)
  })
}

/** Returns how many words of the text are in the set. Reads at most PROBED_CHARS. */
function surplus(text: string, words: Set<string>): number {
  let count = 0
  for (const [word] of text
    .slice(0, PROBED_CHARS)
    .toLowerCase()
    .matchAll(/[a-z]+/g)) {
    if (words.has(word)) count++
  }
  return count
}

const fromRot13 = (text: string): string => {
  const hidden = surplus(text, ROT13)
  return hidden >= 2 && (hidden > surplus(text, CLEAR) || hidden >= 4) ? rotate(text.slice(0, DECODED_CHARS)) : ''
}

const fromReversed = (text: string): string => {
  const hidden = surplus(text, REVERSED)
  if (hidden < 2 || (hidden <= surplus(text, CLEAR) && hidden < 4)) return ''
  return Array.from(text.slice(0, DECODED_CHARS)).reverse().join('')
}

const LEET: Record<string, string> = {
  0: 'o',
  1: 'i',
  3: 'e',
  4: 'a',
  5: 's',
  7: 't',
  8: 'b',
  '@': 'a',
  $: 's',
  '!': 'i',
  '|': 'l',
  '+': 't',
  '€': 'e',
}

/** Decodes words in which digits and symbols stand for letters, if several of the decoded words are known words. */
function fromLeet(text: string): string {
  let known = 0
  const clear = text.slice(0, DECODED_CHARS).replace(/[a-z0-9@$!|+€]{2,24}/gi, (token) => {
    if (!/[a-z]/i.test(token) || !/[0-9@$!|+€]/.test(token.slice(0, -1))) return token
    const turned = token.replace(/[0-9@$!|+€]/g, (sign) => LEET[sign] ?? sign).toLowerCase()
    for (const word of [turned, turned.replaceAll('i', 'l')]) {
      if (!isKnownWord(word)) continue
      known++
      return word
    }
    return token
  })
  return known >= 2 ? clear : ''
}

/** Joins letters that are separated by spaces. */
function fromSpaced(text: string): string {
  const found: string[] = []
  let chars = 0
  for (const [run] of text.slice(0, DECODED_CHARS).matchAll(LETTERS_APART)) {
    chars += run.length
    if (chars > SPACED_CHARS) break
    // Wider gaps separate words.
    const words = run.trim().split(/[ ._*|-]{2,}/)
    found.push(
      words
        .map((word) => word.replace(/[ ._*|-]/g, ''))
        .map((word) => (words.length > 2 ? word : splitWords(word)))
        .join(' '),
    )
  }
  return found.join('\n')
}

const LONGEST_SPLIT = 16
const SPLIT_CHARS = 400

/** Splits a run of letters without gaps into the fewest known words. */
function splitWords(run: string): string {
  const letters = run.slice(0, SPLIT_CHARS).toLowerCase()
  const best: { cost: number; from: number }[] = [{ cost: 0, from: 0 }]
  for (let end = 1; end <= letters.length; end++) {
    let found = { cost: best[end - 1]!.cost + 3, from: end - 1 }
    for (let from = Math.max(0, end - LONGEST_SPLIT); from < end; from++) {
      const cost = best[from]!.cost + 1
      if (cost < found.cost && (end - from > 1 || /[ai]/.test(letters[from]!)) && isKnownWord(letters.slice(from, end)))
        found = { cost, from }
    }
    best.push(found)
  }
  const words: string[] = []
  for (let end = letters.length; end > 0; end = best[end]!.from) words.unshift(letters.slice(best[end]!.from, end))
  return words.join(' ')
}
