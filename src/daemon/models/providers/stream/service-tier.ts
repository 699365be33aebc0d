import type { TokenUsage } from '../../provider.ts'

/** Names of the tier that list prices are for. Providers repeat the word of the request if they did not decide. */
const STANDARD: ReadonlySet<unknown> = new Set(['default', 'standard', 'auto', 'on_demand'])
const NAME = /^[a-z][a-z0-9_-]{0,31}$/

/** Returns the tier that served an answer, for its usage. Empty for the standard tier. */
export const tierOf = (reported: unknown): Pick<TokenUsage, 'tier'> =>
  typeof reported === 'string' && NAME.test(reported) && !STANDARD.has(reported) ? { tier: reported } : {}

/** Returns the number of web searches, for the usage of an answer. Empty if there were none. */
export const searchesOf = (count: number | undefined): Pick<TokenUsage, 'webSearches'> =>
  count !== undefined && count > 0 ? { webSearches: count } : {}
