import { newId } from '../../shared/ids.ts'
import type { Db } from '../db/database.ts'
import { deleteBuried, findBuried, type IndexKey } from './document-store.ts'
import { isWorn, segmentsToMerge } from './merge-plan.ts'
import { pageCountOf } from './postings.ts'
import { goneOrdinals, mergePages, type Run, renumber } from './segment.ts'
import {
  abandonMerge,
  claimForMerge,
  findAbandonedMerges,
  findGone,
  findPages,
  findSegments,
  findUnmerged,
  insertPages,
  insertSegmentRow,
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
class Taken extends Error {}

/** False when it came to nothing because others were at the same segments. */
async function merge(db: Db, index: IndexKey, ids: readonly string[], now: string): Promise<boolean> {
  const { tenantId } = index
  const id = newId()
  try {
    const { segments, gone } = await db.transaction().execute(async (tx) => {
      if (!(await claimForMerge(tx, tenantId, ids, id))) throw new Taken()
      return { segments: await findSegments(tx, index), gone: await findGone(tx, index) }
    })
    const sources = segments
      .filter((segment) => ids.includes(segment.id))
      .sort((one, other) => (one.ids[0] ?? 0) - (other.ids[0] ?? 0))
    await writeMerged(db, index, { id, sources, gone }, now)
    await db.transaction().execute(async (tx) => {
      if (!(await publishMerged(tx, tenantId, id, ids.length))) throw new Taken()
    })
    return true
  } catch (error) {
    await db.transaction().execute((tx) => abandonMerge(tx, tenantId, id))
    if (error instanceof Taken) return false
    throw error
  }
}

/** More slices hold the store for a shorter time each, fewer write less often. */
const SLICES = 32

type Merge = { id: string; sources: readonly Segment[]; gone: readonly Run[] }

async function writeMerged(db: Db, index: IndexKey, { id, sources, gone }: Merge, now: string): Promise<void> {
  const { ordinals, passages } = renumber(sources, gone)
  const pageCount = pageCountOf(passages.lengths.length)
  await insertSegmentRow(db, index, { id, documentId: null, ...passages, pageCount }, now)
  // Page counts are powers of two, and a term's page its hash modulo them. So the terms of every nth page of each source
  // are those of every nth page of the result, and a merge can go through them slice by slice.
  const slices = Math.min(SLICES, pageCount, ...sources.map((source) => source.pageCount))
  for (let slice = 0; slice < slices; slice++) {
    const names = sources.map((source) =>
      everyNth(slice, slices, source.pageCount).map((page) => pageName(source.id, page)),
    )
    const pages = await findPages(db, index.tenantId, names.flat())
    const ofSources = names.map((ofSource) => ofSource.flatMap((name) => pages.get(name) ?? []))
    await insertPages(db, index.tenantId, id, mergePages(ofSources, ordinals, pageCount))
  }
}

function everyNth(first: number, step: number, count: number): number[] {
  const numbers: number[] = []
  for (let number = first; number < count; number += step) numbers.push(number)
  return numbers
}
