import { type Expression, type SelectQueryBuilder, type SqlBool, sql } from 'kysely'
import { newId } from '../../../shared/ids.ts'
import type { Db } from '../../platform/db/db.ts'
import { engineOf } from '../../platform/db/engine.ts'
import { insertRows } from '../../platform/db/insert-rows.ts'
import type { Tables } from '../../platform/db/tables.ts'
import type { Passage } from '../ingest/chunking.ts'
import type { DocumentKey, Draft, IndexKey, NewDocument } from './document-types.ts'
import type { Run } from './segment.ts'
import { deleteSegments, publishSegments } from './segment-store.ts'

/** What the index holds under these names, by name: the hash of its content, and of how many passages it consists. */
export async function findDocuments(
  db: Db,
  { tenantId, indexId }: IndexKey,
  sources: readonly string[],
): Promise<Map<string, { contentHash: string; passageCount: number }>> {
  if (sources.length === 0) return new Map()
  const rows = await db
    .selectFrom('documents')
    .select(['source', 'content_hash', 'passage_count'])
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where(isNamed(db, sources))
    .where('state', '=', 'published')
    .execute()
  return new Map(
    rows.map(({ source, content_hash, passage_count }) => [
      source,
      { contentHash: content_hash, passageCount: passage_count },
    ]),
  )
}

/** One parameter on PostgreSQL, which plans each statement anew, and a hundred for twice as long (measured: 1 ms). */
const isNamed = (db: Db, sources: readonly string[]): Expression<SqlBool> =>
  engineOf(db).name === 'sqlite'
    ? sql<boolean>`source in (${sql.join(sources)})`
    : sql<boolean>`source = any(${sources}::text[])`

/** Makes room for a document that no search sees yet. Takes a transaction. */
export async function insertDraft(tx: Db, index: IndexKey, document: NewDocument): Promise<Draft> {
  await lockPassageIds(tx)
  const [draft] = await insertDocuments(tx, index, [document], 'draft')
  return draft as Draft
}

/**
 * Stores documents that a search finds from the commit on, each in the place of what was published under its name. Their
 * passages, in one row of ids, and the segment that holds them are still to be written. Takes a transaction.
 * @returns the new documents, and those whose place they took.
 */
export async function insertPublished(
  tx: Db,
  index: IndexKey,
  documents: readonly NewDocument[],
): Promise<{ drafts: Draft[]; replaced: { source: string; documentId: string }[] }> {
  await lockPassageIds(tx)
  const sources = documents.map(({ source }) => source)
  const replaced = await discardPublished(tx, index, sources)
  return { drafts: await insertDocuments(tx, index, documents, 'published'), replaced }
}

async function insertDocuments(
  tx: Db,
  { tenantId, indexId }: IndexKey,
  documents: readonly NewDocument[],
  state: 'draft' | 'published',
): Promise<Draft[]> {
  let next = await nextPassageId(tx)
  const drafts = documents.map(({ passageCount }) => {
    const firstPassageId = next
    // A document without passages takes an id as well, or the next one would have the same.
    next += Math.max(passageCount, 1)
    return { tenantId, indexId, documentId: newId(), firstPassageId }
  })
  const rows = documents.map(({ source, title, contentHash, passageCount, now }, at) => ({
    id: drafts[at]?.documentId as string,
    tenant_id: tenantId,
    index_id: indexId,
    source,
    title,
    content_hash: contentHash,
    passage_count: passageCount,
    state,
    created_at: now,
    first_passage_id: drafts[at]?.firstPassageId as number,
    in_shared_segment: documents.length > 1 ? 1 : 0,
  }))
  await insertRows(tx, 'documents', rows)
  return drafts
}

/** Behind all passages that there are, and behind those that drafts have still to write. */
async function nextPassageId(tx: Db): Promise<number> {
  // Documents without passages take an id as well.
  const reserved = tx
    .selectFrom('documents')
    .select(sql<number>`first_passage_id + case when passage_count > 0 then passage_count else 1 end`.as('next'))
    .where('first_passage_id', 'is not', null)
    .orderBy('first_passage_id', 'desc')
    .limit(1)
  const { last, next } = await tx
    .selectFrom('passages')
    .select((the) => [the.fn.max('id').as('last'), reserved.as('next')])
    .executeTakeFirstOrThrow()
  return Math.max(Number(last ?? 0) + 1, Number(next ?? 1))
}

/** Adds passages to documents, in one statement. Takes a transaction. */
export async function insertPassages(
  tx: Db,
  documents: readonly { draft: Draft; passages: readonly Passage[] }[],
): Promise<void> {
  const rows = documents.flatMap(({ draft, passages }) => passagesToRows(draft, passages))
  await insertRows(tx, 'passages', rows)
}

