// Decides which segments of an index to merge.
import { deletedOrdinals, type Run, type SegmentPassages } from './segment.ts'

export type SegmentSize = { id: string; passageCount: number }

/**
 * This many segments of one size are merged into one. So a search reads few segments, and a passage is rewritten few
 * times.
 */
const FAN_IN = 8
/** Larger segments are not merged, so that every merge is short. */
const MERGED_PASSAGES = FAN_IN ** 4
/** A segment is rewritten without its deleted passages once they exceed this share. */
const DELETED_SHARE = 0.25

/** The segments to merge next, oldest first; undefined when there are few enough. `sizes`: oldest first. */
export function segmentsToMerge(sizes: readonly SegmentSize[]): SegmentSize[] | undefined {
  const ofSize = new Map<number, SegmentSize[]>()
  for (const segment of sizes) {
    if (segment.passageCount >= MERGED_PASSAGES) continue
    // A segment whose passages are all deleted counts as the smallest.
    const size = Math.floor(Math.log(Math.max(segment.passageCount, 1)) / Math.log(FAN_IN) + 1e-9)
    const alike = ofSize.get(size) ?? []
    alike.push(segment)
    if (alike.length === FAN_IN) return alike
    ofSize.set(size, alike)
  }
  return undefined
}

/** Whether so many passages of a segment are deleted that it is worth rewriting. `deleted`: ascending. */
export function needsRewrite(segment: SegmentPassages, deleted: readonly Run[]): boolean {
  const mask = deletedOrdinals(segment, deleted)
  return mask !== undefined && mask.reduce((sum, one) => sum + one, 0) > segment.lengths.length * DELETED_SHARE
}
