/** Runs long CPU-bound work one at a time and in steps, so that the event loop stays responsive. */
export class CooperativeQueue {
  #last: Promise<void> = Promise.resolve()

  /**
   * Returns the result of `work`; each step runs in a separate turn of the event loop. @throws errors of `work`, and
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
