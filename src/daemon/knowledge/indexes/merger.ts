// Merges the segments of each index in the background, one merge at a time.
import { type Clock, isoTime } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Log } from '../../platform/log.ts'
import type { IndexKey } from './document-types.ts'
import { mergeSegments } from './merge.ts'

export type Merger = {
  /**
   * Starts a merge of an index's segments (`mergeSegments`) in the background. Resolves when the previous merge of the
   * index has ended. Awaiting this promise keeps a caller from writing segments faster than they are merged. Never
   * throws: a failure is logged, and the next call repeats the merge.
   */
  merge(index: IndexKey): Promise<void>
  /** Waits for the merge in progress. */
  close(): Promise<void>
}

// State transitions of the merges of one index:
//   idle -> running: `merge` was called.
//   running -> running and queued: `merge` was called again. The second caller waits only for the running merge.
//   queued -> running: the previous merge succeeded or failed.
//   running -> idle: the merge ended, and no other merge is queued.
export function createMerger({ db, clock, log }: { db: Db; clock: Clock; log: Pick<Log, 'error'> }): Merger {
  const running = new Map<string, Promise<void>>()

  async function mergeAfter(before: Promise<void> | undefined, index: IndexKey): Promise<void> {
    await before
    await mergeSegments(db, index, isoTime(clock.now())).catch((error) =>
      log.error({ error, index: index.indexId }, 'segments could not be merged'),
    )
  }

  return {
    async merge(index) {
      const { indexId } = index
      const before = running.get(indexId)
      const merge = mergeAfter(before, index)
      running.set(indexId, merge)
      void merge.then(() => {
        if (running.get(indexId) === merge) running.delete(indexId)
      })
      await before
    },
    async close() {
      await Promise.all(running.values())
    },
  }
}
