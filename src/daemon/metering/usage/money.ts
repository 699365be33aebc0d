/** Amounts are integers in nano-dollars (billionths of a dollar). The lowest list price is 5 nano-dollars per token. */
const DIGITS = 9
const NANOS_PER_DOLLAR = 10 ** DIGITS

/** Converts the decimal digits. Floating-point multiplication would be off by one for about one amount in a million. */
export const toNanos = (dollars: number): number => Number(dollars.toFixed(DIGITS).replace('.', ''))

/**
 * Returns the floating-point number nearest to the exact decimal. This number prints without rounding noise. Example:
 * 1500000 → 0.0015.
 */
export const toDollars = (nanos: number): number => nanos / NANOS_PER_DOLLAR

/** Converts a limit from dollars to nano-dollars, the unit in the store. Null means unlimited. */
export const toNanosLimit = (dollars: number | null): number | null => (dollars === null ? null : toNanos(dollars))
