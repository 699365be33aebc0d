import { isPiiEntity } from '../../../../shared/pii-entities.ts'

const CARD_DIGITS_KEPT = 4
const WORD_CHARACTER = /[\p{L}\p{N}\p{M}]/gu
/** Digits of every script, because a card may be written with any of them. */
const DIGIT = /\p{N}/gu

/**
 * Returns the mask of a value for rules with the action "mask". An e-mail address keeps the first and last characters
 * of its domain (`****@e******.com`). A card keeps its last four digits. Other PII_ENTITIES keep only their shape:
 * letters and digits become stars. Values of all other types, such as secrets, are replaced by the type name:
 * `[AWS_ACCESS_KEY]`. The type name also hides the length of the value. Masking is idempotent.
 */
export function maskOf(type: string, value: string): string {
  if (!isPiiEntity(type)) return typeMaskOf(type)
  if (type === 'EMAIL') return emailMask(value)
  if (type === 'CREDIT_CARD') return cardMask(value)
  return shapeMask(value)
}

/** Returns the mask that shows only the type of a value, for a value whose shape reveals it. */
export const typeMaskOf = (type: string): string => `[${type.replace(/[^A-Za-z0-9]+/g, '_').toUpperCase()}]`

function shapeMask(value: string): string {
  return value.replace(WORD_CHARACTER, '*')
}

function emailMask(value: string): string {
  const at = value.lastIndexOf('@')
  const suffix = value.lastIndexOf('.')
  if (at < 0 || suffix < at) return shapeMask(value)
  const domain = value.slice(at + 1, suffix)
  // In "x.com", the first letter is the whole name, so this letter is also masked.
  const [first = ''] = domain.length > 1 ? domain : ''
  return `${shapeMask(value.slice(0, at))}@${first}${shapeMask(domain.slice(first.length))}${value.slice(suffix)}`
}

function cardMask(value: string): string {
  let toMask = (value.match(DIGIT)?.length ?? 0) - CARD_DIGITS_KEPT
  return value.replace(DIGIT, (digit) => (toMask-- > 0 ? '*' : digit))
}
