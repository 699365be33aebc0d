import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { z } from 'zod'
import { GatewayError } from '../../shared/errors.ts'
import { newId } from '../../shared/ids.ts'
import { toIndexName } from '../../shared/index-name.ts'
import { INDEX_NAME, SEARCH_CONTENT_CHARS } from '../../shared/spec-limits.ts'
import { isoTime } from '../../shared/time.ts'
import { FlatError, StructuredError } from '../../shared/wire/common.ts'
import {
  CreateIndexRequest,
  CreateIndexResponse,
  DiscoverIndexesResponse,
  type Index,
  ListIndexesQuery,
  ListIndexesResponse,
  SearchQuery,
  SearchResponse,
  TrainResponse,
  ZERO_KNOWLEDGE,
} from '../../shared/wire/indexes.ts'
import { type ChangeDeps, change } from '../audit/change.ts'
import type { Db } from '../db/database.ts'
import { toPagination } from '../db/list-page.ts'
import type { Caller } from '../http/caller.ts'
import { type Route, reply, route } from '../http/route.ts'
import type { Log } from '../log.ts'
import { characterBorder } from '../text/words.ts'
import { requireAllowedIndex } from './allowed-index.ts'
import { type Match, searchPassages } from './search.ts'
import { type CountedIndex, findIndexByName, type IndexRow, insertIndex, listIndexes, listIndexNames } from './store.ts'
import { type TrainedDocument, trainIndex } from './train.ts'
import { receiveUpload } from './upload.ts'

/** The routes of knowledge bases (named-endpoints §4, §19). */
export function knowledgeRoutes({ log, ...deps }: ChangeDeps & { log: Log }): Route[] {
  const { db, clock } = deps
  return [
    route({
      method: 'POST',
      path: '/api/external/indexes',
      access: 'index-management',
      rate: 'write',
      errors: 'structured',
      summary: 'Create a knowledge base',
      tags: ['Indexes'],
      body: CreateIndexRequest,
      responses: {
        201: { description: 'The new index, usable at once', schema: CreateIndexResponse },
        400: {
          description: 'A field is wrong; flat when it is the name',
          schema: z.union([StructuredError, FlatError]),
        },
        409: { description: 'The name exists', schema: StructuredError },
      },
      async handle(context) {
        const { caller, body } = context
        const now = isoTime(clock.now())
        const index: IndexRow = {
          id: newId(clock.now()),
          tenant_id: caller.tenantId,
          name: usableName(body.name),
          description: body.description ?? '',
          created_by: caller.userId,
          created_at: now,
          updated_at: now,
        }
        await change(deps, context, async ({ tx, record }) => {
          await insertIndex(tx, index)
          await record({
            type: 'index_management',
            operation: 'create',
            resourceType: 'index',
            resourceId: index.id,
            description: `created index "${index.name}"`,
          })
        })
        return reply(201, {
          success: true,
          message: 'Index created',
          index: toCreatedIndex({ ...index, documentCount: 0 }),
        } satisfies z.input<typeof CreateIndexResponse>)
      },
    }),
    route({
      method: 'GET',
      path: '/api/external/indexes/all',
      access: 'index-management',
      rate: 'read',
      errors: 'structured',
      summary: 'List all knowledge bases',
      tags: ['Indexes'],
      query: ListIndexesQuery,
      responses: {
        200: { description: 'One page, newest first', schema: ListIndexesResponse },
      },
      async handle({ caller, query }) {
        const { indexes, total } = await listIndexes(db, caller.tenantId, query)
        return reply(200, {
          success: true,
          indexes: indexes.map(toIndex),
          pagination: toPagination(query, total),
        } satisfies z.input<typeof ListIndexesResponse>)
      },
    }),
    route({
      method: 'GET',
      path: '/api/external/indexes',
      access: 'key',
      errors: 'flat',
      summary: 'Knowledge bases this key may query',
      tags: ['Indexes'],
      responses: {
        200: { description: 'What chat takes as `index`', schema: DiscoverIndexesResponse },
      },
      async handle({ caller }) {
        const { allowedIndexes } = caller.settings
        const indexes = await listIndexNames(db, caller.tenantId, allowedIndexes)
        return reply(200, {
          success: true,
          indexes: [
            {
              id: ZERO_KNOWLEDGE,
              name: ZERO_KNOWLEDGE,
              type: 'system',
              description: 'Answers by the model alone, without retrieval',
            },
            ...indexes.map(({ name, description }) => ({ id: name, name, type: 'general' as const, description })),
          ],
          restrictions: { allowed_indexes: allowedIndexes.length === 0 ? 'all user indexes' : allowedIndexes },
        } satisfies z.input<typeof DiscoverIndexesResponse>)
      },
    }),
    route({
      method: 'POST',
      path: '/api/external/indexes/{indexName}/train',
      access: 'key',
      errors: 'flat',
      summary: 'Add documents to a knowledge base (multipart/form-data: files, text_inputs)',
      tags: ['Indexes'],
      bodyLimit: 'unread',
      responses: {
        200: { description: 'What became of each document', schema: TrainResponse },
        400: { description: 'Nothing sent, malformed, or no document could be read', schema: FlatError },
        403: { description: 'The key may not use an index of this name', schema: FlatError },
        404: { description: 'No such index', schema: FlatError },
        413: { description: 'A file is too large; nothing was indexed', schema: FlatError },
        415: { description: 'Not multipart/form-data', schema: FlatError },
      },
      async handle(context) {
        const { caller, params, request, requestId, signal } = context
        const index = await getIndex(db, caller, params.indexName)
        const directory = await mkdtemp(join(tmpdir(), 'aigw-upload-'))
        try {
          const uploads = await receiveUpload(request, directory, signal)
          // Everything has come: from here on silence on the connection is ours, not the client's.
          request.setTimeout(0)
          const documents = await trainIndex(uploads, index, deps, context)
          const counts = { index: index.name, documents: documents.length, failed: countOf(documents, 'failed') }
          log.info({ request_id: requestId, ...counts }, 'index trained')
          return reply(200, trained(index, documents, requestId))
        } finally {
          await rm(directory, { recursive: true, force: true })
        }
      },
    }),
    route({
      method: 'GET',
      path: '/api/external/indexes/{indexName}/search',
      access: 'key',
      errors: 'flat',
      summary: 'Search a knowledge base',
      tags: ['Indexes'],
      query: SearchQuery,
      responses: {
        200: { description: 'The best passages, best first', schema: SearchResponse },
        400: { description: 'A parameter is missing or wrong', schema: FlatError },
        403: { description: 'The key may not use an index of this name', schema: FlatError },
        404: { description: 'No such index', schema: FlatError },
      },
      async handle({ caller, params, query: { query, top_k, min_score }, requestId }) {
        const index = await getIndex(db, caller, params.indexName)
        const found = await searchPassages(db, caller.tenantId, index.id, query, top_k)
        const matches = found.filter(({ score }) => score >= min_score).map(toSearchMatch)
        return reply(200, {
          success: true,
          request_id: requestId,
          query,
          results: { matches, total: matches.length, top_k },
          index: { name: index.name, namespace: index.name },
        } satisfies z.input<typeof SearchResponse>)
      },
    }),
  ]
}

