import { setImmediate } from 'node:timers/promises'

/**
 * The step budget of a tenant's patterns. Each request and each answer has its own budget. For each character, every
 * instruction of the compiled pattern costs one step. A step takes about 20 ns. Text beyond the budget counts as a
 * match. In a stream, new text costs the full number of steps; re-read text costs at least a sixteenth of that number.
 */
const GUARD_SCAN_STEPS = 200_000_000

/** Prevents one request from blocking other requests. All slots, rules and scans of a request share one pacer. */
export type Pacer = {
  /**
   * Returns a promise to await if the work has run for PACE_MS since it last yielded. Returns undefined if the work may
   * continue.
   */
  turn(): Promise<void> | undefined
  /**
   * Deducts steps from the budget for customers' patterns. Returns false if the budget is exhausted. Steps are counted
   * instead of time, so a rule's result does not depend on the load of the machine.
   */
  spend(steps: number): boolean
}

/** A pacer for work that also awaits other promises. */
export type ResumablePacer = Pacer & {
  /** Call this after an await, because the await has already yielded. */
  resume(): void
}

/** The maximum time that the work runs before it yields to other work of the daemon. */
export const PACE_MS = 5

/** @param now returns the time of a clock in milliseconds */
export function createPacer(now: () => number = () => performance.now()): ResumablePacer {
  let lastMs = now()
  let stepsLeft = GUARD_SCAN_STEPS
  async function yieldToEventLoop(): Promise<void> {
    await setImmediate()
    lastMs = now()
  }
  return {
    resume() {
      lastMs = now()
    },
    turn: () => (now() - lastMs < PACE_MS ? undefined : yieldToEventLoop()),
    spend(steps) {
      stepsLeft -= steps
      return stepsLeft >= 0
    },
  }
}

/**
 * Runs a generator that yields at intervals. Lets other work run whenever PACE_MS has passed. Short work completes
 * synchronously.
 */
export function runInSlices<T>(work: Generator<void, T>, pacer: Pick<Pacer, 'turn'>): T | Promise<T> {
  for (;;) {
    const step = work.next()
    if (step.done) return step.value
    const turn = pacer.turn()
    if (turn) return goOn(work, pacer, turn)
  }
}

async function goOn<T>(work: Generator<void, T>, pacer: Pick<Pacer, 'turn'>, first: Promise<void>): Promise<T> {
  await first
  for (;;) {
    const step = work.next()
    if (step.done) return step.value
    const turn = pacer.turn()
    if (turn) await turn
  }
}

/** Runs a generator to its end without a pause. */
export function runToEnd<T>(work: Generator<void, T>): T {
  for (;;) {
    const step = work.next()
    if (step.done) return step.value
  }
}
