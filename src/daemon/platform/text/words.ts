/** The definition of a word for all code that compares texts: search terms, the built-in model, passage splitting. */

/** U+200B, the word separator in scripts without spaces. It is invisible. */
const WORD_BORDER = '\u200b'

// Scripts that are written without spaces between words.
const UNSPACED_RUN =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}ー々]+/gu
const WORD = /[\p{L}\p{N}\p{M}]+/gu

const wordSegmenter = new Intl.Segmenter('und', { granularity: 'word' })
/**
 * The time of each step of Intl.Segmenter is linear in the length of its input, so the input is split into short
 * pieces.
 */
const SEGMENTER_CHARS = 256

/** Inserts WORD_BORDER between the words of scripts without spaces. */
function withWordBorders(text: string): string {
  return text.replace(UNSPACED_RUN, (run) => WORD_BORDER + wordPieces(run).join(WORD_BORDER) + WORD_BORDER)
}

/** Returns the words of a run of text that has no spaces, in order. */
export function wordPieces(run: string): string[] {
  const words: string[] = []
  for (const piece of pieces(run)) {
    for (const { segment } of wordSegmenter.segment(piece)) words.push(segment)
  }
  return words
}

/** Returns the words of a text in lower case, in order. Words consist of letters, digits and their marks. */
export function wordsOf(text: string): string[] {
  return withWordBorders(withoutInvisible(text)).toLowerCase().match(WORD) ?? []
}

/**
 * Matches soft hyphens, joiners, zero-width spaces and byte order marks. These characters are invisible, but would
 * split words.
 */
const INVISIBLE = /[\u00ad\u200b-\u200d\u2060\ufeff]/g
export const withoutInvisible = (text: string): string => text.replace(INVISIBLE, '')

/** Whether an English word, in lower case, is a stop word. */
export const isStopWord = (word: string): boolean => STOP_WORDS.has(word)

/** Returns the distinct content words, in order. If there are no content words, returns all distinct words. */
export function contentWords(text: string): string[] {
  const meaningful = wordsOf(withoutStopWords(text))
  return [...new Set(meaningful.length > 0 ? meaningful : wordsOf(text))]
}

/**
 * Removes English stop words from a text. If a word is in capitals and the text also has lower-case letters, the word
 * counts as a name, even if it is spelt like a stop word: "US holidays", "the extension of IT".
 */
export const withoutStopWords = (text: string): string => withoutWords(text, () => NO_WORDS)

/**
 * Reduces a question to its topic words: "How do I make a backup?" to "backup". Removes stop words and, from short
 * English questions, everyday words. If no word would remain ("How does it work?"), everyday words are kept.
 */
export function topicOf(question: string): string {
  const topic = withoutWords(question, (line) => (isEverydayQuestion(line) ? EVERYDAY_WORDS : NO_WORDS))
  return /[\p{L}\p{N}]/u.test(topic) ? topic : withoutStopWords(question)
}

/**
 * Everyday words are removed only from short questions. In a long question, they have little weight and can be
 * informative.
 */
const isEverydayQuestion = (line: string): boolean =>
  ENGLISH_QUESTION.test(line) && (line.match(WORD)?.length ?? 0) <= SHORT_QUESTION_WORDS

const SHORT_QUESTION_WORDS = 12

function withoutWords(text: string, furtherIn: (line: string) => ReadonlySet<string>): string {
  return withoutInvisible(text)
    .split('\n')
    .map((line) => {
      const namesAreCapital = OTHER_THAN_CAPITAL.test(line)
      const further = furtherIn(line)
      return line.replace(WORD_OR_REST, (word) => {
        const isName = namesAreCapital && CAPITALS.test(word) && !OPERATORS.has(word)
        const lower = word.toLowerCase()
        return !isName && (APOSTROPHE.test(word) || STOP_WORDS.has(lower) || further.has(lower)) ? ' ' : word
      })
    })
    .join('\n')
}

const NO_WORDS: ReadonlySet<string> = new Set()
/**
 * Matches words that begin English questions but not sentences in other common languages. "was", "will" and "die" are
 * therefore not listed. This check is needed because everyday words also occur in other languages, such as German "See"
 * (lake).
 */
const ENGLISH_QUESTION =
  /^[\s\p{P}]*(?:how|what|which|when|where|who|whom|whose|why|can|could|do|does|did|is|are|should|may|must|tell me|show me|explain|describe)(?![\p{L}\p{N}])/iu

/** Matches words. Also matches the part after an apostrophe ("'s"), because it is not a word on its own. */
const WORD_OR_REST = /(?<=\p{L})['’](?:s|t|d|m|ll|re|ve)(?![\p{L}\p{N}\p{M}])|[\p{L}\p{N}\p{M}]+/giu
const APOSTROPHE = /^['’]/
const OTHER_THAN_CAPITAL = /[\p{Ll}\p{Lo}]/u
const CAPITALS = /^[A-Z]{2,}$/
/** Search operators. Even in capitals, these words are not names. */
const OPERATORS: ReadonlySet<string> = new Set(['AND', 'OR', 'NOT'])

/**
 * Joins each pair of adjacent words into one, because another text may spell them as one word. Example: "back up" →
 * "backup". Each joined word is mapped to its two parts. Pairs of stop words are not joined.
 */
export function joinedWords(text: string): Map<string, readonly [string, string]> {
  const words = wordsOf(text)
  const joined = new Map<string, readonly [string, string]>()
  for (const [at, word] of words.entries()) {
    const next = words[at + 1]
    if (next === undefined || !JOINABLE.test(word) || !JOINABLE.test(next)) continue
    if (!STOP_WORDS.has(word) || !STOP_WORDS.has(next)) joined.set(word + next, [word, next])
  }
  return joined
}

const JOINABLE = /^[a-z]{2,20}$/

function* pieces(run: string): Generator<string> {
  for (let start = 0; start < run.length; ) {
    const end = characterBorder(run, start + SEGMENTER_CHARS)
    yield run.slice(start, end)
    start = end
  }
}

/** Returns `index`, or `index` - 1 if a cut at `index` would split a surrogate pair. */
export function characterBorder(text: string, index: number): number {
  if (index >= text.length) return text.length
  const code = text.charCodeAt(index)
  return code >= 0xdc00 && code <= 0xdfff && index > 0 ? index - 1 : index
}

const STOP_WORDS: ReadonlySet<string> = new Set(
  (
    'a about after again all also am an and any are as at be because been before being below between both but by can ' +
    'could did do does doing during each few for from further had has have having he her here hers him his how ' +
    'i if in into is it its itself just let many may me might more most much must my no nor not of off on once only or other ' +
    'our out over own please same shall she should so some such tell than that the their them then there these they ' +
    'this those through to too under until up us very want was we were what when where which while who whom whose why ' +
    'will with would you your'
  ).split(' '),
)
/** Everyday words in questions. These words describe the kind of answer, not the topic. */
const EVERYDAY_WORDS: ReadonlySet<string> = new Set(
  (
    'able ask asked asks big come comes describe describes exist exists explain explains find found get gets getting give ' +
    'given gives go goes going gone got happen happened happens help helps instead know known long look looks made make makes ' +
    'making mean means meant need needed needs often possible put puts say says see seen set show shown shows support supported ' +
    'supports take taken takes try use used uses using way work working works'
  ).split(' '),
)
