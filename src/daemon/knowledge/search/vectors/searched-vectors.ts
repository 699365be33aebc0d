import type { Db } from '../../../platform/db/db.ts'
import type { Space } from './space.ts'

/**
 * Selects the vectors of a space that a search is allowed to return. Excludes documents whose removal is in progress or
 * was interrupted by a crash. Otherwise such documents would displace other results.
 */
export const searchedVectors = (db: Db, { tenantId, indexId, modelId }: Space) =>
  db
    .selectFrom('passage_vectors')
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('model_id', '=', modelId)
    // The subquery is evaluated once for all rows. The result of the subquery is nearly always empty.
    .where('passage_id', 'not in', (the) =>
      the
        .selectFrom('documents')
        .innerJoin('passages', (join) =>
          join
            .onRef('passages.tenant_id', '=', 'documents.tenant_id')
            .onRef('passages.index_id', '=', 'documents.index_id')
            .onRef('passages.document_id', '=', 'documents.id'),
        )
        .select('passages.id')
        .where('documents.tenant_id', '=', tenantId)
        .where('documents.index_id', '=', indexId)
        .where('documents.state', 'in', ['discarded', 'buried']),
    )
