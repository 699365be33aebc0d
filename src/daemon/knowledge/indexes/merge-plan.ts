import { goneOrdinals, type Run, type SegmentPassages } from './segment.ts'

export type SegmentSize = { id: string; passageCount: number }

/** So many segments of one size become one: a search asks few segments, and a passage is written few times over. */
const FAN_IN = 8
/** What is larger is left alone, so that no merge takes long. */
const MERGED_PASSAGES = FAN_IN ** 4
/** A segment is written anew without what is gone, once that is more than this share. */
const GONE_SHARE = 0.25

/** The segments to put together next, oldest first; undefined when there are few enough. `sizes`: oldest first. */
export function segmentsToMerge(sizes: readonly SegmentSize[]): SegmentSize[] | undefined {
  const ofSize = new Map<number, SegmentSize[]>()
  for (const segment of sizes) {
    if (segment.passageCount >= MERGED_PASSAGES) continue
    // Where all passages are gone, a segment is as small as they get.
    const size = Math.floor(Math.log(Math.max(segment.passageCount, 1)) / Math.log(FAN_IN) + 1e-9)
    const alike = ofSize.get(size) ?? []
    alike.push(segment)
    if (alike.length === FAN_IN) return alike
    ofSize.set(size, alike)
  }
  return undefined
}

/** Whether so much of a segment is gone that it is better written anew. `gone`: ascending. */
export function isWorn(segment: SegmentPassages, gone: readonly Run[]): boolean {
  const mask = goneOrdinals(segment, gone)
  return mask !== undefined && mask.reduce((sum, one) => sum + one, 0) > segment.lengths.length * GONE_SHARE
}
