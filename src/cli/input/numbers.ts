import { usageError } from '../errors.ts'

/** Parses a whole number. For any other text, throws a usage error that names the flag. */
export function toWholeNumber(text: string, flag: string, { min, max }: { min: number; max?: number }): number {
  const number = Number(text)
  if (/^\d{1,9}$/.test(text) && number >= min && number <= (max ?? number)) return number
  const range = max === undefined ? `from ${min} on` : `from ${min} to ${max}`
  throw usageError(`${flag} must be a whole number ${range}, not '${text}'`)
}
