import type { PiiEntity } from '../../../../shared/pii-entities.ts'
import { isAadhaar, isCodiceFiscale, isCpf, isDniOrNie, isNhsNumber, isNir, isSteuerId } from './checksums.ts'

/**
 * A national identity number with a fixed form. `pattern` matches from the first character. `isValid` receives the
 * number without separators, in upper case. `withoutWords` returns when the number is accepted without context words:
 * `always`, `alone` (only if it is alone on its line) or `never`.
 */
export type IdentityRule = {
  entity: PiiEntity
  startsWith: 'digit' | 'letter'
  /** The possible numbers of leading digits, or of leading letters if `startsWith` is `letter`. */
  heads: readonly number[]
  /** The minimum number of digits in a match. */
  minDigits: number
  pattern: RegExp
  words: RegExp
  withoutWords: (value: string) => 'always' | 'alone' | 'never'
  isValid: (compact: string, explained: boolean) => boolean
  /** The confidence without context words. With context words, a fixed confidence is used instead. */
  confidence: number
}

// A match must not be followed by a letter or digit, or by a separator with another digit. A comma may follow, because
// it separates two numbers.
const AFTER = String.raw`(?!\w|[-./]\d)`
// A grouped number must not be followed by another group either.
const AFTER_GROUPS = String.raw`(?!\w|[-./]\d| \d{3})`

const always = () => 'always' as const
const whenSeparated = (value: string) => (/[^A-Za-z0-9]/.test(value) ? 'always' : 'alone')
const valid = () => true

