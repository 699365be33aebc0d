/** Splits a text at whitespace into a set of words. */
export function wordSet(words: string): ReadonlySet<string> {
  return new Set(words.trim().split(/\s+/))
}

/** Splits a text at semicolons into a set of phrases. */
export function phraseSet(phrases: string): ReadonlySet<string> {
  return new Set(phrases.split(';').map((phrase) => phrase.trim()))
}
