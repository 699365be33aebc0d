// Repeats a task as long as it is needed.
import type { Clock, Timer } from '../../../shared/time.ts'

export type RepeatedTask = { isNeeded(): boolean; run(): Promise<void>; failed(error: unknown): void }

/**
 * Repeats a task as long as it is needed, never concurrently. Call `check` after any event that may change the need.
 */
export function createRepeater(
  clock: Clock,
  everyMs: number,
  { isNeeded, run, failed }: RepeatedTask,
): { check(): void } {
  let timer: Timer | undefined
  let isRunning = false

  function check(): void {
    if (!isNeeded()) {
      timer?.cancel()
      timer = undefined
    } else if (!isRunning) timer ??= clock.after(everyMs, runOnce)
  }

  function runOnce(): void {
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
