import type { Clock, Timer } from '../../../shared/time.ts'
import type { Log } from '../log.ts'

/** A periodic task. */
export type Job = { name: string; everyMs: number; run(): Promise<void> }

export type Schedule = {
  /** Starts no further run and waits for the current one. */
  stop(): Promise<void>
}

/**
 * Runs each job at once and then `everyMs` after its last run ended. A failed run is logged; the next one is the retry.
 */
export function startSchedule(jobs: readonly Job[], { clock, log }: { clock: Clock; log: Log }): Schedule {
  const timers = new Map<Job, Timer>()
  const running = new Set<Promise<void>>()
  let stopped = false

  function start(job: Job): void {
    const run = job
      .run()
      .catch((error) => log.error({ error, job: job.name }, 'a job failed'))
      .then(() => {
        running.delete(run)
        if (!stopped)
          timers.set(
            job,
            clock.after(job.everyMs, () => start(job)),
          )
      })
    running.add(run)
  }

  for (const job of jobs) start(job)
  return {
    async stop() {
      stopped = true
      for (const timer of timers.values()) timer.cancel()
      await Promise.all(running)
    },
  }
}
