/** Maximum length of a provider's message in the log, in characters. */
const MESSAGE_CHARS = 300

/** Keys by their usual prefixes, and the values of credentials in headers and URLs. */
const KEYS =
  /\b(?:sk|pk|rk|ak|gsk|xai|hf|r8|nvapi|pplx|api|key|token)[-_][\w*.-]{6,}|\b(?:AIza|AKIA|ASIA|eyJ)[\w*.-]{8,}/g
const CREDENTIALS =
  /\b(bearer|basic|api[-_ ]?key|token|secret|password)(["']?\s*[:=]\s*["']?|\s+)(?=\S*[\d*])[^\s"',;]{6,}/gi
/** Long random values without a known prefix: 24 or more characters with a digit and without word separators. */
const OPAQUE = /(?<![\w+/])(?=[\w+/]*\d)[\w+/]{24,}={0,2}/g

/**
 * Returns a provider's own error message for operators, or undefined if there is none. Replaces keys, removes control
 * and formatting characters, and shortens the text to 300 characters. The text may still quote the request, so it must
 * not be shown to callers of other tenants.
 */
export function toProviderMessage(text: string): string | undefined {
  // The slice limits the work, and is long enough for the replacements.
  const cleaned = text
    .slice(0, 10 * MESSAGE_CHARS)
    .replace(/[\p{C}\p{Z}\s]+/gu, ' ')
    .replace(CREDENTIALS, '$1$2[key]')
    .replace(KEYS, '[key]')
    .replace(OPAQUE, '[key]')
    .trim()
  if (cleaned === '') return undefined
  const characters = [...cleaned]
  return characters.length > MESSAGE_CHARS ? `${characters.slice(0, MESSAGE_CHARS - 1).join('')}…` : cleaned
}
