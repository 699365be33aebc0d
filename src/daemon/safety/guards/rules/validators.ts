import type { GUARD_VALIDATORS } from '../../../../shared/wire/guard-rules.ts'
import { isPlaceholder, looksRandom } from '../dlp/randomness.ts'
import { passesLuhn } from '../pii/checksums.ts'

/** The functions that validate a match. Rules refer to them by these names. */
export const VALIDATORS: Record<(typeof GUARD_VALIDATORS)[number], (value: string) => boolean> = {
  luhn(value) {
    const digits = value.replace(/\D/g, '')
    return digits.length > 1 && passesLuhn(digits)
  },
  iban: (value) => hasIbanCheck(value.replace(/[\s.-]/g, '').toUpperCase()),
  entropy: (value) => looksRandom(value) && !isPlaceholder(value),
}

/**
 * ISO 13616: after moving the first four characters to the end and replacing letters by numbers, the remainder modulo
 * 97 must be 1.
 */
function hasIbanCheck(iban: string): boolean {
  if (!/^[A-Z]{2}\d{2}[A-Z0-9]{11,30}$/.test(iban)) return false
  let rest = 0
  for (const char of iban.slice(4) + iban.slice(0, 4)) {
    const value = Number.parseInt(char, 36)
    rest = (rest * (value < 10 ? 10 : 100) + value) % 97
  }
  return rest === 1
}
