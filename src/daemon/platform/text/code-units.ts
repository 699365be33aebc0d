/** Longer texts are rare, and have an array of their own. */
const KEPT_UNITS = 32_768

const kept = new Uint16Array(KEPT_UNITS)

/**
 * The UTF-16 code units of a text, for whoever reads all of them: half the time that charCodeAt takes. There are zeros or
 * units of other texts behind them, and what is returned holds until the next call.
 */
export function codeUnitsOf(text: string): Uint16Array {
  const units = text.length > KEPT_UNITS ? new Uint16Array(text.length) : kept
  Buffer.from(units.buffer).write(text, 'utf16le')
  return units
}
