import { GatewayError } from '../../../shared/errors.ts'
import { isoTime } from '../../../shared/time.ts'
import type { DOCUMENT_SORTS, IndexDocument } from '../../../shared/wire/indexes.ts'
import type { Db } from '../../platform/db/db.ts'
import { contains, type Page, pageOf } from '../../platform/db/list-page.ts'
import { type Actor, type ChangeDeps, change } from '../../records/audit/change.ts'
import { removeDocument } from '../ingest/replacement.ts'
import { documentActivity } from './document-activity.ts'
import type { IndexKey } from './document-types.ts'
import { requireStillWritable } from './index-access.ts'
import { mergeSegments } from './merge.ts'
import type { IndexRow } from './store.ts'

type DocumentFilter = Page & {
  search?: string | undefined
  sortBy: (typeof DOCUMENT_SORTS)[number]
  sortOrder: 'asc' | 'desc'
}

const SORT_COLUMNS = { createdAt: 'created_at', name: 'source' } as const

/** Returns one page of an index's documents, and their total number. `search` matches any part of the name. */
export async function listDocuments(
  db: Db,
  { tenantId, indexId }: IndexKey,
  { search, sortBy, sortOrder, ...page }: DocumentFilter,
): Promise<{ documents: IndexDocument[]; total: number }> {
  const published = db
    .selectFrom('documents')
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('state', '=', 'published')
  const matching = published.select('id')
  const { rows, total } = await pageOf(search === undefined ? matching : matching.where(contains('source', search)), {
    ...page,
    sortKeys: [SORT_COLUMNS[sortBy], 'id'],
    sortOrder,
    isSearch: search !== undefined,
    find: (ids) =>
      published
        .select(['id', 'source as name', 'title', 'passage_count as chunks', 'created_at as createdAt'])
        .where('id', 'in', ids)
        .execute(),
  })
  return { documents: rows, total }
}

/**
 * Deletes one document from an index. After the commit, searches no longer find the document. The document's passages
 * are deleted afterwards.
 * @throws DOCUMENT_NOT_FOUND
 */
export async function deleteDocument(index: IndexRow, documentId: string, deps: ChangeDeps, by: Actor): Promise<void> {
  const key = { tenantId: index.tenant_id, indexId: index.id }
  await change(deps, by, async ({ tx, caller, record }) => {
    await requireStillWritable(tx, caller, index)
    const deleted = await tx
      .updateTable('documents')
      .set({ state: 'discarded' })
      .where('tenant_id', '=', key.tenantId)
      .where('index_id', '=', key.indexId)
      .where('id', '=', documentId)
      .where('state', '=', 'published')
      .returning(['source', 'passage_count'])
      .executeTakeFirst()
    if (!deleted) throw documentNotFound()
    await record(
      documentActivity(index, {
        operation: 'delete_document',
        document: { id: documentId, source: deleted.source },
        facts: { passages: deleted.passage_count },
      }),
    )
  })
  await removeDocument(deps.db, { ...key, documentId })
  await mergeSegments(deps.db, key, isoTime(deps.clock.now()))
}

export const documentNotFound = () =>
  new GatewayError(
    'DOCUMENT_NOT_FOUND',
    'The index does not contain this document. GET …/documents lists its documents.',
  )
