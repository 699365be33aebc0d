import { type Clock, isoTime } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Log } from '../../platform/log.ts'
import type { IndexKey } from './document-types.ts'
import { mergeSegments } from './merge.ts'

export type Merger = {
  /**
   * Puts segments of an index together (`mergeSegments`) while whoever asks goes on. It waits for what was asked before it, so
   * nobody writes segments faster than they are merged. Never throws: what fails is logged, and the next one asked for does it.
   */
  merge(index: IndexKey): Promise<void>
  /** Waits for what is under way. */
  close(): Promise<void>
}

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
