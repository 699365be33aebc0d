import type { Db } from '../../platform/db/db.ts'
import type { IndexKey } from '../indexes/document-types.ts'

/** A passage with its document. The passages of the document have consecutive ids that begin with `firstPassageId`. */
export type MatchRow = {
  id: number
  documentId: string
  source: string
  title: string
  position: number
  headings: string
  body: string
  page: number | null
  firstPassageId: number
  passageCount: number
}

/** Returns the published passages with these ids, by id. */
export async function findMatches(
  db: Db,
  { tenantId, indexId }: IndexKey,
  ids: readonly number[],
): Promise<Map<number, MatchRow>> {
  if (ids.length === 0) return new Map()
  const rows = await db
    .selectFrom('passages')
    .innerJoin('documents', (join) =>
      join
        .onRef('documents.tenant_id', '=', 'passages.tenant_id')
        .onRef('documents.index_id', '=', 'passages.index_id')
        .onRef('documents.id', '=', 'passages.document_id'),
    )
    .select([
      'passages.id',
      'passages.position',
      'passages.headings',
      'passages.body',
      'passages.page',
      'documents.id as documentId',
      'documents.source',
      'documents.title',
      'documents.first_passage_id',
      'documents.passage_count as passageCount',
    ])
    .where('passages.tenant_id', '=', tenantId)
    .where('passages.index_id', '=', indexId)
    .where('passages.id', 'in', ids)
    .where('documents.state', '=', 'published')
    .execute()
  return new Map(
    rows.map(({ first_passage_id, ...row }) => [row.id, { ...row, firstPassageId: Number(first_passage_id) }]),
  )
}
