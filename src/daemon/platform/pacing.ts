import { setImmediate } from 'node:timers/promises'

/**
 * Budget of a tenant's patterns for one request, and for one answer. A character costs as many steps as the program
 * has, about 20 ns each. Unread text counts as a match. A stream is charged for its new text; re-read text costs at
 * least a sixteenth.
 */
const GUARD_SCAN_STEPS = 200_000_000

/** Keeps the work of one request from blocking others; all of its slots, rules and scans share one pacer. */
export type Pacer = {
  /** Returns a promise to await when the work has run for PACE_MS since the last turn; undefined while it may go on. */
  turn(): Promise<void> | undefined
  /**
   * Deducts steps from the budget for customers' patterns; false when it is exhausted. It counts steps instead of time,
   * so that a rule's result does not depend on the machine's load.
   */
  spend(steps: number): boolean
}

/** A pacer for work that also awaits other things. */
export type ResumablePacer = Pacer & {
  /** Call after an await, which has already yielded to others. */
  resume(): void
}

/** Work yields to the rest of the daemon after this time. */
export const PACE_MS = 5

/** @param now a clock in milliseconds */
export function createPacer(now: () => number = () => performance.now()): ResumablePacer {
  let lastMs = now()
  let stepsLeft = GUARD_SCAN_STEPS
  async function giveWay(): Promise<void> {
    await setImmediate()
    lastMs = now()
  }
  return {
    resume() {
      lastMs = now()
    },
    turn: () => (now() - lastMs < PACE_MS ? undefined : giveWay()),
    spend(steps) {
      stepsLeft -= steps
      return stepsLeft >= 0
    },
  }
}

/**
 * Runs work that yields at intervals, and gives others a turn when PACE_MS has passed. Short work completes
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

/** Runs such work without a pause. */
export function runToEnd<T>(work: Generator<void, T>): T {
  for (;;) {
    const step = work.next()
    if (step.done) return step.value
  }
}
