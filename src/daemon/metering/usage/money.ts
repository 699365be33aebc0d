/** Amounts are whole nano-dollars, billionths of a dollar: the lowest list price is 5 of them per token. */
const DIGITS = 9
const NANOS_PER_DOLLAR = 10 ** DIGITS

/** Converts by decimal digits: multiplication would be off by one for every millionth amount. */
export const toNanos = (dollars: number): number => Number(dollars.toFixed(DIGITS).replace('.', ''))

/** The number nearest to the exact decimal, so it prints without rounding noise: 1500000 is 0.0015. */
export const toDollars = (nanos: number): number => nanos / NANOS_PER_DOLLAR

/** Converts a limit in dollars for storing; null is no limit. */
export const toNanosLimit = (dollars: number | null): number | null => (dollars === null ? null : toNanos(dollars))
