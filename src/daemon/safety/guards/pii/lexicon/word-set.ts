/** Words between blanks. */
export function wordSet(words: string): ReadonlySet<string> {
  return new Set(words.trim().split(/\s+/))
}

/** Phrases between semicolons. */
export function phraseSet(phrases: string): ReadonlySet<string> {
  return new Set(phrases.split(';').map((phrase) => phrase.trim()))
}
