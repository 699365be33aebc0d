import type { Db } from '../../../platform/db/db.ts'
import type { Space } from './space.ts'

/**
 * The vectors of a space that a search may find. Those of documents that are being removed, which a crash may have interrupted,
 * are not among them: they would take places of others.
 */
export const searchedVectors = (db: Db, { tenantId, indexId, modelId }: Space) =>
  db
    .selectFrom('passage_vectors')
    .where('tenant_id', '=', tenantId)
    .where('index_id', '=', indexId)
    .where('model_id', '=', modelId)
    // One list for all rows, and nearly always an empty one.
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
