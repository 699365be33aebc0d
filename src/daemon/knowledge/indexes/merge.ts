import { newId } from '../../../shared/ids.ts'
import type { Db } from '../../platform/db/db.ts'
import { analyzeGrownTables } from '../../platform/db/postgres-statistics.ts'
import { deleteBuried, findBuried } from './document-store.ts'
import type { IndexKey } from './document-types.ts'
import { isWorn, segmentsToMerge } from './merge-plan.ts'
import { pageCountOf } from './postings.ts'
import { goneOrdinals, mergePages, renumber } from './segment.ts'
import {
  abandonMerge,
  claimForMerge,
  findAbandonedMerges,
  findGone,
  findPages,
  findSegments,
  findUnmerged,
  insertPages,
  insertSegment,
  pageName,
  publishMerged,
  type Segment,
} from './segment-store.ts'

/**
 * Puts segments of an index together until they are few, and writes those anew of which much is gone. Searches see what
 * they saw before at any moment. Pages are written in short transactions that others get in between.
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
  const gone = await findGone(db, index)
  for (const segment of await findSegments(db, index)) {
    if (isWorn(segment, gone) && !(await merge(db, index, [segment.id], now))) return
  }
  const segments = await findSegments(db, index)
  const forgotten = buried.filter(({ passages }) => !segments.some((segment) => goneOrdinals(segment, [passages])))
  for (const { documentId } of forgotten) await deleteBuried(db, { ...index, documentId })
}

/** Frees what merges that a crash ended had taken: those that began before `before` (ISO 8601). */
export async function removeAbandonedMerges(db: Db, tenantId: string, before: string): Promise<void> {
  for (const id of await findAbandonedMerges(db, tenantId, before)) {
    await db.transaction().execute((tx) => abandonMerge(tx, tenantId, id))
  }
}

/** The segments are no longer there, or another daemon or training is at them. */
export class Taken extends Error {}

/** False when it came to nothing because others were at the same segments, or took ours away. */
async function merge(db: Db, index: IndexKey, ids: readonly string[], now: string): Promise<boolean> {
  const { tenantId } = index
  const id = newId()
  let isClaimed = false
  try {
    const merge = await db.transaction().execute(async (tx) => {
      if (!(await claimForMerge(tx, tenantId, ids, id))) throw new Taken()
      const sources = (await findSegments(tx, index))
        .filter((segment) => ids.includes(segment.id))
        .sort((one, other) => (one.ids[0] ?? 0) - (other.ids[0] ?? 0))
      const { ordinals, passages } = renumber(sources, await findGone(tx, index))
      const pageCount = pageCountOf(passages.lengths.length)
      // With the claim: after a crash it is what says which segments are to be given back.
      await insertSegment(tx, index, { id, documentId: null, state: 'draft', ...passages, pageCount }, now)
      return { sources, ordinals, pageCount }
    })
    isClaimed = true
    await writeMerged(db, tenantId, id, merge)
    await db.transaction().execute(async (tx) => {
      if (!(await publishMerged(tx, tenantId, id, ids.length))) throw new Taken()
    })
    return true
  } catch (error) {
    const wasThere = await db.transaction().execute((tx) => abandonMerge(tx, tenantId, id))
    // Where the draft is gone, its pages could not be written: the index was deleted, or the merge took too long.
    if (error instanceof Taken || (isClaimed && !wasThere)) return false
    throw error
  }
}

/** More slices hold up the daemon for a shorter time each, while their terms are put together. */
const SLICES = 32
/** About 3 KB each. A commit of its own for each slice would take most of the time that small segments take. */
const PAGES_PER_TRANSACTION = 32

type Merge = { sources: readonly Segment[]; ordinals: readonly Int32Array[]; pageCount: number }

async function writeMerged(
  db: Db,
  tenantId: string,
  id: string,
  { sources, ordinals, pageCount }: Merge,
): Promise<void> {
  // Page counts are powers of two, and a term's page its hash modulo them. So the terms of every nth page of each source
  // are those of every nth page of the result, and a merge can go through them slice by slice.
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
