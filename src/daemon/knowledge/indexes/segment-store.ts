// SQL queries on segments and their pages.
import { sql } from 'kysely'
import type { Db } from '../../platform/db/db.ts'
import { engineOf } from '../../platform/db/engine.ts'
import type { IndexKey } from './document-types.ts'
import type { SegmentSize } from './merge-plan.ts'
import { pageName } from './postings.ts'
import {
  decodePassages,
  decodeRuns,
  encodeIds,
  encodeLengths,
  type PublishedSegment,
  type Run,
  type Segment,
  type StoredPassages,
} from './segment.ts'

/** `documentId` is null if the segment contains passages of several documents. */
type NewSegment = Segment & { documentId: string | null; state: 'draft' | 'published' }

/** Writes a segment without its pages. `insertPages` adds the pages, in one or more transactions. */
export async function insertSegment(
  db: Db,
  { tenantId, indexId }: IndexKey,
  { id, documentId, state, ids, lengths, pageCount }: NewSegment,
  now: string,
): Promise<void> {
  await db
    .insertInto('segments')
    .values({
      id,
      tenant_id: tenantId,
      index_id: indexId,
      document_id: documentId,
      state,
      merged_into: null,
      passage_count: lengths.length,
      page_count: pageCount,
      passages: encodeIds(ids),
      lengths: encodeLengths(lengths),
      created_at: now,
    })
    .execute()
}

export async function insertPages(
  db: Db,
  tenantId: string,
  segmentId: string,
  pages: ReadonlyMap<number, Uint8Array>,
): Promise<void> {
  const rows = [...pages].map(([page, terms]) => ({
    tenant_id: tenantId,
    segment_id: segmentId,
    page: pageName(segmentId, page),
    terms,
  }))
  if (rows.length > 0) await db.insertInto('postings').values(rows).execute()
}

/** Publishes the document's segments, so that searches read them. */
export async function publishSegments(tx: Db, tenantId: string, documentId: string): Promise<void> {
  await tx
    .updateTable('segments')
    .set({ state: 'published' })
    .where('tenant_id', '=', tenantId)
    .where('document_id', '=', documentId)
    .execute()
}

/** Deletes the segments that contain only this document. */
export async function deleteSegments(db: Db, tenantId: string, documentId: string): Promise<void> {
  await db.deleteFrom('segments').where('tenant_id', '=', tenantId).where('document_id', '=', documentId).execute()
}

/** Returns the segments that a search of the index reads, oldest first. */
export async function findSegments(db: Db, { tenantId, indexId }: IndexKey): Promise<Segment[]> {
  const rows = await db
    .selectFrom('segments')
    .select(['id', 'page_count', 'passages', 'lengths'])
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('state', '=', 'published')
    .orderBy('id')
    .execute()
  return rows.map(({ id, page_count, ...passages }) => ({ id, pageCount: page_count, ...decodePassages(passages) }))
}

/** Returns the published segments of an index without their passages, oldest first. */
export async function findPublished(db: Db, { tenantId, indexId }: IndexKey): Promise<PublishedSegment[]> {
  return db
    .selectFrom('segments')
    .select(['id', 'page_count as pageCount'])
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('state', '=', 'published')
    .orderBy('id')
    .execute()
}

/** Returns the encoded passages of these segments, by segment id. */
export async function findStoredPassages(
  db: Db,
  tenantId: string,
  ids: readonly string[],
): Promise<Map<string, StoredPassages>> {
  if (ids.length === 0) return new Map()
  const rows = await db
    .selectFrom('segments')
    .select(['id', 'passages', 'lengths'])
    .where('tenant_id', '=', tenantId)
    .where('id', 'in', ids)
    .execute()
  return new Map(rows.map(({ id, ...passages }) => [id, passages]))
}

/**
 * Returns, in ascending order, the ids of deleted passages whose terms are still in segments. Searches skip these ids.
 */
export const findDeletedRuns = async (db: Db, index: IndexKey): Promise<Run[]> =>
  decodeRuns(await findEncodedDeletedRuns(db, index))

/**
 * Returns the same runs as one text for `decodeRuns`. An index may have thousands of deleted documents, and one object
 * per document would cost the calling thread milliseconds.
 */
export async function findEncodedDeletedRuns(db: Db, { tenantId, indexId }: IndexKey): Promise<string> {
  const concatenate = sql.raw(engineOf(db).name === 'sqlite' ? 'group_concat' : 'string_agg')
  const { runs } = await db
    .selectFrom('documents')
    .select(sql<string | null>`${concatenate}(first_passage_id || ' ' || passage_count, ',')`.as('runs'))
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('state', 'in', ['discarded', 'buried'])
    .where('first_passage_id', 'is not', null)
    .executeTakeFirstOrThrow()
  return runs ?? ''
}

