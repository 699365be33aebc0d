import { READ_RATE, WRITE_RATE } from '../../../shared/spec-limits.ts'
import type { Caller } from '../../platform/http/caller.ts'
import { endpointOf, type Route } from '../../platform/http/route.ts'
import type { WindowName } from './windows.ts'

/** The maximum number of requests that one counter allows in its window. */
export type Quota = {
  /** The counter's name in rate_counters: the window, prefixed with the route if the quota covers one route. */
  counter: string
  window: WindowName
  /** Null: requests are counted but never rejected. */
  limit: number | null
  /** The only route whose requests count. Undefined if all requests count. */
  endpoint: string | undefined
}

/** The state of one counter: the number of requests, and the end of its window. */
export type Count = { readonly used: number; readonly endMs: number }

/**
 * The quotas that apply to this key on this route. The first quota is always the key's quota per minute. Requests with
 * the operator key are counted like all other requests, but only the limits of administration routes apply to them.
 */
export function quotasOf({ settings, isOperator }: Caller, route: Pick<Route, 'method' | 'path' | 'rate'>): Quota[] {
  const { dailyLimit, monthlyLimit, rateLimit } = settings
  const ofKey = (window: WindowName, limit: number | null): Quota => ({
    counter: window,
    window,
    limit: isOperator ? null : limit,
    endpoint: undefined,
  })
  const rates = [ofKey('minute', rateLimit.requestsPerMinute), ofKey('hour', rateLimit.requestsPerHour)]
  if (route.rate === 'unmetered') return rates
  const general = [...rates, ofKey('day', dailyLimit), ofKey('month', monthlyLimit)]
  if (route.rate === 'general') return general
  const endpoint = endpointOf(route)
  const ofClass = Object.entries(route.rate === 'write' ? WRITE_RATE : READ_RATE) as [WindowName, number][]
  return [
    ...general,
    ...ofClass.map(([window, limit]) => ({ counter: `${endpoint} ${window}`, window, limit, endpoint })),
  ]
}

/** Number of further requests that the quota allows. */
export const leftOf = ({ limit }: Quota, { used }: Count): number =>
  limit === null ? Number.POSITIVE_INFINITY : Math.max(0, limit - used)

/**
 * The index of the quota with the fewest requests left. If several quotas have the same number left, the quota whose
 * window ends last is used. Undefined if no limits apply. The request is allowed if this quota has requests left. If
 * not, the client should retry when this quota's window ends.
 */
export function strictest(quotas: readonly Quota[], counts: readonly Count[]): number | undefined {
  let found: number | undefined
  let least = Number.POSITIVE_INFINITY
  for (let at = 0; at < quotas.length; at++) {
    const count = counts[at] as Count
    const left = leftOf(quotas[at] as Quota, count)
    if (left > least || left === Number.POSITIVE_INFINITY) continue
    if (found !== undefined && left === least && count.endMs <= (counts[found] as Count).endMs) continue
    found = at
    least = left
  }
  return found
}
