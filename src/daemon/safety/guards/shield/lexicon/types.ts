import type { Concept } from '../lexicon.ts'

/** The words of each language, by ISO 639-1 code and concept. The notation is the notation of ../lexicon.ts. */
export type LanguageWords = Readonly<Record<string, Partial<Record<Concept, string>>>>