/** Returns the pages with these names, by name. A page without terms may be missing. */
export async function findPages(db: Db, tenantId: string, names: readonly string[]): Promise<Map<string, Uint8Array>> {
  const isWanted =
    engineOf(db).name === 'sqlite'
      ? sql<boolean>`page in (select value from json_each(${JSON.stringify(names)}))`
      : sql<boolean>`page = any(string_to_array(${names.join(' ')}, ' ') collate "C")`
  const rows = await db
    .selectFrom('postings')
    .select(['page', 'terms'])
    .where('tenant_id', '=', tenantId)
    .where(isWanted)
    .execute()
  return new Map(rows.map(({ page, terms }) => [page, terms]))
}

/** Returns the segments that no merge has claimed, oldest first. */
export async function findUnmerged(db: Db, { tenantId, indexId }: IndexKey): Promise<SegmentSize[]> {
  const rows = await db
    .selectFrom('segments')
    .select(['id', 'passage_count'])
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('state', '=', 'published')
    .where('merged_into', 'is', null)
    .orderBy('id')
    .execute()
  return rows.map(({ id, passage_count }) => ({ id, passageCount: passage_count }))
}

/**
 * Claims segments for a merge. Returns false if some segments are not available. In this case, the caller must roll
 * back, because the other segments are already claimed. Requires a transaction.
 */
export async function claimForMerge(tx: Db, tenantId: string, ids: readonly string[], into: string): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('segments')
    .set({ merged_into: into })
    .where('tenant_id', '=', tenantId)
    .where('id', 'in', ids)
    .where('state', '=', 'published')
    .where('merged_into', 'is', null)
    .executeTakeFirstOrThrow()
  return Number(numUpdatedRows) === ids.length
}

/**
 * Publishes the merged segment: searches read it instead of its `count` sources. Returns false if a source was deleted
 * in the meantime. In this case, the caller must roll back, because the other sources are already deleted. Requires a
 * transaction.
 */
export async function publishMerged(tx: Db, tenantId: string, id: string, count: number): Promise<boolean> {
  const sources = await tx
    .deleteFrom('segments')
    .where('tenant_id', '=', tenantId)
    .where('merged_into', '=', id)
    .returning('document_id')
    .execute()
  if (sources.length !== count) return false
  const documents = new Set(sources.flatMap(({ document_id }) => document_id ?? []))
  if (documents.size > 0) {
    await tx
      .updateTable('documents')
      .set({ in_shared_segment: 1 })
      .where('tenant_id', '=', tenantId)
      .where('id', 'in', [...documents])
      .execute()
  }
  await tx
    .updateTable('segments')
    .set({ state: 'published' })
    .where('tenant_id', '=', tenantId)
    .where('id', '=', id)
    .execute()
  return true
}

/**
 * Publishes the rebuilt segments: searches read them instead of the `sources`. The sources were claimed with the empty
 * segment `rebuild`. Returns false if a source was deleted in the meantime. In this case, the caller must roll back,
 * because the other sources are already deleted. Requires a transaction.
 */
export async function publishRebuilt(
  tx: Db,
  tenantId: string,
  { rebuild, sources, drafts }: { rebuild: string; sources: number; drafts: readonly string[] },
): Promise<boolean> {
  const { numDeletedRows } = await tx
    .deleteFrom('segments')
    .where('tenant_id', '=', tenantId)
    .where((the) => the.or([the('merged_into', '=', rebuild), the('id', '=', rebuild)]))
    .executeTakeFirstOrThrow()
  if (Number(numDeletedRows) !== sources + 1) return false
  const { numUpdatedRows } = await tx
    .updateTable('segments')
    .set({ state: 'published' })
    .where('tenant_id', '=', tenantId)
    .where('id', 'in', drafts)
    .executeTakeFirstOrThrow()
  return Number(numUpdatedRows) === drafts.length - 1
}

/**
 * Abandons a merge and releases its sources. Returns false if the merge was already abandoned. Requires a transaction.
 */
export async function abandonMerge(tx: Db, tenantId: string, id: string): Promise<boolean> {
  await tx
    .updateTable('segments')
    .set({ merged_into: null })
    .where('tenant_id', '=', tenantId)
    .where('merged_into', '=', id)
    .execute()
  const { numDeletedRows } = await tx
    .deleteFrom('segments')
    .where('tenant_id', '=', tenantId)
    .where('id', '=', id)
    .where('state', '=', 'draft')
    .executeTakeFirstOrThrow()
  return numDeletedRows === 1n
}

/** Renews these drafts: records that each draft was still being written at `now` (ISO 8601). */
export async function renewDrafts(db: Db, tenantId: string, ids: readonly string[], now: string): Promise<void> {
  await db
    .updateTable('segments')
    .set({ created_at: now })
    .where('tenant_id', '=', tenantId)
    .where('id', 'in', ids)
    .where('state', '=', 'draft')
    .execute()
}

/** Returns the tenant's unfinished merges that were begun or last renewed before `before` (ISO 8601). */
export async function findAbandonedMerges(db: Db, tenantId: string, before: string): Promise<string[]> {
  const rows = await db
    .selectFrom('segments')
    .select('id')
    .where('tenant_id', '=', tenantId)
    .where('document_id', 'is', null)
    .where('state', '=', 'draft')
    .where('created_at', '<', before)
    .execute()
  return rows.map(({ id }) => id)
}
