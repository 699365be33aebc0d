import { newId } from '../../../shared/ids.ts'
import type { Db } from '../../platform/db/db.ts'
import { analyzeGrownTables } from '../../platform/db/postgres-statistics.ts'
import { deleteBuried, findBuried } from './document-store.ts'
import type { IndexKey } from './document-types.ts'
import { needsRewrite, segmentsToMerge } from './merge-plan.ts'
import { pageCountOf, pageName } from './postings.ts'
import { deletedOrdinals, mergePages, renumber, type Segment } from './segment.ts'
import {
  abandonMerge,
  claimForMerge,
  findAbandonedMerges,
  findDeletedRuns,
  findPages,
  findSegments,
  findUnmerged,
  insertPages,
  insertSegment,
  publishMerged,
} from './segment-store.ts'

/**
 * Merges the segments of an index until few remain, and rewrites segments with many deleted passages. Search results do
 * not change during a merge. Pages are written in short transactions, so that other writers can run between the
 * transactions.
 * @param now ISO 8601
 */
export async function mergeSegments(db: Db, index: IndexKey, now: string): Promise<void> {
  for (;;) {
    const ids = segmentsToMerge(await findUnmerged(db, index))?.map(({ id }) => id)
    if (ids === undefined) break
    if (!(await merge(db, index, ids, now))) return
    await analyzeGrownTables(db, ['documents', 'segments'])
  }
  const buried = await findBuried(db, index)
  if (buried.length === 0) return
  const deleted = await findDeletedRuns(db, index)
  for (const segment of await findSegments(db, index)) {
    if (needsRewrite(segment, deleted) && !(await merge(db, index, [segment.id], now))) return
  }
  const segments = await findSegments(db, index)
  const forgotten = buried.filter(({ passages }) => !segments.some((segment) => deletedOrdinals(segment, [passages])))
  for (const { documentId } of forgotten) await deleteBuried(db, { ...index, documentId })
}

/**
 * Abandons merges that a crash has interrupted, and releases their segments. A merge counts as interrupted if it was
 * begun or last renewed before `before` (ISO 8601).
 */
export async function removeAbandonedMerges(db: Db, tenantId: string, before: string): Promise<void> {
  for (const id of await findAbandonedMerges(db, tenantId, before)) {
    await db.transaction().execute((tx) => abandonMerge(tx, tenantId, id))
  }
}

/** Thrown if another daemon or training has claimed or deleted the segments. */
export class SegmentsTaken extends Error {}

/** Merges these segments. Returns false if another process has claimed the segments or taken over this claim. */
async function merge(db: Db, index: IndexKey, ids: readonly string[], now: string): Promise<boolean> {
  const { tenantId } = index
  const id = newId()
  let isClaimed = false
  try {
    const merge = await db.transaction().execute(async (tx) => {
      if (!(await claimForMerge(tx, tenantId, ids, id))) throw new SegmentsTaken()
      const sources = (await findSegments(tx, index))
        .filter((segment) => ids.includes(segment.id))
        .sort((one, other) => (one.ids[0] ?? 0) - (other.ids[0] ?? 0))
      const { ordinals, passages } = renumber(sources, await findDeletedRuns(tx, index))
      const pageCount = pageCountOf(passages.lengths.length)
      // The draft is written in the same transaction as the claim. After a crash, the draft identifies the segments to
      // release.
      await insertSegment(tx, index, { id, documentId: null, state: 'draft', ...passages, pageCount }, now)
      return { sources, ordinals, pageCount }
    })
    isClaimed = true
    await writeMerged(db, tenantId, id, merge)
    await db.transaction().execute(async (tx) => {
      if (!(await publishMerged(tx, tenantId, id, ids.length))) throw new SegmentsTaken()
    })
    return true
  } catch (error) {
    const wasThere = await db.transaction().execute((tx) => abandonMerge(tx, tenantId, id))
    // If the draft is missing, the write failed because the index was deleted or the merge took too long.
    if (error instanceof SegmentsTaken || (isClaimed && !wasThere)) return false
    throw error
  }
}

/**
 * The maximum number of slices into which a merge is divided. Merging a slice blocks the thread, so smaller slices
 * block it for less time.
 */
const SLICES = 32
/**
 * Pages per transaction. A page has about 3 KB. Each transaction writes the pages of several slices: for small
 * segments, one commit per slice would take most of the time.
 */
const PAGES_PER_TRANSACTION = 32

type Merge = { sources: readonly Segment[]; ordinals: readonly Int32Array[]; pageCount: number }

async function writeMerged(
  db: Db,
  tenantId: string,
  id: string,
  { sources, ordinals, pageCount }: Merge,
): Promise<void> {
  // Page counts are powers of two, and a term's page number is the term's hash modulo the page count. Pages whose
  // numbers are equal modulo the slice count therefore contain the same terms in the sources and the result. The merge
  // can thus proceed slice by slice.
  const slices = Math.min(SLICES, pageCount, ...sources.map((source) => source.pageCount))
  let merged = new Map<number, Uint8Array>()
  for (let slice = 0; slice < slices; slice++) {
    const names = sources.map((source) =>
      everyNth(slice, slices, source.pageCount).map((page) => pageName(source.id, page)),
    )
    const pages = await findPages(db, tenantId, names.flat())
    const ofSources = names.map((ofSource) => ofSource.flatMap((name) => pages.get(name) ?? []))
    for (const [page, terms] of mergePages(ofSources, ordinals, pageCount)) merged.set(page, terms)
    if (merged.size < PAGES_PER_TRANSACTION && slice < slices - 1) continue
    await insertPages(db, tenantId, id, merged)
    merged = new Map()
  }
}

function everyNth(first: number, step: number, count: number): number[] {
  const numbers: number[] = []
  for (let number = first; number < count; number += step) numbers.push(number)
  return numbers
}
