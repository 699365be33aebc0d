import { stemmer as stemArabic } from '@orama/stemmers/arabic'
import { stemmer as stemEnglish } from '@orama/stemmers/english'
import { stemmer as stemGreek } from '@orama/stemmers/greek'
import { stemmer as stemHindi } from '@orama/stemmers/indian'
import { stemmer as stemRussian } from '@orama/stemmers/russian'
import { characterBorder, withoutInvisible, wordPieces } from './words.ts'

/**
 * The terms of one word, in the index and in a query. `term` represents the word: it counts towards the length of a
 * text and has a position. `further` contains alternative terms for the same word. A text can match without them.
 */
export type IndexTerm = { term: string; further: readonly Further[] }
/**
 * `exact`: the word with its diacritics. `prefix`: its first characters. `part`: one or more of the word's characters.
 */
export type Further = { kind: 'exact' | 'prefix' | 'part'; term: string }

/**
 * The length of the prefix terms. A prefix term lets a word match its other forms in any language, even if the stemmer
 * fails.
 */
const PREFIX_CHARS = 4
/**
 * The maximum length of a word. Longer runs of characters are not words; they are cut to fit into a page of postings.
 */
const WORD_CHARS = 64

// The first characters of exact terms and of prefix terms. Words never contain these characters, so a word, an exact
// term and a prefix term are never equal.
const EXACT = '^'
const PREFIX = '*'

/** Returns the terms of a text, in order. The terms do not depend on the database engine. */
export function indexTermsOf(text: string): IndexTerm[] {
  const indexTerms: IndexTerm[] = []
  for (const [run] of withoutInvisible(text).matchAll(RUN)) {
    if (ASCII.test(run)) addWord(indexTerms, run.toLowerCase())
    else addRun(indexTerms, run.normalize('NFKC').replace(VOWEL_POINTS, '').toLowerCase())
  }
  return indexTerms
}

const RUN = /[\p{L}\p{N}\p{M}]+/gu
const ASCII = /^[\0-\x7f]*$/
/** Matches optional characters: Hebrew and Arabic vowel marks, and the tatweel, which lengthens Arabic words. */
const VOWEL_POINTS = /[\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670]/g
/** The group makes split() keep the separators. */
const UNSPACED =
  /([\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}ー々]+|[\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]+)/u
/** Whether a word is written in a script without spaces. */
export const isUnspaced = (term: string): boolean => UNSPACED.test(term)

const CHINESE_OR_JAPANESE = /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}ー々]/u

/**
 * Adds the words of a normalized run. Normalization may turn one character into several words, or into numbers with a
 * sign between them.
 */
function addRun(indexTerms: IndexTerm[], normalized: string): void {
  for (const [run] of normalized.matchAll(RUN)) {
    for (const piece of run.split(UNSPACED)) addPiece(indexTerms, piece)
  }
}

function addPiece(indexTerms: IndexTerm[], piece: string): void {
  if (piece === '') return
  if (CHINESE_OR_JAPANESE.test(piece)) addPairs(indexTerms, piece)
  else if (UNSPACED.test(piece)) addSegmentedWords(indexTerms, piece)
  else addWord(indexTerms, piece)
}

/**
 * Adds the term of a word. If the run consists only of accents without a base letter, it is skipped, because it is not
 * a word.
 */
function addWord(indexTerms: IndexTerm[], word: string): void {
  const indexTerm = indexTermOf(word)
  if (indexTerm.term !== '') indexTerms.push(indexTerm)
}

/** Adds all pairs of adjacent characters: without a dictionary, they approximate words. */
function addPairs(indexTerms: IndexTerm[], run: string): void {
  const characters = [...run]
  const part = (term: string): Further => ({ kind: 'part', term })
  for (const [at, character] of characters.entries()) {
    const next = characters[at + 1]
    indexTerms.push(
      next === undefined ? { term: character, further: [] } : { term: character + next, further: [part(character)] },
    )
  }
}