/** Sources: checksums.ts cites the sources of numbers with check digits, and this file cites all others. */
export const IDENTITY_RULES: readonly IdentityRule[] = [
  {
    // SSA, "Social Security Number Randomization": the area is not 000, 666 or 9xx, and each group contains a digit
    // other than 0.
    entity: 'US_SSN',
    startsWith: 'digit',
    heads: [3, 9],
    minDigits: 9,
    pattern: rule(String.raw`(?!000|666|9)\d{3}([-. ]?)(?!00)\d{2}\1(?!0000)\d{4}`, AFTER_GROUPS),
    words: /\b(?:ssns?|socials?|soc|sec|social[ -]?security|seguro social)\b/,
    withoutWords: (value) => (value[3] === '-' ? 'always' : 'never'),
    isValid: valid,
    confidence: 0.85,
  },
  {
    // IRS, Internal Revenue Manual 3.21.263: 9xx, then a group of 50-65, 70-88, 90-92 or 94-99.
    entity: 'US_ITIN',
    startsWith: 'digit',
    heads: [3, 9],
    minDigits: 9,
    pattern: rule(String.raw`9\d{2}([- ]?)(?:5\d|6[0-5]|7\d|8[0-8]|9[0-24-9])\1\d{4}`, AFTER_GROUPS),
    words: /\b(?:itins?|individual taxpayer|tax ?id|taxpayer|tax identification)\b/,
    withoutWords: (value) => (value[3] === '-' ? 'always' : 'never'),
    isValid: valid,
    confidence: 0.85,
  },
  {
    // HMRC, National Insurance Manual NIM39110.
    entity: 'UK_NINO',
    startsWith: 'letter',
    heads: [2],
    minDigits: 6,
    pattern: rule(
      String.raw`(?!bg|gb|kn|nk|nt|tn|zz)[a-ceghj-prstw-z][a-ceghj-nprstw-z](?:[ -]?\d{2}){3}[ -]?[a-d]`,
      AFTER,
      'i',
    ),
    words: /\b(?:ninos?|nis?|national insurance)\b/,
    withoutWords: (value) => (value === value.toUpperCase() ? 'always' : 'alone'),
    isValid: valid,
    confidence: 0.85,
  },
  {
    entity: 'UK_NHS',
    startsWith: 'digit',
    heads: [3, 10],
    minDigits: 10,
    pattern: rule(String.raw`\d{3}([- ]?)\d{3}\1\d{4}`, AFTER_GROUPS),
    words: /\b(?:nhs|national health|patient (?:no|number|id))\b/,
    withoutWords: (value) => (value[3] === ' ' ? 'always' : 'alone'),
    isValid: isNhsNumber,
    confidence: 0.7,
  },
  {
    entity: 'ES_DNI',
    startsWith: 'digit',
    heads: [2, 7, 8],
    minDigits: 7,
    pattern: rule(String.raw`(?:\d{7,8}|\d{2}\.\d{3}\.\d{3})[- ]?[a-z]`, AFTER, 'i'),
    words: /\b(?:dni|nif|documento nacional|identidad|identificaci[oó]n fiscal)\b/,
    withoutWords: (value) => (/ |[a-z]$|^\d{7}\D/.test(value) ? 'alone' : 'always'),
    isValid: isDniOrNie,
    confidence: 0.9,
  },
  {
    entity: 'ES_NIE',
    startsWith: 'letter',
    heads: [1],
    minDigits: 7,
    pattern: rule('[xyz][- ]?\\d{7}[- ]?[a-z]', AFTER, 'i'),
    words: /\b(?:nie|nif|extranjeros?|identidad)\b/,
    withoutWords: (value) => (/ |[a-z]$/.test(value) ? 'alone' : 'always'),
    isValid: isDniOrNie,
    confidence: 0.9,
  },
  {
    entity: 'FR_NIR',
    startsWith: 'digit',
    heads: [1, 6, 13, 15],
    minDigits: 14,
    pattern: rule(
      String.raw`[1-478][ .-]?\d{2}[ .-]?(?:0[1-9]|1[0-2]|[2-9]\d)[ .-]?(?:\d{2}|2[AB])[ .-]?\d{3}[ .-]?\d{3}[ .-]?\d{2}`,
      AFTER,
      'i',
    ),
    words: /\b(?:nir|insee|s[eé]curit[eé] sociale|num[eé]ro de s[eé]cu|carte vitale)\b/,
    withoutWords: always,
    isValid: isNir,
    confidence: 0.9,
  },
  {
    entity: 'DE_STEUER_ID',
    startsWith: 'digit',
    heads: [2, 11],
    minDigits: 11,
    pattern: rule(String.raw`[1-9]\d([ -/]?)\d{3}\1\d{3}\1\d{3}`, AFTER_GROUPS),
    words: /steuer|\b(?:idnr|tin|tax ?id|tax identification)\b/,
    withoutWords: always,
    isValid: isSteuerId,
    confidence: 0.7,
  },
  {
    entity: 'IT_CODICE_FISCALE',
    startsWith: 'letter',
    heads: [6],
    minDigits: 0,
    pattern: rule('[a-z]{6}[\\dl-np-v]{2}[abcdehlmprst][\\dl-np-v]{2}[a-z][\\dl-np-v]{3}[a-z]', AFTER, 'i'),
    words: /\b(?:codice fiscale|cod\.? ?fisc|c\.?f\.?)/,
    withoutWords: always,
    isValid: isCodiceFiscale,
    confidence: 0.95,
  },
  {
    entity: 'BR_CPF',
    startsWith: 'digit',
    heads: [3, 9, 11],
    minDigits: 11,
    pattern: rule(String.raw`\d{3}(?:\.\d{3}\.\d{3}-|\d{6}-?| \d{3} \d{3}[ -])\d{2}`, AFTER_GROUPS),
    words: /\bcpf|contribuinte|cadastro de pessoas?/,
    withoutWords: always,
    isValid: isCpf,
    confidence: 0.8,
  },
  {
    entity: 'IN_AADHAAR',
    startsWith: 'digit',
    heads: [4, 12],
    minDigits: 12,
    pattern: rule(String.raw`[2-9]\d{3}([- ]?)\d{4}\1\d{4}`, AFTER_GROUPS),
    words: /aadhaa?r|adhaar|आधार|\buid(?:ai)?\b/,
    withoutWords: whenSeparated,
    isValid: isAadhaar,
    confidence: 0.75,
  },
  {
    // Income Tax Department of India: the fourth letter is the holder type.
    entity: 'IN_PAN',
    startsWith: 'letter',
    heads: [5],
    minDigits: 4,
    pattern: rule('[A-Z]{3}[ABCFGHJKLPT][A-Z](?!0000)\\d{4}[A-Z]', AFTER),
    words: /\bpan\b|permanent account/,
    withoutWords: always,
    isValid: valid,
    confidence: 0.85,
  },
  {
    // DVLA: five letters of the surname, decade, month (plus 50 for women), day, year, initials, check characters.
    entity: 'DRIVER_LICENSE',
    startsWith: 'letter',
    heads: [1, 2, 3, 4, 5],
    minDigits: 6,
    pattern: rule(String.raw`[a-z][a-z9]{4}\d[0156]\d[0-3]\d\d[a-z9]{2}[a-z\d][a-z]{2}`, AFTER, 'i'),
    words: /licen[cs]e|driv/,
    withoutWords: always,
    isValid: valid,
    confidence: 0.8,
  },
]

function rule(body: string, after: string, flags = ''): RegExp {
  return new RegExp(`(?:${body})${after}`, `y${flags}`)
}
