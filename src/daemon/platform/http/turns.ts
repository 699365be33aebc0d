/** Runs long work one at a time and in steps, so that everything else goes on meanwhile. */
export class Turns {
  #last: Promise<void> = Promise.resolve()

  /** What `work` returns; each of its steps has a turn of the event loop. @throws what it throws, and the signal's reason */
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