/**
 * Adds the words that the segmenter finds with its dictionary. Also adds all three-character parts, because names are
 * often segmented wrongly.
 */
function addSegmentedWords(indexTerms: IndexTerm[], run: string): void {
  const characters = [...run]
  let start = 0
  for (const word of wordPieces(run)) {
    const end = start + [...word].length
    const further: Further[] = []
    for (let at = start; at < end && at + 3 <= characters.length; at++) {
      further.push({ kind: 'part', term: characters.slice(at, at + 3).join('') })
    }
    indexTerms.push({ term: shortened(word), further })
    start = end
  }
}

/** Caches the terms of words, because words repeat and stemming takes longer than a look-up. */
const known = new Map<string, IndexTerm>()
const KNOWN_WORDS = 50_000

function indexTermOf(word: string): IndexTerm {
  const stored = known.get(word)
  if (stored !== undefined) return stored
  const indexTerm = makeIndexTerm(shortened(word))
  if (word.length > WORD_CHARS) return indexTerm
  // When full, the cache is cleared: refilling is cheap, and an LRU would cost as much as stemming.
  if (known.size === KNOWN_WORDS) known.clear()
  known.set(word, indexTerm)
  return indexTerm
}

const shortened = (word: string): string => word.slice(0, characterBorder(word, WORD_CHARS))

function makeIndexTerm(word: string): IndexTerm {
  const folded = fold(word)
  if (HANGUL.test(word)) return { term: folded, further: hangulPairs(folded) }
  const further: Further[] = []
  if (folded !== word && LATIN.test(folded)) further.push({ kind: 'exact', term: EXACT + word })
  const prefix = folded.slice(0, characterBorder(folded, PREFIX_CHARS))
  if (prefix !== folded) further.push({ kind: 'prefix', term: PREFIX + prefix })
  return { term: stem(word, folded), further }
}

const HANGUL = /\p{Script=Hangul}/u
const LATIN = /[a-z]/

/**
 * In Korean, particles are attached to the word. Each pair of consecutive syllables therefore becomes a term as well.
 */
function hangulPairs(word: string): Further[] {
  const syllables = [...word]
  return syllables.slice(1).map((syllable, at) => ({ kind: 'part', term: `${syllables[at]}${syllable}` }))
}

/**
 * Applies the stemmer of the word's script. English suffix rules do little harm to other languages in Latin script, and
 * the language of a short query is unknown. The prefix term covers words that the stemmer misses.
 */
function stem(word: string, folded: string): string {
  if (LATIN.test(folded)) return stemEnglish(folded)
  if (/\p{Script=Cyrillic}/u.test(word)) return fold(stemRussian(word))
  if (/\p{Script=Greek}/u.test(word)) return fold(stemGreek(word))
  if (/\p{Script=Arabic}/u.test(word)) return stemArabic(word) || word
  if (/\p{Script=Devanagari}/u.test(word)) return stemHindi(word) || word
  return folded
}

const ACCENTS = /[\u0300-\u036f]/g
const LETTERS: Readonly<Record<string, string>> = {
  ß: 'ss',
  æ: 'ae',
  œ: 'oe',
  ø: 'o',
  đ: 'd',
  ð: 'd',
  þ: 'th',
  ł: 'l',
  ı: 'i',
  ς: 'σ',
  أ: 'ا',
  إ: 'ا',
  آ: 'ا',
  ى: 'ي',
  ی: 'ي',
  ک: 'ك',
  ة: 'ه',
}
const LETTER = new RegExp(`[${Object.keys(LETTERS).join('')}]`, 'g')

/**
 * Removes accents and unifies variants of letters, because people often omit accents and marks when they type quickly.
 */
function fold(word: string): string {
  if (ASCII.test(word)) return word
  const letters = word.normalize('NFD').replace(ACCENTS, '').normalize('NFC')
  return letters.replace(LETTER, (letter) => LETTERS[letter] ?? letter)
}
