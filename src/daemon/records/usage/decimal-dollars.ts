const DIGITS = 9

/** Returns the exact decimal of a number of nano-dollars, without trailing zeros. Example: 1500000n → `0.0015`. */
export function toDecimalDollars(nanos: bigint): string {
  const digits = String(nanos).padStart(DIGITS + 1, '0')
  const fraction = digits.slice(-DIGITS).replace(/0{1,9}$/, '')
  return `${digits.slice(0, -DIGITS)}${fraction === '' ? '' : `.${fraction}`}`
}
