/** Texts up to this length share one array. Longer texts are rare, so each of them gets its own array. */
const KEPT_UNITS = 32_768

const kept = new Uint16Array(KEPT_UNITS)

/**
 * Returns the UTF-16 code units of a text. Reading them from the array takes half the time of charCodeAt. The array may
 * be longer than the text, and is valid only until the next call.
 */
export function codeUnitsOf(text: string): Uint16Array {
  const units = text.length > KEPT_UNITS ? new Uint16Array(text.length) : kept
  Buffer.from(units.buffer).write(text, 'utf16le')
  return units
}
