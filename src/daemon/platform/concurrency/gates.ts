import { GatewayError } from '../../../shared/errors.ts'
import { TURN_RETRY_AFTER_SECONDS } from '../../../shared/spec-limits.ts'
import type { Clock } from '../../../shared/time.ts'

export type GateLimits = {
  /** How many may be inside one gate at once; 0 for any number. */
  places: number
  /** How many of one lane may wait at one gate. */
  waitingPerLane: number
  /** How long each may wait. */
  waitMs: number
}

/** Gates by name, all with the same limits. Whoever waits at one is let in by turns: one of each lane, then the next of each. */
export type Gates = {
  /**
   * Takes a place: at once when it returns undefined, else when the promise resolves. Whoever was let in must `leave`.
   * @throws OVERLOADED when too many wait already; the promise rejects with it after waitMs, and with the signal's reason.
   */
  enter(gate: string, lane: string, signal: AbortSignal): Promise<void> | undefined
  leave(gate: string): void
  /** How many gates somebody is in: what this costs in memory. */
  readonly busy: number
}

type Waiting = { letIn(): void }
type Gate = {
  inside: number
  /** Only lanes in which somebody waits; the first one's turn is next. */
  lanes: Map<string, Waiting[]>
}

/** @param what completes "at once" in the refusal, such as "this key may run 100 chats" */
export function createGates({ places, waitingPerLane, waitMs }: GateLimits, clock: Clock, what: string): Gates {
  const gates = new Map<string, Gate>()

  function enter(name: string, lane: string, signal: AbortSignal): Promise<void> | undefined {
    if (places === 0) return undefined
    const gate = gates.get(name)
    if (!gate) {
      gates.set(name, { inside: 1, lanes: new Map() })
      return undefined
    }
    if (gate.inside < places) {
      gate.inside += 1
      return undefined
    }
    const queue = gate.lanes.get(lane) ?? []
    if (queue.length >= waitingPerLane) throw overloaded(`${what} at once, and enough are waiting for that already`)
    return signal.aborted ? Promise.reject(signal.reason) : turn(gate, lane, queue, signal)
  }

  function turn(gate: Gate, lane: string, queue: Waiting[], signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        letIn() {
          stopWaiting()
          resolve()
        },
      }
      const timer = clock.after(waitMs, () => giveUp(overloaded(`${what} at once, and none of them ended in time`)))
      const onAbort = () => giveUp(signal.reason)
      signal.addEventListener('abort', onAbort, { once: true })
      queue.push(waiting)
      gate.lanes.set(lane, queue)

      function stopWaiting(): void {
        timer.cancel()
        signal.removeEventListener('abort', onAbort)
      }
      function giveUp(reason: unknown): void {
        stopWaiting()
        queue.splice(queue.indexOf(waiting), 1)
        if (queue.length === 0) gate.lanes.delete(lane)
        reject(reason)
      }
    })
  }

  function leave(name: string): void {
    const gate = gates.get(name)
    if (!gate) return
    const [next] = gate.lanes
    if (next) {
      const [lane, queue] = next
      gate.lanes.delete(lane)
      const first = queue.shift()
      // Behind all the others: theirs are the next turns.
      if (queue.length > 0) gate.lanes.set(lane, queue)
      // The place goes from hand to hand, so that nobody who comes now can take it.
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
  new GatewayError('OVERLOADED', `Too many chats: ${what}. Try again in a moment.`, {
    retryAfterSeconds: TURN_RETRY_AFTER_SECONDS,
  })