/** The name to store. @throws INVALID_INDEX_NAME */
function usableName(name: string): string {
  const normal = toIndexName(name)
  if (!INDEX_NAME.test(normal)) {
    throw new GatewayError('INVALID_INDEX_NAME', 'name must leave 3 to 50 letters a-z, digits or "-".')
  }
  if (normal === toIndexName(ZERO_KNOWLEDGE)) {
    throw new GatewayError('INVALID_INDEX_NAME', `"${ZERO_KNOWLEDGE}" is reserved for answers without retrieval.`)
  }
  return normal
}

/**
 * What cannot be a name is not asked for: not every text can be sent to a database.
 * @throws INSUFFICIENT_PERMISSIONS for a name outside the key's list, whether there is such an index or not; INDEX_NOT_FOUND
 */
async function getIndex(db: Db, caller: Caller, name = ''): Promise<IndexRow> {
  requireAllowedIndex(caller, name)
  const index = INDEX_NAME.test(name) ? await findIndexByName(db, caller.tenantId, name) : undefined
  if (!index)
    throw new GatewayError('INDEX_NOT_FOUND', `There is no index "${name}"; GET /indexes lists those there are.`)
  return index
}

type CreatedIndex = z.input<typeof CreateIndexResponse>['index']

function toCreatedIndex(row: CountedIndex): CreatedIndex {
  return {
    id: row.id,
    name: row.name,
    sharedIndexName: row.name,
    namespace: row.name,
    description: row.description,
    type: 'general',
    assignedUser: null,
    assignedGroup: null,
    documentCount: row.documentCount,
    createdAt: row.created_at,
  }
}

const toIndex = (row: CountedIndex): Index => ({
  ...toCreatedIndex(row),
  userId: row.created_by,
  isActive: true,
  updatedAt: row.updated_at,
  deletedAt: null,
})

const countOf = (documents: readonly TrainedDocument[], status: TrainedDocument['status']): number =>
  documents.filter((document) => document.status === status).length

/** @throws VALIDATION_ERROR with the reasons when no document could be read */
function trained(index: IndexRow, documents: TrainedDocument[], requestId: string): z.input<typeof TrainResponse> {
  const failed = countOf(documents, 'failed')
  if (failed === documents.length) {
    const reasons = documents.map(({ name, error }) => `${name}: ${error}`).join(' ')
    throw new GatewayError('VALIDATION_ERROR', `No document could be indexed. ${reasons}`, { extra: { documents } })
  }
  const indexed = countOf(documents, 'indexed')
  return {
    success: true,
    message:
      failed === 0 ? 'All documents are indexed' : `${failed} of ${documents.length} documents could not be indexed`,
    request_id: requestId,
    results: {
      files_processed: documents.length,
      documents_extracted: documents.length - failed,
      documents_indexed: indexed,
      total_vectors: 0,
      total_chunks: documents.reduce((total, { chunks }) => total + chunks, 0),
      index_name: index.name,
      namespace: index.name,
      documents,
    },
  }
}

function toSearchMatch(match: Match, at: number): z.input<typeof SearchResponse>['results']['matches'][number] {
  return {
    rank: at + 1,
    score: match.score,
    source: match.source,
    content: match.body.slice(0, characterBorder(match.body, SEARCH_CONTENT_CHARS)),
    metadata: { page: null, chunkIndex: match.position, title: match.title, documentId: match.documentId },
  }
}
