import { createPacer, type ResumablePacer } from '../pacing.ts'

/** Runs long CPU-bound work in steps, one job at a time, so that the event loop stays responsive. */
export class CooperativeQueue {
  #last: Promise<void> = Promise.resolve()
  readonly #pacer: ResumablePacer

  constructor(pacer: ResumablePacer = createPacer()) {
    this.#pacer = pacer
  }

  /**
   * Runs `work` and returns its result. A turn of the event loop runs steps for PACE_MS. @throws errors of `work`, and
   * the signal's reason
   */
  async run<T>(work: Generator<void, T>, signal: AbortSignal): Promise<T> {
    const before = this.#last
    let leave = () => {}
    this.#last = new Promise((resolve) => {
      leave = resolve
    })
    await before
    try {
      await new Promise(setImmediate)
      this.#pacer.resume()
      for (;;) {
        signal.throwIfAborted()
        const { done, value } = work.next()
        if (done) return value
        const turn = this.#pacer.turn()
        if (turn) await turn
      }
    } finally {
      leave()
    }
  }
}