function passagesToRows(draft: Draft, passages: readonly Passage[]): Tables['passages'][] {
  return passages.map(({ position, headings, body, page = null }) => ({
    id: draft.firstPassageId + position,
    tenant_id: draft.tenantId,
    index_id: draft.indexId,
    document_id: draft.documentId,
    position,
    headings,
    body,
    page,
  }))
}

/**
 * From here on a search finds the draft, and no longer what was published under its name. Takes a transaction.
 * @returns the documents it took the place of: one, or none.
 * @throws Error when the draft was discarded meanwhile.
 */
export async function publishDraft(tx: Db, draft: DocumentKey, source: string): Promise<DocumentKey[]> {
  const { tenantId, indexId, documentId } = draft
  await lockPassageIds(tx)
  const replaced = await discardPublished(tx, draft, [source])
  const { numUpdatedRows } = await tx
    .updateTable('documents')
    .set({ state: 'published' })
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('id', '=', documentId)
    .where('state', '=', 'draft')
    .executeTakeFirstOrThrow()
  if (numUpdatedRows !== 1n) throw new Error(`the draft of "${source}" was discarded before it was complete`)
  await publishSegments(tx, tenantId, documentId)
  return replaced.map(({ documentId }) => ({ tenantId, indexId, documentId }))
}

function discardPublished(
  tx: Db,
  { tenantId, indexId }: IndexKey,
  sources: readonly string[],
): Promise<{ source: string; documentId: string }[]> {
  return tx
    .updateTable('documents')
    .set({ state: 'discarded' })
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where(isNamed(tx, sources))
    .where('state', '=', 'published')
    .returning(['source', 'id as documentId'])
    .execute()
}

/** What is not published, nor buried, and was written before `before` (ISO 8601), in any index of the tenant. */
export async function findUnpublished(db: Db, tenantId: string, before: string): Promise<DocumentKey[]> {
  const rows = await db
    .selectFrom('documents')
    .select(['id', 'index_id'])
    .where('tenant_id', '=', tenantId)
    .where('state', '<>', 'published')
    .where('state', '<>', 'buried')
    .where('created_at', '<', before)
    .execute()
  return rows.map(({ id, index_id }) => ({ tenantId, indexId: index_id, documentId: id }))
}

/**
 * The tenants that have something unpublished from before `before` (ISO 8601): documents, or segments of merges and
 * rebuilds.
 */
export async function findTenantsWithDrafts(db: Db, before: string): Promise<string[]> {
  const ofDocuments = db
    .selectFrom('documents')
    .select('tenant_id')
    .where('state', '<>', 'published')
    .where('state', '<>', 'buried')
    .where('created_at', '<', before)
  const ofSegments = db
    .selectFrom('indexes')
    .innerJoin('segments', (join) =>
      join
        .onRef('segments.tenant_id', '=', 'indexes.tenant_id')
        .onRef('segments.index_id', '=', 'indexes.id')
        .on('segments.state', '=', 'draft'),
    )
    .select('segments.tenant_id')
    .where('segments.document_id', 'is', null)
    .where('segments.created_at', '<', before)
  const rows = await ofDocuments.union(ofSegments).execute()
  return rows.map(({ tenant_id }) => tenant_id)
}

/** Holds a draft until the transaction ends. @throws Error when it was discarded meanwhile */
export async function holdDraft(tx: Db, { tenantId, indexId, documentId }: DocumentKey): Promise<void> {
  const { numUpdatedRows } = await tx
    .updateTable('documents')
    .set({ state: 'draft' })
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('id', '=', documentId)
    .where('state', '=', 'draft')
    .executeTakeFirstOrThrow()
  if (numUpdatedRows !== 1n) throw new Error('the draft was discarded before it was complete')
}

/** From here on nobody can publish the document. False when somebody has. */
export async function discardDocument(db: Db, { tenantId, indexId, documentId }: DocumentKey): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('documents')
    .set({ state: 'discarded' })
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('id', '=', documentId)
    .where('state', '<>', 'published')
    .executeTakeFirstOrThrow()
  return numUpdatedRows === 1n
}

/** Deletes up to `limit` passages of a document and returns how many it were. Takes a transaction. */
export async function deletePassages(
  tx: Db,
  { tenantId, indexId, documentId }: DocumentKey,
  limit: number,
): Promise<number> {
  const ofDocument = <T>(query: SelectQueryBuilder<Tables, 'passages', T>) =>
    query.where('tenant_id', '=', tenantId).where('index_id', '=', indexId).where('document_id', '=', documentId)
  const { numDeletedRows } = await tx
    .deleteFrom('passages')
    .where('id', 'in', ofDocument(tx.selectFrom('passages').select('id')).orderBy('position').limit(limit))
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}

