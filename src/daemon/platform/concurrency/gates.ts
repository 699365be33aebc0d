// Limits how many requests of one gate run simultaneously, and how many wait.
import { GatewayError } from '../../../shared/errors.ts'
import type { Clock } from '../../../shared/time.ts'

/** `Retry-After` if no slot is free. */
const TURN_RETRY_AFTER_SECONDS = 2

export type GateLimits = {
  /** The number of slots of each gate; 0 means unlimited. */
  slots: number
  /** The maximum number of waiting callers in each queue of a gate. */
  waitingPerQueue: number
  /** The maximum time that a caller waits, in milliseconds. */
  waitMs: number
}

/** Named gates with the same limits. Each gate serves its queues round-robin. */
export type Gates = {
  /**
   * Takes a slot. Returns undefined if a slot is free; otherwise the promise resolves once the caller has a slot. When
   * the caller is done, it must call `leave`.
   * @throws OVERLOADED if the queue is full. The promise rejects with OVERLOADED after `waitMs`, and with the signal's
   * reason on abort.
   */
  enter(gate: string, queueName: string, signal: AbortSignal): Promise<void> | undefined
  leave(gate: string): void
  /** The number of gates in use. The memory use grows with this number. */
  readonly busy: number
}

type Waiting = { letIn(): void }
type Gate = {
  inside: number
  /** Contains only queues with a waiting caller, in the order in which they are served. */
  queues: Map<string, Waiting[]>
}

/** @param what the part of the error message before "at once", such as "this key may run 100 chats" */
export function createGates({ slots, waitingPerQueue, waitMs }: GateLimits, clock: Clock, what: string): Gates {
  const gates = new Map<string, Gate>()

  function enter(name: string, queueName: string, signal: AbortSignal): Promise<void> | undefined {
    if (slots === 0) return undefined
    const gate = gates.get(name)
    if (!gate) {
      gates.set(name, { inside: 1, queues: new Map() })
      return undefined
    }
    if (gate.inside < slots) {
      gate.inside += 1
      return undefined
    }
    const queue = gate.queues.get(queueName) ?? []
    if (queue.length >= waitingPerQueue) throw overloaded(`${what} at once, and the queue is full`)
    return signal.aborted ? Promise.reject(signal.reason) : wait(gate, queueName, queue, signal)
  }

  function wait(gate: Gate, queueName: string, queue: Waiting[], signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        letIn() {
          stopWaiting()
          resolve()
        },
      }
      const timer = clock.after(waitMs, () => giveUp(overloaded(`${what} at once, and no slot became free in time`)))
      const onAbort = () => giveUp(signal.reason)
      signal.addEventListener('abort', onAbort, { once: true })
      queue.push(waiting)
      gate.queues.set(queueName, queue)

      function stopWaiting(): void {
        timer.cancel()
        signal.removeEventListener('abort', onAbort)
      }
      function giveUp(reason: unknown): void {
        stopWaiting()
        queue.splice(queue.indexOf(waiting), 1)
        if (queue.length === 0) gate.queues.delete(queueName)
        reject(reason)
      }
    })
  }

  function leave(name: string): void {
    const gate = gates.get(name)
    if (!gate) return
    const [next] = gate.queues
    if (next) {
      const [queueName, queue] = next
      gate.queues.delete(queueName)
      const first = queue.shift()
      // Round-robin: moves the queue to the end.
      if (queue.length > 0) gate.queues.set(queueName, queue)
      // Passes the slot directly to the next waiting caller, so that a new caller cannot take the slot first.
      first?.letIn()
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
  }
}

const overloaded = (what: string) =>
  new GatewayError('OVERLOADED', `Too many chats: ${what}. Retry in a moment.`, {
    retryAfterSeconds: TURN_RETRY_AFTER_SECONDS,
  })
