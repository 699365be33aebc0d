import { getCountrySpecifications, isValidIBAN } from 'ibantools'
import { isAsciiLetter, isDigit, isWordCode } from './recognizer.ts'

const LENGTHS: ReadonlyMap<string, number> = new Map(
  Object.entries(getCountrySpecifications()).flatMap(([country, { chars }]) => (chars ? [[country, chars]] : [])),
)
const SPACE = 32
const HYPHEN = 45
const POINT = 46

/**
 * A possible IBAN at `start`, whether it is written in groups or not. `isOpen`: later text decides whether the IBAN is
 * valid.
 */
export type IbanReading = { end: number; isValid: boolean; isOpen: boolean }

/**
 * Reads the letters and digits of an IBAN; the country determines how many. Skips single spaces, hyphens or dots
 * between these characters. Returns undefined if no IBAN can begin here. The format is ISO 13616. ibantools validates
 * check digits and national formats.
 */
export function readIban(text: string, start: number): IbanReading | undefined {
  if (!isAsciiLetter(text.charCodeAt(start))) return undefined
  const digits = start + (text[start + 2] === ' ' ? 3 : 2)
  if (!isDigit(text.charCodeAt(digits))) return undefined
  const length = LENGTHS.get(text.slice(start, start + 2).toUpperCase())
  if (length === undefined) return undefined
  let compact = ''
  let end = start
  for (; compact.length < length && end < text.length; end++) {
    const code = text.charCodeAt(end)
    if (isDigit(code) || isAsciiLetter(code)) compact += text[end]
    else if (!isSeparator(code) || isSeparator(text.charCodeAt(end - 1))) return undefined
  }
  if (end === text.length && compact.length < length) return { end, isValid: false, isOpen: true }
  const isWhole = !isWordCode(text.charCodeAt(end))
  return {
    end,
    isValid: isWhole && passesMod97(compact.toUpperCase()) && isValidIBAN(compact.toUpperCase()),
    isOpen: end === text.length,
  }
}

/** ISO 7064, MOD 97-10. Verifies the checksum first, because ibantools takes ten times as long to reject a number. */
function passesMod97(compact: string): boolean {
  let rest = 0
  for (let index = 4; index < compact.length + 4; index++) {
    const code = compact.charCodeAt(index % compact.length)
    rest = (code < 65 ? rest * 10 + code - 48 : rest * 100 + code - 55) % 97
  }
  return rest === 1
}

function isSeparator(code: number): boolean {
  return code === SPACE || code === HYPHEN || code === POINT
}
