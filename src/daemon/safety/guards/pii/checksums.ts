/**
 * Check digits of cards and national numbers. All functions expect a number without separators. Unless stated
 * otherwise, the number contains only digits.
 */

/** ISO/IEC 7812-1 Annex B. */
export function passesLuhn(digits: string): boolean {
  let sum = 0
  for (let index = digits.length - 1, double = false; index >= 0; index--, double = !double) {
    const digit = digits.charCodeAt(index) - 48
    sum += double ? (digit > 4 ? digit * 2 - 9 : digit * 2) : digit
  }
  return sum % 10 === 0
}

const VERHOEFF_PRODUCT = [
  '0123456789', '1234067895', '2340178956', '3401289567', '4012395678',
  '5987604321', '6598710432', '7659821043', '8765932104', '9876543210',
].map((row) => Array.from(row, Number)) // biome-ignore format: a table of ten rows
const VERHOEFF_TURN = [1, 5, 7, 6, 2, 8, 3, 0, 9, 4]

/** J. Verhoeff, Error Detecting Decimal Codes (1969). */
function passesVerhoeff(digits: string): boolean {
  let check = 0
  for (let index = digits.length - 1, place = 0; index >= 0; index--, place++) {
    let digit = digits.charCodeAt(index) - 48
    for (let turn = place % 8; turn > 0; turn--) digit = VERHOEFF_TURN[digit]!
    check = VERHOEFF_PRODUCT[check]![digit]!
  }
  return check === 0
}

/** ISO 7064, MOD 11,10. */
function passesMod11Of10(digits: string): boolean {
  let product = 10
  for (let index = 0; index < digits.length - 1; index++) {
    const sum = (product + digits.charCodeAt(index) - 48) % 10 || 10
    product = (sum * 2) % 11
  }
  return (11 - product) % 10 === digits.charCodeAt(digits.length - 1) - 48
}

/** Returns the sum of each digit times its weight. Digits without a weight are ignored. */
function weightedSum(digits: string, weights: readonly number[]): number {
  return weights.reduce((sum, weight, index) => sum + weight * (digits.charCodeAt(index) - 48), 0)
}

/** NHS Data Dictionary, "NHS NUMBER". */
export function isNhsNumber(digits: string): boolean {
  const check = (11 - (weightedSum(digits, [10, 9, 8, 7, 6, 5, 4, 3, 2]) % 11)) % 11
  return check === Number(digits[9]) && !isOneDigit(digits)
}

/** Receita Federal: two check digits modulo 11 over nine digits. */
export function isCpf(digits: string): boolean {
  if (isOneDigit(digits)) return false
  const first = ((weightedSum(digits, [10, 9, 8, 7, 6, 5, 4, 3, 2]) * 10) % 11) % 10
  const second = ((weightedSum(digits, [11, 10, 9, 8, 7, 6, 5, 4, 3, 2]) * 10) % 11) % 10
  return first === Number(digits[9]) && second === Number(digits[10])
}

/** UIDAI: twelve digits with a Verhoeff check digit. The first digit is not 0 or 1. Palindromes are not issued. */
export function isAadhaar(digits: string): boolean {
  return digits[0]! > '1' && passesVerhoeff(digits) && digits !== [...digits].reverse().join('')
}

/**
 * § 139b AO: exactly one of the first ten digits occurs two or three times, but not three times in a row. Check digit:
 * ISO 7064 MOD 11,10. `lenient` also accepts test numbers. Test numbers violate the first rule.
 */
export function isSteuerId(digits: string, lenient: boolean): boolean {
  if (digits[0] === '0' || !passesMod11Of10(digits)) return false
  if (lenient) return !isOneDigit(digits)
  const counts = new Array<number>(10).fill(0)
  for (const digit of digits.slice(0, 10)) counts[Number(digit)]!++
  const repeated = counts.filter((count) => count > 1)
  return repeated.length === 1 && repeated[0]! <= 3 && !/(\d)\1\1/.test(digits.slice(0, 10))
}

/**
 * INSEE: sex, year, month, place of birth, order number, and a check number of 97 minus the remainder modulo 97.
 * Departments 2A and 2B count as 19 and 18.
 */
export function isNir(compact: string): boolean {
  const body = compact.slice(0, 13).replace('2A', '19').replace('2B', '18')
  return 97 - Number(BigInt(body) % 97n) === Number(compact.slice(13))
}

const DNI_LETTERS = 'TRWAGMYFPDXBNJZSQVHLCKE'

/**
 * Real Decreto 1553/2005: the letter is the remainder modulo 23. The leading letter X, Y or Z of a foreigner's number
 * counts as 0, 1 or 2. Expects upper case.
 */
export function isDniOrNie(compact: string): boolean {
  const lead = 'XYZ'.indexOf(compact[0]!)
  const number = lead < 0 ? compact.slice(0, -1) : lead + compact.slice(1, -1)
  return DNI_LETTERS[Number(number) % 23] === compact.at(-1)
}

const ODD_VALUES = [1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23]
const OMOCODIA = 'LMNPQRSTUV'

/**
 * Decreto 12 marzo 1974: validates the day (plus 40 for women) and the check letter. Letters may replace digits.
 * Expects upper case.
 */
export function isCodiceFiscale(compact: string): boolean {
  const day = Number(compact.slice(9, 11).replace(/[A-Z]/g, (letter) => String(OMOCODIA.indexOf(letter))))
  if (day < 1 || (day > 31 && day < 41) || day > 71) return false
  let sum = 0
  for (let index = 0; index < 15; index++) {
    const code = compact.charCodeAt(index)
    const value = code < 65 ? code - 48 : code - 65
    sum += index % 2 === 0 ? ODD_VALUES[value]! : value
  }
  return String.fromCharCode(65 + (sum % 26)) === compact[15]
}

/** Whether all digits are equal. Such a number passes many checksums, but no authority issues it. */
function isOneDigit(digits: string): boolean {
  return digits === digits[0]!.repeat(digits.length)
}
