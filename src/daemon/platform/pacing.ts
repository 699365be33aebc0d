import { setImmediate } from 'node:timers/promises'
import { GUARD_SCAN_STEPS } from '../../shared/spec-limits.ts'

/** Keeps the work of one request from holding up the others: all of its slots, rules and scans share one. */
export type Pacer = {
  /** Something to await when the work has gone on for PACE_MS since the last turn; undefined while it may go on. */
  turn(): Promise<void> | undefined
  /**
   * Takes so many steps out of what the patterns of customers may take; false when they are used up. It counts steps and no
   * time, so that what a rule finds does not depend on how busy the machine is.
   */
  spend(steps: number): boolean
}

/** One for work that waits in between. */
export type ResumablePacer = Pacer & {
  /** The wait is over: others had their turn meanwhile. */
  resume(): void
}

/** After so long the rest of the daemon has a turn. */
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

/** Does work that stops now and then, and gives others a turn where it stops when it is time to. What is short is done at once. */
export function paced<T>(work: Generator<void, T>, pacer: Pick<Pacer, 'turn'>): T | Promise<T> {
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

/** Does such work without a stop. */
export function atOnce<T>(work: Generator<void, T>): T {
  for (;;) {
    const step = work.next()
    if (step.done) return step.value
  }
}
