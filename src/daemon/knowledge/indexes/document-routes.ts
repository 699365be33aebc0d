// The routes for documents: training, listing and deletion.
import type { z } from 'zod'
import { GatewayError } from '../../../shared/errors.ts'
import { isoTime } from '../../../shared/time.ts'
import { DoneResponse, FlatError } from '../../../shared/wire/common.ts'
import { ListDocumentsQuery, ListDocumentsResponse, TrainResponse } from '../../../shared/wire/indexes.ts'
import { toPagination } from '../../platform/db/list-page.ts'
import type { OutboxEventRow } from '../../platform/db/tables.ts'
import { idOf, type RequestContext, type Route, reply, route } from '../../platform/http/route.ts'
import type { Log } from '../../platform/log.ts'
import { indexFailed } from '../../records/events/events.ts'
import { createDocumentScreening } from '../../safety/guards/documents.ts'
import { createIntake } from '../ingest/intake.ts'
import { type TrainDeps, type TrainedDocument, trainIndex } from '../ingest/train.ts'
import { receiveUpload } from '../ingest/upload.ts'
import { withUploadDirectory } from '../ingest/upload-directory.ts'
import { type RulesOfCallDeps, rulesOfCall } from '../search/rules-of-call.ts'
import type { Retrieval } from '../search/vectors/retrieval.ts'
import { deleteDocument, documentNotFound, listDocuments } from './documents.ts'
import { getReadableIndex, getWritableIndex } from './index-access.ts'
import { namespaceOf } from './index-view.ts'
import type { IndexRow } from './store.ts'

/**
 * The maximum number of trainings that one tenant can run concurrently in one daemon. Each training may use a gigabyte
 * of disk space.
 */
const TRAININGS = 8
/**
 * The `Retry-After` value of the response that rejects a training because the tenant already runs TRAININGS trainings.
 */
const TRAINING_RETRY_AFTER_SECONDS = 5

export type DocumentDeps = TrainDeps &
  RulesOfCallDeps &
  Pick<Retrieval, 'forbiddenFor'> & {
    log: Log
    /** Uploads are kept in this directory until they are indexed. */
    uploadsDir: string
  }

const TRAIN_PATH = '/api/external/indexes/{indexName}/train'

const FORBIDDEN = { description: 'The key may not use an index with this name', schema: FlatError }
const READ_ONLY = { description: 'The key may not use an index with this name, or may only read it', schema: FlatError }
const NO_INDEX = { description: 'The index does not exist, or the key may not read it', schema: FlatError }

/**
 * Defines the routes for an index's documents. Readers of the index list documents. Writers add and delete documents.
 */
