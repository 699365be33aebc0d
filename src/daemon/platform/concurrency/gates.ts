// Limits how many requests of one gate run simultaneously, and how many wait.
import { GatewayError } from '../../../shared/errors.ts'
import type { Clock } from '../../../shared/time.ts'

/** `Retry-After` if no slot is free. */
const TURN_RETRY_AFTER_SECONDS = 2

export type GateLimits = {
  /** The number of slots of each gate; 0 means unlimited. */
  slots: number
  /** The maximum number of waiting requests per key and gate. */
  waitingPerQueue: number
  /** The maximum time that a caller waits, in milliseconds. */
  waitMs: number
}

/** The waiter's queue. Each key has one queue, and the queues of a tenant share the tenant's turn. */
export type Waiter = { tenantId: string; keyId: string }

/**
 * Named gates with the same limits. Each gate serves tenants round-robin, and the keys of each tenant round-robin.
 * Additional keys therefore do not increase the share of a tenant.
 */
export type Gates = {
  /**
   * Takes a slot. Returns undefined if a slot is free; otherwise the promise resolves once the caller has a slot. When
   * the caller is done, it must call `leave`.
   * @throws OVERLOADED if the queue is full. The promise rejects with OVERLOADED after `waitMs`, and with the signal's
   * reason on abort.
   */
  enter(gate: string, waiter: Waiter, signal: AbortSignal): Promise<void> | undefined
  leave(gate: string): void
  /** The number of gates in use. The memory use grows with this number. */
  readonly busy: number
  /** The number of requests that wait for a slot. */
  readonly waiting: number
}

/** Counts the requests that had to wait, or that were rejected. */
export type GateWatch = {
  /** @param waitedMs the time in the queue, whether or not a slot became free */
  waited(waitedMs: number): void
  rejected(): void
}

const UNWATCHED: GateWatch = { waited() {}, rejected() {} }

type Waiting = { letIn(): void }
type Gate = {
  inside: number
  /** By tenant. Contains only tenants with a waiting request, in the order in which they are served. */
  tenants: Map<string, Queues>
}
/** By key. Contains only keys with a waiting request, in the order in which they are served. */
type Queues = Map<string, Waiting[]>

/**
 * @param what the limit in the error message, such as "this key may run 100"; "at once" follows
 * @param options.work what the gates limit, in the plural
 */
export function createGates(
  { slots, waitingPerQueue, waitMs }: GateLimits,
  clock: Clock,
  what: string,
  { work = 'chats', watch = UNWATCHED }: { work?: string; watch?: GateWatch } = {},
): Gates {
  let waitingNow = 0
  const overloaded = (reason: string) => {
    watch.rejected()
    return new GatewayError('OVERLOADED', `Too many ${work}: ${what} at once, and ${reason}. Retry in a moment.`, {
      retryAfterSeconds: TURN_RETRY_AFTER_SECONDS,
    })
  }
  const gates = new Map<string, Gate>()

  function enter(name: string, waiter: Waiter, signal: AbortSignal): Promise<void> | undefined {
    if (slots === 0) return undefined
    const gate = gates.get(name)
    if (!gate) {
      gates.set(name, { inside: 1, tenants: new Map() })
      return undefined
    }
    if (gate.inside < slots) {
      gate.inside += 1
      return undefined
    }
    const queued = gate.tenants.get(waiter.tenantId)?.get(waiter.keyId)?.length ?? 0
    if (queued >= waitingPerQueue) throw overloaded('the queue is full')
    return signal.aborted ? Promise.reject(signal.reason) : wait(gate, waiter, signal)
  }

  function wait({ tenants }: Gate, { tenantId, keyId }: Waiter, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const sinceMs = clock.monotonic()
      waitingNow += 1
      const waiting: Waiting = {
        letIn() {
          stopWaiting()
          resolve()
        },
      }
      const timer = clock.after(waitMs, () => giveUp(overloaded('no slot became free in time')))
      const onAbort = () => giveUp(signal.reason)
      signal.addEventListener('abort', onAbort, { once: true })
      const queues: Queues = tenants.get(tenantId) ?? new Map()
      const queue = queues.get(keyId) ?? []
      queue.push(waiting)
      queues.set(keyId, queue)
      tenants.set(tenantId, queues)

      function stopWaiting(): void {
        waitingNow -= 1
        watch.waited(clock.monotonic() - sinceMs)
        timer.cancel()
        signal.removeEventListener('abort', onAbort)
      }
      function giveUp(reason: unknown): void {
        stopWaiting()
        queue.splice(queue.indexOf(waiting), 1)
        if (queue.length === 0) queues.delete(keyId)
        if (queues.size === 0) tenants.delete(tenantId)
        reject(reason)
      }
    })
  }

  function leave(name: string): void {
    const gate = gates.get(name)
    if (!gate) return
    const next = takeNext(gate)
    if (next) {
      // Passes the slot directly to the next waiting request, so that a new request cannot take the slot first.
      next.letIn()
      return
    }
    gate.inside -= 1
    if (gate.inside === 0) gates.delete(name)
  }

  return {
    enter,
    leave,
    get busy() {
      return gates.size
    },
    get waiting() {
      return waitingNow
    },
  }
}

/**
 * Removes the request whose turn it is. Moves its tenant to the end of the tenants, and its key to the end of the
 * tenant's keys.
 */
function takeNext({ tenants }: Gate): Waiting | undefined {
  const [tenant] = tenants
  if (!tenant) return undefined
  const [tenantId, queues] = tenant
  const [key] = queues
  if (!key) return undefined
  const [keyId, queue] = key
  const first = queue.shift()
  queues.delete(keyId)
  if (queue.length > 0) queues.set(keyId, queue)
  tenants.delete(tenantId)
  if (queues.size > 0) tenants.set(tenantId, queues)
  return first
}
