import type { Clock } from '../../../../shared/time.ts'
import type { Log } from '../../../platform/log.ts'
import { isRefusal } from './embedding-call.ts'
import type { SemanticMetrics } from './metrics.ts'

/** How long a server is skipped after a failure or timeout. */
export const SEMANTIC_PAUSE_MS = 10_000

/** Runs an optional step of a search. If the step fails, logs the failure and returns undefined. */
export type BestEffort = <T>(run: () => Promise<T>) => Promise<T | undefined>

/**
 * A failing server is not called for SEMANTIC_PAUSE_MS, so that an unresponsive server delays only a few searches. A
 * server that only rejects one text is still called for other texts.
 */
export function createBestEffort(
  work: 'query' | 'rerank',
  { clock, log, metrics }: { clock: Clock; log: Pick<Log, 'warn'>; metrics: SemanticMetrics },
): BestEffort {
  let pausedUntil = Number.NEGATIVE_INFINITY
  return async (run) => {
    if (clock.monotonic() < pausedUntil) return undefined
    try {
      return await run()
    } catch (error) {
      if (!isRefusal(error)) pausedUntil = clock.monotonic() + SEMANTIC_PAUSE_MS
      metrics.failed(work)
      log.warn({ error, work }, 'search continues without a failing model')
      return undefined
    }
  }
}
