// Limits the requests that one key and one tenant run simultaneously.
import type { Clock } from '../../../shared/time.ts'
import { createGates, type GateLimits, type Gates, type GateWatch } from '../../platform/concurrency/gates.ts'
import type { Caller } from '../../platform/http/caller.ts'
import type { ConcurrencyLimits } from '../config.ts'

/**
 * A request first takes a slot of its key, then a slot of its tenant. In this order, a key with a long queue does not
 * use up the slots of its tenant. The operator key is exempt.
 */
export type CallerGate = {
  /**
   * Returns undefined if both slots are free. Otherwise, the promise resolves once the caller has both slots. The
   * caller must call `leave` afterwards.
   * @throws OVERLOADED if a queue is full. The promise rejects with OVERLOADED if a queue becomes full or no slot
   * becomes free in time, and with the signal's reason on abort.
   */
  enter(caller: GateCaller, signal: AbortSignal): Promise<void> | undefined
  leave(caller: GateCaller): void
  /** The number of requests that wait for a slot. */
  waiting(): { key: number; tenant: number }
}

type GateCaller = Pick<Caller, 'tenantId' | 'keyId' | 'isOperator'>

/** @param waits limits of each queue */
export function createCallerGate(
  { perKey, perTenant }: Pick<ConcurrencyLimits, 'perKey' | 'perTenant'>,
  waits: Omit<GateLimits, 'slots'>,
  clock: Clock,
  watches: { key?: GateWatch; tenant?: GateWatch } = {},
): CallerGate {
  const keys = createGates({ ...waits, slots: perKey }, clock, `this key may run ${perKey}`, {
    ...(watches.key && { watch: watches.key }),
  })
  const tenants = createGates({ ...waits, slots: perTenant }, clock, `this tenant may run ${perTenant}`, {
    ...(watches.tenant && { watch: watches.tenant }),
  })

  /** Takes the slot of the tenant. If this fails, releases the slot of the key. */
  function enterTenant(caller: GateCaller, signal: AbortSignal): Promise<void> | undefined {
    try {
      return tenants.enter(caller.tenantId, caller, signal)?.catch((error: unknown) => leaveKey(keys, caller, error))
    } catch (error) {
      return leaveKey(keys, caller, error)
    }
  }

  return {
    enter(caller, signal) {
      if (caller.isOperator) return undefined
      const turn = keys.enter(caller.keyId, caller, signal)
      return turn ? turn.then(() => enterTenant(caller, signal)) : enterTenant(caller, signal)
    },
    leave({ isOperator, tenantId, keyId }) {
      if (isOperator) return
      tenants.leave(tenantId)
      keys.leave(keyId)
    },
    waiting: () => ({ key: keys.waiting, tenant: tenants.waiting }),
  }
}

function leaveKey(keys: Gates, { keyId }: GateCaller, error: unknown): never {
  keys.leave(keyId)
  throw error
}
