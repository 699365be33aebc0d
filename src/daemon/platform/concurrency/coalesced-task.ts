/** A task that may be requested at any time. Runs never overlap, and requests are coalesced. */
export type CoalescedTask = {
  /**
   * Requests a run. If the task is running, the new run starts afterwards. If several requests arrive before a run
   * starts, they share that run.
   */
  ask(): void
  /** Resolves when no run is in progress or requested. */
  idle(): Promise<void>
}

/**
 * A run starts only after the current turn of the event loop, so one run serves all requests of this turn.
 * @param failed receives the error of a failed run. A failed run is retried only at the next request.
 */
export function createCoalescedTask(run: () => Promise<void>, failed: (error: unknown) => void): CoalescedTask {
  // States: idle -> asked (`ask`), asked -> running (next turn), running -> running (`ask` during the run), running ->
  // idle.
  let asked = false
  let running: Promise<void> | undefined

  async function loop(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve))
    while (asked) {
      asked = false
      await run().catch(failed)
    }
    running = undefined
  }

  return {
    ask() {
      asked = true
      running ??= loop()
    },
    async idle() {
      while (running) await running
    },
  }
}
