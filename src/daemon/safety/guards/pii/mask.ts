import { isPiiEntity } from '../../../../shared/pii-entities.ts'

const CARD_DIGITS_KEPT = 4
const WORD_CHARACTER = /[\p{L}\p{N}\p{M}]/gu
const DIGIT = /\d/g

/**
 * What stands for a value whose rule says "mask". An e-mail address keeps the edges of its domain (`****@e******.com`), a
 * card its last four digits, anything else of PII_ENTITIES only its shape: letters and digits become stars, what is between
 * them stays. Of other types (a secret, a document) not even the length may show: `[AWS_ACCESS_KEY]`.
 * A mask of a mask is the mask itself.
 */
export function maskOf(type: string, value: string): string {
  if (!isPiiEntity(type)) return `[${type.replace(/[^A-Za-z0-9]+/g, '_').toUpperCase()}]`
  if (type === 'EMAIL') return emailMask(value)
  if (type === 'CREDIT_CARD') return cardMask(value)
  return shapeMask(value)
}

function shapeMask(value: string): string {
  return value.replace(WORD_CHARACTER, '*')
}

function emailMask(value: string): string {
  const at = value.lastIndexOf('@')
  const suffix = value.lastIndexOf('.')
  if (at < 0 || suffix < at) return shapeMask(value)
  const domain = value.slice(at + 1, suffix)
  // The first letter of "x.com" is all of it.
  const [first = ''] = domain.length > 1 ? domain : ''
  return `${shapeMask(value.slice(0, at))}@${first}${shapeMask(domain.slice(first.length))}${value.slice(suffix)}`
}

function cardMask(value: string): string {
  let toMask = (value.match(DIGIT)?.length ?? 0) - CARD_DIGITS_KEPT
  return value.replace(DIGIT, (digit) => (toMask-- > 0 ? '*' : digit))
}
