import { createTask } from 'node-cron'
import type { Cron } from '../src/daemon/platform/jobs/schedule.ts'
import type { Clock, Timer } from '../src/shared/time.ts'

/** Runs jobs at the full minutes of `clock`, which a test advances. A run ends before the next minute is waited for. */
export const clockCron =
  (clock: Clock): Cron =>
  (expression, run) => {
    const times = createTask(expression, run, { timezone: 'UTC' })
    let timer: Timer
    let isDestroyed = false
    function wait(): void {
      if (isDestroyed) return
      timer = clock.after(60_000 - (clock.now() % 60_000), () => {
        if (times.match(new Date(clock.now()))) void run().then(wait)
        else wait()
      })
    }
    wait()
    return {
      destroy() {
        isDestroyed = true
        timer.cancel()
        return times.destroy()
      },
    }
  }

/** For daemons on the system's clock: jobs run at the start only, so that no test depends on the time of day. */
export const noCron: Cron = () => ({ destroy() {} })
