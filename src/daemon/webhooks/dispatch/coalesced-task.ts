/** Work that is asked for at any time and done once at a time. */
export type CoalescedTask = {
  /** Does it soon: after the run under way, if there is one. Asking twice before it starts is asking once. */
  ask(): void
  /** Resolves when no run is under way or asked for. */
  idle(): Promise<void>
}

/**
 * Runs begin once the turn of the event loop that asked is over, so that one run serves everybody who asked in that turn.
 * @param failed gets what a run throws; it is not repeated until somebody asks again.
 */
export function createCoalescedTask(run: () => Promise<void>, failed: (error: unknown) => void): CoalescedTask {
  // Idle -> asked: ask(). Asked -> running: the turn is over. Running -> running: asked meanwhile. Running -> idle: not.
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
