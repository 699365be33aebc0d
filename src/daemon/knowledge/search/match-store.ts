import { sql } from 'kysely'
import type { Db } from '../../platform/db/db.ts'
import { engineOf } from '../../platform/db/engine.ts'
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
  // One parameter for all ids. A list of a hundred parameters costs the calling thread half a millisecond.
  const isWanted =
    engineOf(db).name === 'sqlite'
      ? sql<boolean>`passages.id in (select value from json_each(${JSON.stringify(ids)}))`
      : sql<boolean>`passages.id = any(cast(${`{${ids.join(',')}}`} as bigint[]))`
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
    .where(isWanted)
    .where('documents.state', '=', 'published')
    .execute()
  return new Map(
    rows.map(({ first_passage_id, ...row }) => [row.id, { ...row, firstPassageId: Number(first_passage_id) }]),
  )
}
