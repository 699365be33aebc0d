// Decodes text that hides an attack. The encodings are those of the shared view (view/encodings.ts). This file adds those
// that need the words of the lexicon, and those that only a reader of instructions can undo.
import { LEET as LEET_LETTERS } from '../view/characters.ts'
import {
  type Base64Letters,
  binaryPatches,
  decimalPatches,
  ENCODED_CHARS,
  entityPatches,
  escapePatches,
  fromBase64,
  hexPatches,
  percentPatches,
  rot13,
} from '../view/encodings.ts'
import { MappedText, type Patch } from '../view/mapped-text.ts'
import { plainSpelling } from './spelling.ts'
import { isKnownWord, knownWords, readWords, type Words } from './words.ts'

/** Encodings that can hide text inside other text. */
export type Encoding =
  | 'base64'
  | 'hex'
  | 'binary'
  | 'decimal'
  | 'url'
  | 'html'
  | 'escapes'
  | 'rot13'
  | 'reversed'
  | 'leetspeak'
  | 'spaced'
  | 'camel'
  | 'tags'

/** Decoded text, and the encoding in which it was hidden. */
export type Decoded = { encoding: Encoding; text: string }

/**
 * The maximum length of text in which spaced letters are joined. It is smaller than ENCODED_CHARS, because joining is
 * expensive.
 */
const SPACED_CHARS = 8_192
const LEAST_SINGLES = 7
const LEAST_CHARS = 8
const LETTERS_APART = /(?<![\p{L}\p{N}])\p{L}(?:[ ._*|-]{1,3}\p{L}(?![\p{L}\p{N}])){6,}/gu

/**
 * Returns all decodings of a text that differ from the text. Takes time linear in the length of the text.
 * @param read the words of the text, and the text before its letters were cleaned: vowel signs that do not follow a letter
 *   exist only there
 */
export function decodeAll(text: string, read: { words: Words; written: string }): Decoded[] {
  const decoded: Decoded[] = []
  const add = (encoding: Encoding, found: string) => {
    if (found.trim().length >= LEAST_CHARS) decoded.push({ encoding, text: found.slice(0, ENCODED_CHARS) })
  }
  const marks = marksOf(text)
  const hasDigits = marks.digits >= LEAST_DIGITS
  add('base64', fromBase64Runs(text))
  add('hex', hasDigits ? texts(hexPatches(text)) : '')
  add('binary', hasDigits ? texts(binaryPatches(text)) : '')
  add('decimal', hasDigits ? texts(decimalPatches(text)) : '')
  add('url', text.includes('%') ? substituted(text, percentPatches(text), 9) : '')
  add('html', text.includes('&') ? substituted(text, entityPatches(text), 12) : '')
  add('escapes', text.includes('\\') ? substituted(text, escapePatches(text), 4) : '')
  add('rot13', isRot13(read.words) ? rot13(text.slice(0, ENCODED_CHARS)) : '')
  add('reversed', isReversed(read.words, read.written) ? reversed(read.written.slice(0, ENCODED_CHARS)) : '')
  add('leetspeak', marks.mixed >= LEAST_LEET_WORDS ? fromLeet(text) : '')
  if (marks.singles >= LEAST_SINGLES) add('spaced', fromSpacedText(read.written) || fromSpaced(text))
  add('camel', marks.humps >= LEAST_KNOWN_HUMPS ? fromCamel(text) : '')
  return decoded
}

/** Characters of the Latin alphabet count in all texts. Other letters count as every kind that they could be. */
type Marks = { digits: number; mixed: number; singles: number; humps: number }

const LEAST_DIGITS = 8
const OTHER = 0
const LOWER = 1
const UPPER = 2
const DIGIT = 3
const SIGN = 4
const FOREIGN = 5
const CLASSES = Uint8Array.from({ length: 128 }, (_, code) => {
  const char = String.fromCharCode(code)
  if (/[a-z]/.test(char)) return LOWER
  if (/[A-Z]/.test(char)) return UPPER
  if (/[0-9]/.test(char)) return DIGIT
  return /[@$!|+]/.test(char) ? SIGN : OTHER
})
const isLetter = (kind: number): boolean => kind === LOWER || kind === UPPER || kind === FOREIGN