export function documentRoutes({ log, uploadsDir, ...deps }: DocumentDeps): Route[] {
  const { db, guards } = deps
  const training = new Map<string, number>()
  const intake = createIntake()
  const common: Pick<Route, 'access' | 'errors' | 'tags'> = { access: 'key', errors: 'flat', tags: ['Indexes'] }
  return [
    route({
      ...common,
      method: 'POST',
      path: TRAIN_PATH,
      summary: 'Add documents to a knowledge base (multipart/form-data: files, text_inputs)',
      bodyLimit: 'unread',
      responses: {
        200: { description: 'The result for each document', schema: TrainResponse },
        400: {
          description: 'No documents were sent, the body is malformed, or no document could be read',
          schema: FlatError,
        },
        403: READ_ONLY,
        404: NO_INDEX,
        413: { description: 'Every file is too large, or the whole body is', schema: FlatError },
        415: { description: 'Not multipart/form-data', schema: FlatError },
        503: {
          description: 'The tenant has too many running trainings, or the policy of the key was deleted',
          schema: FlatError,
        },
      },
      async handle(context) {
        const { caller, params, request, requestId, signal } = context
        const index = await getWritableIndex(db, caller, params.indexName)
        const others = training.get(caller.tenantId) ?? 0
        if (others >= TRAININGS) throw tooManyTrainings()
        training.set(caller.tenantId, others + 1)
        try {
          return await withUploadDirectory(uploadsDir, async (directory) => {
            const uploads = await receiveUpload(request, directory, { intake, signal })
            // The request body has been received completely. While the server indexes the documents, the connection may
            // be idle.
            request.setTimeout(0)
            const { rules, record } = await rulesOfCall({ caller, requestId, endpoint: TRAIN_PATH }, deps)
            const screening = createDocumentScreening(rules, caller.tenantId, guards)
            // The documents are stored, or the caller gets the first error, even if the event cannot be stored.
            const failed = (documents: number) =>
              deps.ledger
                .commit({ events: [failureOf(index, documents, context, deps.clock.now())] })
                .catch((error: unknown) =>
                  log.error({ error, request_id: requestId }, 'the event index:failed could not be stored'),
                )
            // Incidents are recorded even if the training fails, because documents that were stored before the failure
            // are kept.
            const documents = await trainIndex(uploads, index, screening, deps, context)
              .catch(async (error: unknown) => {
                if (!isOfCaller(error, signal)) await failed(uploads.length)
                throw error
              })
              .finally(() => record(screening.incidents()))
            const skipped = await deps.forbiddenFor(caller.tenantId, caller.settings.defaultSMLTPPolicy)
            const counts = { index: index.name, documents: documents.length, failed: countOf(documents, 'failed') }
            log.info({ request_id: requestId, ...counts }, 'index trained')
            if (counts.failed > 0) await failed(counts.failed)
            if (counts.failed === documents.length) throw nothingTrained(uploads, documents)
            return reply(200, trained(index, documents, { requestId, skipped }))
          })
        } finally {
          const left = (training.get(caller.tenantId) ?? 1) - 1
          if (left === 0) training.delete(caller.tenantId)
          else training.set(caller.tenantId, left)
        }
      },
    }),
    route({
      ...common,
      method: 'GET',
      path: '/api/external/indexes/{indexName}/documents',
      summary: 'List the documents of a knowledge base',
      query: ListDocumentsQuery,
      responses: {
        200: { description: 'One page, newest first', schema: ListDocumentsResponse },
        403: FORBIDDEN,
        404: NO_INDEX,
      },
      async handle({ caller, params, query }) {
        const index = await getReadableIndex(db, caller, params.indexName)
        const key = { tenantId: caller.tenantId, indexId: index.id }
        const { documents, total } = await listDocuments(db, key, query)
        return reply(200, {
          success: true,
          documents,
          pagination: toPagination(query, total),
        } satisfies z.input<typeof ListDocumentsResponse>)
      },
    }),
    route({
      ...common,
      method: 'DELETE',
      path: '/api/external/indexes/{indexName}/documents/{documentId}',
      summary: 'Remove a document from a knowledge base',
      responses: {
        200: { description: 'The document is deleted; searches no longer find it', schema: DoneResponse },
        403: READ_ONLY,
        404: { description: 'The index or the document does not exist', schema: FlatError },
      },
      async handle(context) {
        const { caller, params } = context
        const index = await getWritableIndex(db, caller, params.indexName)
        await deleteDocument(index, idOf(params.documentId, documentNotFound), deps, context)
        return reply(200, { success: true, message: 'Document deleted' } satisfies z.input<typeof DoneResponse>)
      },
    }),
  ]
}

const tooManyTrainings = () =>
  new GatewayError(
    'OVERLOADED',
    `The tenant already has ${TRAININGS} running trainings, which is the limit. Retry in a moment.`,
    {
      retryAfterSeconds: TRAINING_RETRY_AFTER_SECONDS,
    },
  )

const countOf = (documents: readonly TrainedDocument[], status: TrainedDocument['status']): number =>
  documents.filter((document) => document.status === status).length

/** Whether a training ended because of its caller. Then the index has no fault to report. */
const isOfCaller = (error: unknown, signal: AbortSignal): boolean => signal.aborted || error instanceof GatewayError

/** The event about documents that could not be added. */
const failureOf = (
  index: IndexRow,
  documents: number,
  { caller, requestId }: Pick<RequestContext, 'caller' | 'requestId'>,
  nowMs: number,
): OutboxEventRow =>
  indexFailed(
    { tenantId: index.tenant_id, createdAt: isoTime(nowMs) },
    { indexId: index.id, indexName: index.name, documents, requestId, userId: caller.userId, apiKeyId: caller.keyId },
  )

/** Returns the error for a training that indexed no documents. The error contains the reason for each document. */
function nothingTrained(uploads: readonly { isTooLarge: boolean }[], documents: TrainedDocument[]): GatewayError {
  const code = uploads.every(({ isTooLarge }) => isTooLarge) ? 'FILE_TOO_LARGE' : 'VALIDATION_ERROR'
  const reasons = documents.map(({ name, error }) => `${name}: ${error}`).join(' ')
  return new GatewayError(code, `No document could be indexed. ${reasons}`, { extra: { documents } })
}

function trained(
  index: IndexRow,
  documents: TrainedDocument[],
  { requestId, skipped }: { requestId: string; skipped: string | undefined },
): z.input<typeof TrainResponse> {
  const failed = countOf(documents, 'failed')
  return {
    success: true,
    message:
      failed === 0 ? 'All documents are indexed' : `${failed} of ${documents.length} documents could not be indexed`,
    request_id: requestId,
    results: {
      files_processed: documents.length,
      documents_extracted: documents.length - failed,
      documents_indexed: countOf(documents, 'indexed'),
      total_vectors: 0,
      total_chunks: documents.reduce((total, { chunks }) => total + chunks, 0),
      index_name: index.name,
      namespace: namespaceOf(index),
      ...(skipped !== undefined && { skipped_models: [skipped] }),
      documents,
    },
  }
}
