import type { Clock, Timer } from '../../../shared/time.ts'

export type Beat = { isNeeded(): boolean; run(): Promise<void>; failed(error: unknown): void }

/** Runs again and again while it is needed, never twice at once. Call `check` after whatever may have changed the need. */
export function createBeat(clock: Clock, everyMs: number, { isNeeded, run, failed }: Beat): { check(): void } {
  let timer: Timer | undefined
  let isRunning = false

  function check(): void {
    if (!isNeeded()) {
      timer?.cancel()
      timer = undefined
    } else if (!isRunning) timer ??= clock.after(everyMs, beat)
  }

  function beat(): void {
    timer = undefined
    isRunning = true
    run()
      .catch(failed)
      .finally(() => {
        isRunning = false
        check()
      })
  }

  return { check }
}
