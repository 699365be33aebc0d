/** Runs long CPU-bound work in steps, one job at a time, so that the event loop stays responsive. */
export class CooperativeQueue {
  #last: Promise<void> = Promise.resolve()

  /**
   * Runs `work`, each step in a separate turn of the event loop, and returns its result. @throws errors of `work`, and
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
      for (;;) {
        await new Promise(setImmediate)
        signal.throwIfAborted()
        const { done, value } = work.next()
        if (done) return value
      }
    } finally {
      leave()
    }
  }
}
