import { schedule } from 'node-cron'
import type { Log } from '../log.ts'

/** A periodic task. `cron` is an expression of five fields, in UTC. */
export type Job = { name: string; cron: string; run(): Promise<void> }

export type Schedule = {
  /** Prevents further runs, and waits until the current runs end. */
  stop(): Promise<void>
}

/** Calls `run` at the times of `expression` until it is destroyed. */
export type Cron = (expression: string, run: () => Promise<void>) => { destroy(): void | Promise<void> }

const systemCron: Cron = (expression, run) =>
  schedule(expression, run, {
    timezone: 'UTC',
    unref: true,
    // A delayed run, for instance after the machine slept, runs once instead of being skipped.
    missedExecutionTolerance: Number.POSITIVE_INFINITY,
    suppressMissedWarning: true,
    // Each run starts after a random delay. Otherwise all daemons on the same store would start a job at the same
    // moment.
    maxRandomDelay: 10_000,
  })

/**
 * Runs each job once at start, and then at the times of its cron expression. Two runs of the same job never overlap. If
 * a run fails, the error is logged, and the job runs again at its next regular time. Tests inject a `cron` that uses
 * their fake clock.
 */
export function startSchedule(jobs: readonly Job[], { log, cron = systemCron }: { log: Log; cron?: Cron }): Schedule {
  const running = new Map<Job, Promise<void>>()

  function run(job: Job): Promise<void> {
    const current =
      running.get(job) ??
      job
        .run()
        .catch((error) => log.error({ error, job: job.name }, 'a job failed'))
        .finally(() => running.delete(job))
    running.set(job, current)
    return current
  }

  const tasks = jobs.map((job) => {
    run(job)
    return cron(job.cron, () => run(job))
  })
  return {
    async stop() {
      for (const task of tasks) task.destroy()
      await Promise.all(running.values())
    },
  }
}
