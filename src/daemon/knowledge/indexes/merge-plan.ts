// Decides which segments of an index to merge.
import { deletedOrdinals, type Run, type SegmentPassages } from './segment.ts'

export type SegmentSize = { id: string; passageCount: number }

/**
 * The number of segments of similar size that are merged into one. This number determines how many segments a search
 * reads and how often a passage is rewritten.
 */
const FAN_IN = 8
/** Segments above this size are not merged, so that every merge is short. */
const MERGED_PASSAGES = FAN_IN ** 4
/** If deleted passages exceed this share of a segment, the segment is rewritten without them. */
const DELETED_SHARE = 0.25

/**
 * Returns the segments to merge next, oldest first. Returns undefined if no merge is needed. `sizes` must be ordered
 * oldest first.
 */
export function segmentsToMerge(sizes: readonly SegmentSize[]): SegmentSize[] | undefined {
  const ofSize = new Map<number, SegmentSize[]>()
  for (const segment of sizes) {
    if (segment.passageCount >= MERGED_PASSAGES) continue
    // A segment whose passages are all deleted is treated as the smallest.
    const size = Math.floor(Math.log(Math.max(segment.passageCount, 1)) / Math.log(FAN_IN) + 1e-9)
    const alike = ofSize.get(size) ?? []
    alike.push(segment)
    if (alike.length === FAN_IN) return alike
    ofSize.set(size, alike)
  }
  return undefined
}

/**
 * Whether a segment must be rewritten, because too many of its passages are deleted. `deleted` must be in ascending
 * order.
 */
export function needsRewrite(segment: SegmentPassages, deleted: readonly Run[]): boolean {
  const mask = deletedOrdinals(segment, deleted)
  return mask !== undefined && mask.reduce((sum, one) => sum + one, 0) > segment.lengths.length * DELETED_SHARE
}