/**
 * Deletes a discarded document whose passages are deleted. Where a segment that it shares with others still holds its
 * words, the row stays, `buried`, and tells searches to leave them out. Takes a transaction.
 */
export async function deleteDiscarded(tx: Db, { tenantId, indexId, documentId }: DocumentKey): Promise<void> {
  await deleteSegments(tx, tenantId, documentId)
  await tx
    .deleteFrom('documents')
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('id', '=', documentId)
    .where('state', '=', 'discarded')
    .where('in_shared_segment', '=', 0)
    .execute()
  await tx
    .updateTable('documents')
    .set({ state: 'buried' })
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('id', '=', documentId)
    .where('state', '=', 'discarded')
    .execute()
}

/** The documents of an index of which only words in shared segments are left, with the ids of their passages. */
export async function findBuried(
  db: Db,
  { tenantId, indexId }: IndexKey,
): Promise<{ documentId: string; passages: Run }[]> {
  const rows = await db
    .selectFrom('documents')
    .select(['id', 'first_passage_id', 'passage_count'])
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('state', '=', 'buried')
    .execute()
  return rows.map(({ id, first_passage_id, passage_count }) => ({
    documentId: id,
    passages: { first: Number(first_passage_id), count: passage_count },
  }))
}

/** Forgets a buried document, once no segment holds words of it. */
export async function deleteBuried(db: Db, { tenantId, indexId, documentId }: DocumentKey): Promise<void> {
  await db
    .deleteFrom('documents')
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('id', '=', documentId)
    .where('state', '=', 'buried')
    .execute()
}

/** A published document that is in no segment yet, of any tenant; undefined when there is none. */
export async function findUnindexed(
  db: Db,
): Promise<{ index: IndexKey; documentId: string; document: Omit<NewDocument, 'passageCount' | 'now'> } | undefined> {
  const row = await db
    .selectFrom('documents')
    .selectAll()
    .where('state', '=', 'published')
    .where('first_passage_id', 'is', null)
    .limit(1)
    .executeTakeFirst()
  return (
    row && {
      index: { tenantId: row.tenant_id, indexId: row.index_id },
      documentId: row.id,
      document: { source: row.source, title: row.title, contentHash: row.content_hash },
    }
  )
}

/** The published documents of an index: the ids of their passages, in the order of these. */
export type DocumentRun = Run & { documentId: string; source: string; title: string }

export async function findRuns(db: Db, { tenantId, indexId }: IndexKey): Promise<DocumentRun[]> {
  const rows = await db
    .selectFrom('documents')
    .select(['id', 'source', 'title', 'first_passage_id', 'passage_count'])
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('state', '=', 'published')
    .where('first_passage_id', 'is not', null)
    .orderBy('first_passage_id')
    .execute()
  return rows.map(({ id, source, title, first_passage_id, passage_count }) => ({
    documentId: id,
    source,
    title,
    first: Number(first_passage_id),
    count: passage_count,
  }))
}

const MARKED_AT_ONCE = 500

/** Notes that words of these documents are, or are about to be, in segments with others. */
export async function markShared(db: Db, { tenantId, indexId }: IndexKey, ids: readonly string[]): Promise<void> {
  for (let start = 0; start < ids.length; start += MARKED_AT_ONCE) {
    await db
      .updateTable('documents')
      .set({ in_shared_segment: 1 })
      .where('tenant_id', '=', tenantId)
      .where('index_id', '=', indexId)
      .where('id', 'in', ids.slice(start, start + MARKED_AT_ONCE))
      .where('in_shared_segment', '=', 0)
      .execute()
  }
}

/** The passages of a document, in order, from a position on. */
export function readPassages(
  db: Db,
  { tenantId, indexId, documentId }: DocumentKey,
  { from, limit }: { from: number; limit: number },
): Promise<Passage[]> {
  return db
    .selectFrom('passages')
    .select(['position', 'headings', 'body', 'page'])
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('document_id', '=', documentId)
    .where('position', '>=', from)
    .where('position', '<', from + limit)
    .orderBy('position')
    .execute()
}

/** A number without meaning, the same in every daemon. */
const PASSAGE_IDS_LOCK = 0x61696777

/** Two daemons on one PostgreSQL would give out the same ids; SQLite has only one writer anyway. */
async function lockPassageIds(tx: Db): Promise<void> {
  if (engineOf(tx).name === 'postgres') await sql`select pg_advisory_xact_lock(${PASSAGE_IDS_LOCK})`.execute(tx)
}
