import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { type Job, startSchedule } from '../../../../src/daemon/platform/jobs/schedule.ts'
import type { Log } from '../../../../src/daemon/platform/log.ts'
import { deferred } from '../../../deferred.ts'

const JITTER_MS = 10_000

describe('jobs by the system clock', () => {
  const errors: object[] = []
  const log = { error: (facts: object) => errors.push(facts) } as unknown as Log
  const start = (run: () => Promise<void>, cron = '* * * * *') =>
    startSchedule([{ name: 'purge', cron, run } satisfies Job], { log })

  beforeEach(() => {
    errors.length = 0
    vi.useFakeTimers({ now: Date.parse('2026-01-01T00:00:30.000Z') })
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  test('a job runs at once and then at the times of its expression, in UTC, and leaves no timer behind', async () => {
    const times: string[] = []
    const schedule = start(async () => void times.push(new Date().toISOString().slice(0, 16)), '15 3 * * *')
    await vi.advanceTimersByTimeAsync(2 * 86_400_000)
    expect(times).toEqual(['2026-01-01T00:00', '2026-01-01T03:15', '2026-01-02T03:15'])
    await schedule.stop()
    expect(vi.getTimerCount()).toBe(0)
  })

  test('a job that still runs is not started again, and its end frees the next time', async () => {
    const first = deferred()
    const run = vi.fn().mockResolvedValue(undefined).mockReturnValueOnce(first.promise)
    const schedule = start(run)
    await vi.advanceTimersByTimeAsync(5 * 60_000)
    expect(run).toHaveBeenCalledTimes(1)
    first.resolve()
    await vi.advanceTimersByTimeAsync(60_000 + JITTER_MS)
    expect(run).toHaveBeenCalledTimes(2)
    await schedule.stop()
  })

  test('stop waits for the current run and starts no other', async () => {
    const first = deferred()
    const run = vi.fn().mockReturnValue(first.promise)
    const schedule = start(run)
    let stopped = false
    const stop = schedule.stop().then(() => {
      stopped = true
    })
    await vi.advanceTimersByTimeAsync(5 * 60_000)
    expect(stopped).toBe(false)
    first.resolve()
    await stop
    await vi.advanceTimersByTimeAsync(5 * 60_000)
    expect(run).toHaveBeenCalledTimes(1)
  })

  test('a failure is logged with the name of the job, and the next run is the retry', async () => {
    const run = vi.fn().mockResolvedValue(undefined).mockRejectedValueOnce(new Error('no store'))
    const schedule = start(run)
    await vi.advanceTimersByTimeAsync(30_000 + JITTER_MS)
    expect(run).toHaveBeenCalledTimes(2)
    expect(errors).toEqual([{ error: new Error('no store'), job: 'purge' }])
    await schedule.stop()
  })

  test('after a pause of hours, the missed runs are made up for once', async () => {
    const run = vi.fn().mockResolvedValue(undefined)
    const schedule = start(run, '0 * * * *')
    vi.setSystemTime(Date.parse('2026-01-01T07:20:00.000Z'))
    // The timer for 01:00 fires at 08:19:30.
    await vi.advanceTimersByTimeAsync(59 * 60_000 + 30_000 + JITTER_MS)
    expect(run).toHaveBeenCalledTimes(2)
    await schedule.stop()
  })
})
