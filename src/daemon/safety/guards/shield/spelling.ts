/**
 * Marks that only change the sound of a letter. The vowel signs of the scripts of South and Southeast Asia are also
 * marks, but they are letters of a word, so they are not included. The exceptions are nukta dots, which many people
 * omit.
 */
const ACCENTS =
  /[\u093c\u09bc\u0a3c\u0abc]|(?:(?![\p{sc=Devanagari}\p{sc=Bengali}\p{sc=Gurmukhi}\p{sc=Gujarati}\p{sc=Oriya}\p{sc=Tamil}\p{sc=Telugu}\p{sc=Kannada}\p{sc=Malayalam}\p{sc=Sinhala}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}\p{sc=Myanmar}\p{sc=Tibetan}])\p{M})+/gu

/**
 * Letters without a decomposition, letters that Arabic, Persian and Urdu encode differently, nasal signs of Indic
 * scripts, and full stops, question marks and apostrophes of several scripts. Each pair is a letter and its spelling.
 */
const SAME_LETTERS = new Map<string, string>([
  ...pairs('ß ss ł l Ł L đ d Đ D ð d ø o Ø O æ ae Æ AE œ oe Œ OE ı i þ th'),
  ...pairs('\u064a \u06cc \u0649 \u06cc \u0643 \u06a9 \u0629 \u0647 \u06c1 \u0647 \u06be \u0647'),
  ...pairs('\u0901 \u0902 \u0981 \u0982'),
  ...pairs("। . ॥ . ۔ . ։ . ። . ။ . ។ . ؟ ? ، , ؛ ; ‘ ' ʻ ' ʼ '"),
  ['\u0640', ''],
])
const OTHER_LETTERS = new RegExp(`[${[...SAME_LETTERS.keys()].join('')}]`, 'g')

function pairs(text: string): [string, string][] {
  const parts = text.split(' ')
  return parts.flatMap((part, at): [string, string][] => (at % 2 === 0 ? [[part, parts[at + 1]!]] : []))
}

const NOT_ASCII = /[^\0-\x7f]/

/** Returns the text without accents and width forms, in the original case. */
export function withoutAccents(text: string): string {
  if (!NOT_ASCII.test(text)) return text
  return text
    .normalize('NFKD')
    .replace(ACCENTS, '')
    .normalize('NFC')
    .replace(OTHER_LETTERS, (letter) => SAME_LETTERS.get(letter)!)
}

/** Returns the spelling that the lexicon and the compared texts use. */
export const plainSpelling = (text: string): string => withoutAccents(text).toLowerCase()
