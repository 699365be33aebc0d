import { sql } from 'kysely'
import type { Db } from '../../platform/db/db.ts'
import { engineOf } from '../../platform/db/engine.ts'
import type { IndexKey } from '../indexes/document-types.ts'
import { decodeMatches, MATCH_COLUMNS, type MatchRow } from './match-row.ts'

/** Returns the published passages with these ids, by id. */
export const findMatches = async (db: Db, index: IndexKey, ids: readonly number[]): Promise<Map<number, MatchRow>> =>
  decodeMatches(await findEncodedMatches(db, index, ids))

/**
 * Returns the same passages as one text for `decodeMatches`. One text, and one parameter for all ids, cost the calling
 * thread far less than a hundred rows and a hundred parameters.
 */
export async function findEncodedMatches(
  db: Db,
  { tenantId, indexId }: IndexKey,
  ids: readonly number[],
): Promise<string> {
  if (ids.length === 0) return '[]'
  const columns = sql.join(MATCH_COLUMNS.map((column) => sql.ref(column)))
  const [encoded, isWanted] =
    engineOf(db).name === 'sqlite'
      ? [
          sql<string>`json_group_array(json_array(${columns}))`,
          sql<boolean>`passages.id in (select value from json_each(${JSON.stringify(ids)}))`,
        ]
      : [
          sql<string>`cast(coalesce(json_agg(json_build_array(${columns})), '[]') as text)`,
          sql<boolean>`passages.id = any(cast(${`{${ids.join(',')}}`} as bigint[]))`,
        ]
  const { rows } = await db
    .selectFrom('passages')
    .innerJoin('documents', (join) =>
      join
        .onRef('documents.tenant_id', '=', 'passages.tenant_id')
        .onRef('documents.index_id', '=', 'passages.index_id')
        .onRef('documents.id', '=', 'passages.document_id'),
    )
    .select(encoded.as('rows'))
    .where('passages.tenant_id', '=', tenantId)
    .where('passages.index_id', '=', indexId)
    .where(isWanted)
    .where('documents.state', '=', 'published')
    .executeTakeFirstOrThrow()
  return rows
}
