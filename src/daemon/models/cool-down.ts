import { LRUCache } from 'lru-cache'
import type { Clock } from '../../shared/time.ts'
import type { FailureReason, ProviderError } from './provider.ts'

/**
 * The time without calls to a target after a failure that concerns its key or account. `Retry-After` overrides it,
 * within the bounds.
 */
export const COOL_DOWN_MS = { rateLimit: 10_000, account: 60_000, min: 1_000, max: 3_600_000 } as const
/** The maximum number of cool-downs. If it is exceeded, the least recently used cool-down is evicted. */
const COOL_DOWNS_KEPT = 10_000

/** The failures that concern one key or account: 429, 401 and 402. Another target of the same name may answer. */
const OF_ONE_KEY: ReadonlySet<FailureReason> = new Set(['rate_limit', 'auth_failed', 'quota_exhausted'])

export const isOfOneKey = (reason: FailureReason): boolean => OF_ONE_KEY.has(reason)

/**
 * Tracks the targets that must not be called for some time. All tenants share a provider's key and its limits, so they
 * also share the cool-downs. A cool-down only changes the order of targets. It never causes an error.
 */
export type CoolDowns = {
  /** The end of the cool-down in monotonic milliseconds. Undefined if the target may be called now. */
  endOf(slot: string): number | undefined
  /** Begins a cool-down. If a cool-down ends later than the new one, its end is kept. */
  failed(slot: string, failure: Pick<ProviderError, 'reason' | 'retryAfterSeconds'>): void
  /**
   * Ends the cool-down, unless it began after the call.
   * @param startedMs when the call began, in monotonic milliseconds
   */
  answered(slot: string, startedMs: number): void
  /** Ends the cool-downs of a provider. Call this when its address or its key has changed. */
  forget(provider: string): void
}

export function createCoolDowns({ clock }: { clock: Clock }): CoolDowns {
  const known = new LRUCache<string, { setMs: number; endMs: number }>({ max: COOL_DOWNS_KEPT })
  return {
    endOf(slot) {
      if (known.size === 0) return undefined
      const endMs = known.get(slot)?.endMs
      return endMs !== undefined && endMs > clock.monotonic() ? endMs : undefined
    },
    failed(slot, { reason, retryAfterSeconds }) {
      if (!isOfOneKey(reason)) return
      const usualMs = reason === 'rate_limit' ? COOL_DOWN_MS.rateLimit : COOL_DOWN_MS.account
      const askedMs = retryAfterSeconds === undefined ? usualMs : 1_000 * retryAfterSeconds
      const setMs = clock.monotonic()
      const endMs = setMs + Math.min(COOL_DOWN_MS.max, Math.max(COOL_DOWN_MS.min, askedMs))
      known.set(slot, { setMs, endMs: Math.max(endMs, known.get(slot)?.endMs ?? 0) })
    },
    answered(slot, startedMs) {
      if (known.size === 0) return
      const coolDown = known.get(slot)
      if (coolDown && startedMs >= coolDown.setMs) known.delete(slot)
    },
    forget(provider) {
      for (const slot of known.keys()) if (slot.startsWith(`${provider}/`)) known.delete(slot)
    },
  }
}

/**
 * Cool-downs that are respected but never changed. Used for calls whose results do not show whether a target accepts
 * chats.
 */
export const unchangedCoolDowns = ({ endOf }: CoolDowns): CoolDowns => ({
  endOf,
  failed() {},
  answered() {},
  forget() {},
})
