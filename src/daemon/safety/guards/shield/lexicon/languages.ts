import type { Concept } from '../lexicon.ts'
import { EAST_ASIAN } from './east-asian.ts'
import { GERMANIC_AND_ROMANCE } from './germanic-and-romance.ts'
import { INDIC } from './indic.ts'
import { MIDDLE_EASTERN_AND_AFRICAN } from './middle-eastern-and-african.ts'
import { OTHER_EUROPEAN } from './other-european.ts'
import { SLAVIC_AND_BALTIC } from './slavic-and-baltic.ts'
import type { LanguageWords } from './types.ts'

/**
 * The words of all languages. They are compared without the accents that `withoutAccents` removes, so a word must not
 * look like an everyday word of another language: write it as an expression of several words instead.
 */
export const LANGUAGES: LanguageWords = {
  ...GERMANIC_AND_ROMANCE,
  ...SLAVIC_AND_BALTIC,
  ...OTHER_EUROPEAN,
  ...MIDDLE_EASTERN_AND_AFRICAN,
  ...INDIC,
  ...EAST_ASIAN,
}

/** Returns the words of a concept in all languages. */
export const wordsInLanguages = (concept: Concept): string =>
  Object.values(LANGUAGES)
    .map((words) => words[concept] ?? '')
    .join(' ')
