import { passesLuhn } from './checksums.ts'

/** The first digits of an issuer's numbers (six, or fewer as a prefix), and the lengths of its numbers. */
const ISSUERS: readonly { from: string; to: string; lengths: readonly number[] }[] = [
  { from: '4', to: '4', lengths: [13, 16, 19] }, // Visa
  { from: '51', to: '55', lengths: [16] }, // Mastercard
  { from: '2221', to: '2720', lengths: [16] },
  { from: '34', to: '34', lengths: [15] }, // American Express
  { from: '37', to: '37', lengths: [15] },
  { from: '300', to: '305', lengths: [14, 16] }, // Diners Club
  { from: '3095', to: '3095', lengths: [14, 16] },
  { from: '36', to: '36', lengths: [14, 16] },
  { from: '38', to: '39', lengths: [14, 16] },
  { from: '6011', to: '6011', lengths: [16, 17, 18, 19] }, // Discover
  { from: '644', to: '659', lengths: [16, 17, 18, 19] },
  { from: '3500', to: '3599', lengths: [16, 17, 18, 19] }, // JCB (3528–3589, and the rest of 35 for test numbers)
  { from: '1800', to: '1800', lengths: [15] },
  { from: '2131', to: '2131', lengths: [15] },
  { from: '62', to: '62', lengths: [16, 17, 18, 19] }, // UnionPay
  { from: '81', to: '82', lengths: [16, 17, 18, 19] }, // UnionPay, RuPay
  { from: '60', to: '60', lengths: [16] }, // RuPay, Hipercard
  { from: '508', to: '508', lengths: [16] },
  { from: '2200', to: '2204', lengths: [16, 17, 18, 19] }, // Mir
  { from: '9792', to: '9792', lengths: [16] }, // Troy
  { from: '5018', to: '5018', lengths: [12, 13, 14, 15, 16, 17, 18, 19] }, // Maestro
  { from: '5020', to: '5020', lengths: [12, 13, 14, 15, 16, 17, 18, 19] },
  { from: '5038', to: '5038', lengths: [12, 13, 14, 15, 16, 17, 18, 19] },
  { from: '56', to: '58', lengths: [12, 13, 14, 15, 16, 17, 18, 19] },
  { from: '63', to: '63', lengths: [12, 13, 14, 15, 16, 17, 18, 19] },
  { from: '67', to: '67', lengths: [12, 13, 14, 15, 16, 17, 18, 19] },
  { from: '500', to: '509', lengths: [16] }, // Elo, Verve, Dankort
  { from: '1', to: '1', lengths: [15] }, // UATP
]

const USUAL_LENGTHS: readonly number[] = [14, 15, 16]

/** Matches a number whose digits are grouped as on a card, or not grouped at all. */
export const CARD_PATTERN =
  /(?:\d{4}([ -]?)\d{4}\1\d{4}\1\d{4}(?:\1\d{1,3})?|\d{4}([ -])\d{6}\2\d{4,5}|\d{12,19})(?!\w|[-./]\d)/y
export const CARD_WORDS =
  /\b(?:cards?|cc|credit|debit|visa|master ?card|maestro|amex|american express|diners|discover|jcb|pan|karten?|kreditkarten?\w*|carte|tarjeta|carta|cart[aã]o|kort|atm)\b|卡|カード/

/**
 * Whether the Luhn check digit is correct (ISO/IEC 7812-1) and an issuer uses numbers of this form. The ranges are
 * published by the card schemes.
 */
export function isCardNumber(digits: string): boolean {
  return passesLuhn(digits) && ISSUERS.some((issuer) => isOf(digits, issuer))
}

/**
 * Whether the number is accepted without a context word. UATP numbers need a context word, because UATP covers all
 * numbers that start with 1. Numbers of unusual lengths also need a context word, because many serial numbers have
 * these lengths.
 */
export function isUsualCard(digits: string): boolean {
  return USUAL_LENGTHS.includes(digits.length) && (digits[0] !== '1' || digits.startsWith('1800'))
}

function isOf(digits: string, { from, to, lengths }: (typeof ISSUERS)[number]): boolean {
  if (!lengths.includes(digits.length)) return false
  const prefix = digits.slice(0, from.length)
  return prefix >= from && prefix <= to
}
