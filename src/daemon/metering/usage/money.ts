/** Money is counted in whole nano-dollars, a billionth of a dollar: the finest list price is 5 of them a token. */
const DIGITS = 9
const NANOS_PER_DOLLAR = 10 ** DIGITS

/** By its digits: the product of two numbers would be one off for every millionth amount. */
export const toNanos = (dollars: number): number => Number(dollars.toFixed(DIGITS).replace('.', ''))

/** The nearest number to the exact decimal, so it prints without a rest: 1500000 is 0.0015. */
export const toDollars = (nanos: number): number => nanos / NANOS_PER_DOLLAR

/** A limit in dollars, null for none, as it is stored. */
export const toNanosLimit = (dollars: number | null): number | null => (dollars === null ? null : toNanos(dollars))
