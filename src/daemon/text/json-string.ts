/** What a JSON string spells differently: quotes, backslashes, control characters and, when they stand alone, surrogates. */
const SPELLED_DIFFERENTLY = /["\\\u0000-\u001f\ud800-\udfff]/

/**
 * A text as a JSON string, exactly as JSON.stringify writes it. That looks at each character by itself; a pattern finds out
 * several times quicker that there is nothing to escape, which holds for most prompts and words (measured: 5 % of the
 * instructions of a request with 2 KB of prompt).
 */
export const toJsonString = (text: string): string =>
  SPELLED_DIFFERENTLY.test(text) ? JSON.stringify(text) : `"${text}"`