const kindOf = (code: number): number => {
  if (code < 128) return CLASSES[code]!
  return code < 0xc0 || (code >= 0x2000 && code < 0x2c00) ? OTHER : FOREIGN
}

/**
 * Counts what the slower searches need at least: digits, signs beside letters, the most single letters in a row, capitals
 * inside words.
 */
function marksOf(text: string): Marks {
  const marks: Marks = { digits: 0, mixed: 0, singles: 0, humps: 0 }
  let before = OTHER
  let twoBefore = OTHER
  let singles = 0
  for (let at = 0; at <= text.length; at++) {
    const kind = at < text.length ? kindOf(text.charCodeAt(at)) : OTHER
    if (kind === DIGIT) marks.digits++
    if (isLetter(before)) {
      if (kind === DIGIT || kind === SIGN) marks.mixed++
      else if (kind === UPPER ? before !== UPPER : kind === FOREIGN) marks.humps++
      if (kind !== FOREIGN && isLetter(kind)) singles = 0
      else if (before === FOREIGN || !isLetter(twoBefore)) singles++
    } else if ((before === DIGIT || before === SIGN) && isLetter(kind)) marks.mixed++
    if (singles > marks.singles) marks.singles = singles
    twoBefore = before
    before = kind
  }
  return marks
}

const LETTERS_IN_A_ROW = /\p{L}{2}/u
/** Returns the decoded texts that contain words. */
const texts = (patches: readonly Patch[]): string =>
  patches.flatMap(({ text }) => (LETTERS_IN_A_ROW.test(text) ? [text] : [])).join('\n')

function substituted(text: string, patches: readonly Patch[], leastChars: number): string {
  if (patches.reduce((chars, { start, end }) => chars + end - start, 0) < leastChars) return ''
  const clear = new MappedText(text, patches).text
  return clear === text ? '' : clear
}

const BASE64_GROUP = /[A-Za-z0-9+/_-]+={0,2}/g
/**
 * Matches the separators between two groups of one encoded text: a line break with its indentation, quotation marks, a
 * comma.
 */
