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
import { isKnownWord } from './words.ts'

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
const LEAST_CHARS = 8
const LETTERS_APART = /(?<![\p{L}\p{N}])\p{L}(?:[ ._*|-]{1,3}\p{L}(?![\p{L}\p{N}])){6,}/gu

/**
 * Returns all decodings of a text that differ from the text. Takes time linear in the length of the text.
 * @param words the words of the text in lower case
 */
export function decodeAll(text: string, words: readonly string[]): Decoded[] {
  const decoded: Decoded[] = []
  const add = (encoding: Encoding, found: string) => {
    if (found.trim().length >= LEAST_CHARS) decoded.push({ encoding, text: found.slice(0, ENCODED_CHARS) })
  }
  add('base64', fromBase64Runs(text))
  add('hex', texts(hexPatches(text)))
  add('binary', texts(binaryPatches(text)))
  add('decimal', texts(decimalPatches(text)))
  add('url', text.includes('%') ? substituted(text, percentPatches(text), 9) : '')
  add('html', text.includes('&') ? substituted(text, entityPatches(text), 12) : '')
  add('escapes', text.includes('\\') ? substituted(text, escapePatches(text), 4) : '')
  add('rot13', fromRot13(text, words))
  add('reversed', fromReversed(text, words))
  add('leetspeak', fromLeet(text))
  add('spaced', fromSpaced(text))
  add('camel', fromCamel(text))
  return decoded
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
const WORDS = /(?<![\w+/=-])[A-Za-z][a-z]{3,}(?![\w+/=-])/
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
const REVERSED = new Set(PROBES.map((word) => Array.from(word).reverse().join('')))
const PROBED_WORDS = 800

/** Whether the words contain several probes in the form that an encoding gives them. Reads at most PROBED_WORDS. */
function hides(words: readonly string[], encoded: ReadonlySet<string>): boolean {
  const most = Math.min(words.length, PROBED_WORDS)
  let hidden = 0
  for (let at = 0; at < most; at++) if (encoded.has(words[at] as string)) hidden++
  if (hidden < 2 || hidden >= 4) return hidden >= 4
  let clear = 0
  for (let at = 0; at < most; at++) if (CLEAR.has(words[at] as string)) clear++
  return hidden > clear
}

const fromRot13 = (text: string, words: readonly string[]): string =>
  hides(words, ROT13) ? rot13(text.slice(0, ENCODED_CHARS)) : ''

const fromReversed = (text: string, words: readonly string[]): string =>
  hides(words, REVERSED) ? Array.from(text.slice(0, ENCODED_CHARS)).reverse().join('') : ''

const SIGNS = /[0-9@$!|+€]/g
/** Matches a sign inside or at the start of a word. */
const SIGN_IN_WORD = /[0-9@$!|+€][a-z]|[a-z][0-9@$!|+€][a-z0-9@$!|+€]/i
/** Decodes words in which digits and symbols stand for letters, if several of the decoded words are known words. */
function fromLeet(text: string): string {
  if (!SIGN_IN_WORD.test(text)) return ''
  let known = 0
  const clear = text.slice(0, ENCODED_CHARS).replace(/[a-z0-9@$!|+€]{2,24}/gi, (token) => {
    if (!/[a-z]/i.test(token) || !/[0-9@$!|+€]/.test(token.slice(0, -1))) return token
    const turned = token.replace(SIGNS, (sign) => LEET_LETTERS[sign] ?? sign).toLowerCase()
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

const HUMPS = /(?<![A-Za-z])(?:[A-Z]?[a-z]+)(?:[A-Z][a-z]*){3,}(?![A-Za-z])/g
const LEAST_KNOWN_HUMPS = 3

/** Splits words in camel case into their parts, if several of the parts are known words. */
function fromCamel(text: string): string {
  const found: string[] = []
  for (const [run] of text.slice(0, ENCODED_CHARS).matchAll(HUMPS)) {
    const words = run.split(/(?=[A-Z])/)
    if (words.filter((word) => isKnownWord(word.toLowerCase())).length >= LEAST_KNOWN_HUMPS) found.push(words.join(' '))
  }
  return found.join('\n')
}