const GROUPS_GAP = /^[\s"'`,;.|>\\+/_-]{0,8}$/
/** Matches the shape of an ordinary word. Some short base64 groups also match. */
const WORD_SHAPE = /^[A-Za-z]?[a-z]{4,}$/
/** Matches ordinary words. An encoded text cannot span such a word. */
const WORDS = /(?<![\w+/=-])[A-Za-z]?[a-z]{4,}(?![\w+/=-])/
const LEAST_CHAIN_CHARS = 16

/** Decodes base64, including base64 that is split into groups. Consecutive groups are decoded as one. */
const fromBase64Runs = (text: string): string =>
  texts(text.split(WORDS).flatMap((stretch) => (stretch.length < LEAST_CHAIN_CHARS ? [] : base64Patches(stretch))))

function base64Patches(text: string): Patch[] {
  const found: Patch[] = []
  let chain: { group: string; index: number }[] = []
  let end = 0
  const close = () => {
    if (chain.length > 0) found.push(...fromChain(chain))
    chain = []
  }
  for (const { 0: group, index } of text.matchAll(BASE64_GROUP)) {
    if (!/[A-Za-z0-9]/.test(group)) continue
    const isWord = WORD_SHAPE.test(group)
    const isApart = chain.at(-1)?.group.endsWith('=') || !GROUPS_GAP.test(text.slice(end, Math.min(index, end + 16)))
    if (isWord || isApart) close()
    if (!isWord) chain.push({ group, index })
    end = index + group.length
  }
  close()
  return found
}

function fromChain(groups: readonly { group: string; index: number }[]): Patch[] {
  const whole = groups.map(({ group }) => group).join('')
  // Excludes words, paths and identifiers: in most of them, all letters have the same case.
  if (whole.length < LEAST_CHAIN_CHARS || !/[A-Z]/.test(whole) || !/[a-z]/.test(whole)) return []
  const letters: { codes: number[]; at: number[] } = { codes: [], at: [] }
  for (const { group, index } of groups) {
    for (let inside = 0; inside < group.length && group[inside] !== '='; inside++) {
      letters.codes.push(group.charCodeAt(inside))
      letters.at.push(index + inside)
    }
  }
  return fromBase64(letters satisfies Base64Letters)
}

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
const ROT13 = new Set(PROBES.map((word) => rot13(word)))
const REVERSED = new Set(PROBES.map((word) => reversed(word)))
const PROBED_WORDS = 800

function reversed(text: string): string {
  return Array.from(text).reverse().join('')
}

/** Returns how many of the first words are in the set. */
function countIn(words: Set<string>, { words: read }: Words): number {
  let count = 0
  for (let at = 0; at < read.length && at < PROBED_WORDS; at++) if (words.has(read[at]!)) count++
  return count
}

/** Whether a text has more of the hidden words than of the clear ones. */
function hides(hidden: Set<string>, words: Words): boolean {
  const found = countIn(hidden, words)
  return found >= 2 && (found >= 4 || found > countIn(CLEAR, words))
}

const isRot13 = (words: Words): boolean => hides(ROT13, words)

const isReversed = (words: Words, written: string): boolean => hides(REVERSED, words) || readsBackwards(words, written)

const COMPARED_CHARS = 400
const COMPARED_WORDS = 60
/** The share of known words in ordinary text is higher in all languages of the lexicon. */
const MOST_KNOWN = 0.25

/** Whether a text has hardly any known words, but has some if it is read from its end. This holds in any language. */
function readsBackwards(words: Words, written: string): boolean {
  const forwards = knownWords(words, COMPARED_WORDS)
  if (forwards.known > forwards.words * MOST_KNOWN) return false
  const backwards = readWords(plainSpelling(reversed(written.slice(0, COMPARED_CHARS))))
  const { known } = knownWords(backwards, COMPARED_WORDS)
  return known >= 2 && known > 2 * forwards.known
}

const SIGNS = /[0-9@$!|+€]/g
const LEET_WORD = /[a-z0-9@$!|+€]{2,24}/gi
/** Digits that stand alone for the words "a", "i" and "o". */
const LEET_LETTER = /(?<![\p{L}\p{N}.,:#-])[014](?![\p{L}\p{N}.,:)-])/gu
/** One or two signs between letters. */
const LEET_INSIDE = /(?<=\p{L})[0-9@$]{1,2}(?=\p{L})|(?<![\p{L}\p{N}])[0-9](?=\p{L}{2})/gu
const LEAST_LEET_WORDS = 2

const LEET_SHARE = 0.12
const SEGMENT = /(?<=[.!?]["')\]]?)\s+|\n+/

/**
 * Decodes the sentences and lines in which digits and symbols stand for letters in several known words. If most of the
 * text is written like this, the rest of it is kept.
 */
function fromLeet(text: string): string {
  const segments = text.slice(0, ENCODED_CHARS).split(SEGMENT).map(leetSegment)
  const chars = (list: typeof segments) => list.reduce((sum, { clear }) => sum + clear.length, 0)
  const leet = segments.filter(({ isLeet }) => isLeet)
  const read = chars(leet) * 2 >= chars(segments) ? segments : leet
  return leet.length === 0 ? '' : read.map(({ clear }) => clear).join('\n')
}

function leetSegment(segment: string): { clear: string; isLeet: boolean } {
  let known = 0
  let words = 0
  const clear = segment.replace(LEET_WORD, (token) => {
    words++
    if (!/[a-z]/i.test(token) || !/[0-9@$!|+€]/.test(token)) return token
    const turned = turnedLeet(token)
    if (turned === undefined) return token
    known++
    return /^[A-Z]/.test(token) ? turned.charAt(0).toUpperCase() + turned.slice(1) : turned
  })
  const isLeet = known >= LEAST_LEET_WORDS && known >= words * LEET_SHARE
  return { clear: isLeet ? clear.replace(LEET_INSIDE, plainLeet).replace(LEET_LETTER, plainLeet) : clear, isLeet }
}

const plainLeet = (signs: string): string => signs.replace(SIGNS, (sign) => LEET_LETTERS[sign] ?? sign)

/** Returns the known word that a token stands for. A sign at the end may be punctuation. */
function turnedLeet(token: string): string | undefined {
  const end = /[!|+€$@]$/.test(token) ? token.slice(-1) : ''
  for (const [written, after] of [
    [token, ''],
    [token.slice(0, token.length - end.length), end],
  ] as const) {
    const turned = plainLeet(written).toLowerCase()
    if (turned.length < 2) continue
    for (const word of [turned, turned.replaceAll('i', 'l')]) if (isKnownWord(word)) return word + after
  }
  return undefined
}

/** Joins letters that are separated by spaces. */
function fromSpaced(text: string): string {
  const found: string[] = []
  let chars = 0
  for (const [run] of text.slice(0, ENCODED_CHARS).matchAll(LETTERS_APART)) {
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

const LEAST_SPACED = 10
const SINGLE_SHARE = 0.85
const SINGLE_LETTERS = 0.5

/** Joins the characters of a text that consists of single characters and wider gaps between words. Keeps its signs. */
function fromSpacedText(text: string): string {
  const start = text.slice(0, COMPARED_CHARS)
  const tokens = start.split(/\s+/)
  if (tokens.length < LEAST_SPACED || tokens.length < start.length * 0.2) return ''
  const singles = tokens.filter((token) => token.length === 1 || Array.from(token).length === 1)
  const letters = singles.filter((token) => /[\p{L}\p{M}]/u.test(token))
  if (singles.length < tokens.length * SINGLE_SHARE || letters.length < tokens.length * SINGLE_LETTERS) return ''
  const read = text.slice(0, ENCODED_CHARS)
  if (!/\S {2,}\S/.test(read)) return ''
  return read.replace(/(?<! ) (?! )/g, '').replace(/ {2,}/g, ' ')
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

const WORD = /(?<![\p{L}\p{N}])\p{L}[\p{L}\p{M}\p{N}]*/gu
const RISE = /\p{Ll}\p{M}*\p{Lu}/u
const HUMP = /(?=\p{Lu})|(?<=[\p{L}\p{M}])(?=\p{N})|(?<=\p{N})(?=\p{L})/u
const LEAST_HUMPS = 4
const LEAST_KNOWN_HUMPS = 3
/** The share of such words in a text that is written in camel case. Programs have a smaller share. */
const CAMEL_SHARE = 0.6

/**
 * Splits words in camel case into their parts, if several of the parts are known words. If nearly all of the text is
 * written like this, its lines are kept, because each of them is a sentence.
 */
function fromCamel(text: string): string {
  const read = text.slice(0, ENCODED_CHARS)
  if (!RISE.test(read)) return ''
  const found: string[] = []
  let chars = 0
  const clear = read.replace(WORD, (run) => {
    if (!RISE.test(run)) return run
    const words = run.split(HUMP).map((word) => word.toLowerCase())
    if (words.length < LEAST_HUMPS) return run
    chars += run.length
    const spaced = words.join(' ')
    if (words.filter(isKnownWord).length >= LEAST_KNOWN_HUMPS) found.push(spaced)
    return spaced
  })
  return found.length > 0 && chars >= read.trim().length * CAMEL_SHARE ? clear : found.join('\n')
}
