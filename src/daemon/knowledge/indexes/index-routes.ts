// The routes of indexes.
import { z } from 'zod'
import { GatewayError } from '../../../shared/errors.ts'
import { newId } from '../../../shared/ids.ts'
import { toIndexName } from '../../../shared/index-name.ts'
import { INDEX_NAME } from '../../../shared/spec-limits.ts'
import { isoTime } from '../../../shared/time.ts'
import { DoneResponse, FlatError, StructuredError } from '../../../shared/wire/common.ts'
import {
  CreateIndexRequest,
  CreateIndexResponse,
  INDEX_READ_ONLY,
  ListIndexesQuery,
  ListIndexesResponse,
  RebuildIndexResponse,
  ShowIndexResponse,
  UpdateIndexRequest,
  UpdateIndexResponse,
  ZERO_KNOWLEDGE,
} from '../../../shared/wire/indexes.ts'
import type { Db } from '../../platform/db/db.ts'
import { toPagination } from '../../platform/db/list-page.ts'
import { changesIn } from '../../platform/http/read-only.ts'
import { idOf, type Route, reply, route } from '../../platform/http/route.ts'
import { type ChangeDeps, change } from '../../records/audit/change.ts'
import { assignmentAfter, checkAssignment, checkLocation, licenseFor } from '../ingest/assignment.ts'
import type { Extractor } from '../ingest/extract/pool.ts'
import type { Retrieval } from '../search/vectors/retrieval.ts'
import { toCreatedIndex, toIndex } from './index-view.ts'
import { type InPublication, rebuildIndex } from './rebuild.ts'
import { findIndexDetails, type IndexDetails, insertIndex, listIndexes, updateIndex } from './store.ts'

const NOT_FOUND = { description: 'No index of this tenant has this id', schema: StructuredError }
const NAME_EXISTS = { description: 'The name already exists', schema: StructuredError }
const EITHER_ERROR = z.union([StructuredError, FlatError])
const REFUSED = { description: 'A field is invalid; flat if it is the name or the group', schema: EITHER_ERROR }
const FORBIDDEN = { description: 'Not an administrator; flat if the quota is used up', schema: EITHER_ERROR }

export type IndexDeps = ChangeDeps & Pick<Retrieval, 'embeddingOf'> & { extractor: Extractor }

/** Defines the administrators' routes for indexes. They never show documents. */
export function indexRoutes(deps: IndexDeps): Route[] {
  const { db, clock, embeddingOf, extractor } = deps
  const common: Pick<Route, 'access' | 'errors' | 'tags'> = {
    access: 'index-management',
    errors: 'structured',
    tags: ['Indexes'],
  }
  return [
    route({
      ...common,
      method: 'POST',
      path: '/api/external/indexes',
      rate: 'write',
      summary: 'Create a knowledge base',
      body: CreateIndexRequest,
      responses: {
        201: { description: 'The new index, usable at once', schema: CreateIndexResponse },
        400: REFUSED,
        403: FORBIDDEN,
        409: NAME_EXISTS,
      },
      async handle(context) {
        const { caller, body } = context
        const now = isoTime(clock.now())
        const assignment = assignmentAfter(NOBODY, body)
        const row = {
          id: newId(clock.now()),
          tenant_id: caller.tenantId,
          name: usableName(body.name),
          description: body.description ?? '',
          created_by: caller.userId,
          created_at: now,
          updated_at: now,
          index_access: body.indexAccess ?? ('write' as const),
          ...assignment,
        }
        const index = await change(deps, context, async ({ tx, record }) => {
          await checkAssignment(tx, caller.tenantId, assignment, NOBODY)
          checkLocation(await licenseFor(tx, caller, assignment), body)
          await insertIndex(tx, row)
          await record({ ...activityOn(row, 'create'), metadata: { ...assignment, indexAccess: row.index_access } })
          return getDetails(tx, caller.tenantId, row.id)
        })
        return reply(201, {
          success: true,
          message: 'Index created',
          index: toCreatedIndex(index),
        } satisfies z.input<typeof CreateIndexResponse>)
      },
    }),
    route({
      ...common,
      method: 'GET',
      path: '/api/external/indexes/all',
      rate: 'read',
      summary: 'List all knowledge bases',
      query: ListIndexesQuery,
      responses: { 200: { description: 'One page, newest first', schema: ListIndexesResponse } },
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
      ...common,
      method: 'GET',
      path: '/api/external/indexes/{indexId}',
      rate: 'read',
      summary: 'Show a knowledge base',
      responses: { 200: { description: 'The index', schema: ShowIndexResponse }, 404: NOT_FOUND },
      async handle({ caller, params }) {
        const index = await getDetails(db, caller.tenantId, idOf(params.indexId, notFound))
        const embedding = await embeddingOf({ tenantId: caller.tenantId, indexId: index.id })
        return reply(200, {
          success: true,
          index: { ...toIndex(index), embedding },
        } satisfies z.input<typeof ShowIndexResponse>)
      },
    }),
    route({
      ...common,
      method: 'PUT',
      path: '/api/external/indexes/{indexId}',
      rate: 'write',
      summary: 'Rename or reassign a knowledge base',
      body: UpdateIndexRequest,
      responses: {
        200: { description: 'The changed index', schema: UpdateIndexResponse },
        400: REFUSED,
        403: FORBIDDEN,
        404: NOT_FOUND,
        409: NAME_EXISTS,
      },
      async handle(context) {
        const { caller, params } = context
        const { tenantId } = caller
        const id = idOf(params.indexId, notFound)
        const index = await change(deps, context, async ({ tx, record }) => {
          const before = await getActive(tx, tenantId, id)
          const shown = { ...toIndex(before), embedding: null }
          const body = changesIn(context.body, INDEX_READ_ONLY, shown)
          const assignment = assignmentAfter(before, body)
          await checkAssignment(tx, tenantId, assignment, before)
          await updateIndex(tx, {
            id,
            tenant_id: tenantId,
            name: body.name === undefined ? before.name : usableName(body.name),
            description: body.description ?? before.description,
            updated_at: isoTime(clock.now()),
            index_access: body.indexAccess ?? before.index_access,
            ...assignment,
          })
          await record({ ...activityOn(before, 'update'), metadata: body })
          return getDetails(tx, tenantId, id)
        })
        return reply(200, {
          success: true,
          message: 'Index updated',
          index: toIndex(index),
        } satisfies z.input<typeof UpdateIndexResponse>)
      },
    }),
    route({
      ...common,
      method: 'POST',
      path: '/api/external/indexes/{indexId}/rebuild',
      rate: 'write',
      summary: "Rebuild a knowledge base's search index from its passages",
      responses: {
        200: { description: 'The search index is rebuilt and in use', schema: RebuildIndexResponse },
        404: NOT_FOUND,
        409: { description: 'Documents are being added or removed', schema: StructuredError },
      },
      async handle(context) {
        const { caller, params, request, signal } = context
        const { tenantId } = caller
        const id = idOf(params.indexId, notFound)
        const index = await getActive(db, tenantId, id)
        // While the server rebuilds the index, the connection may be idle.
        request.setTimeout(0)
        const inPublication: InPublication = (publish, rebuilt) =>
          change(deps, context, async ({ tx, record }) => {
            await getActive(tx, tenantId, id)
            await publish(tx)
            await record({
              ...activityOn(index, 'rebuild'),
              description: `rebuilt index "${index.name}"`,
              metadata: rebuilt,
            })
          })
        const rebuilt = await rebuildIndex({ tenantId, indexId: id }, { db, clock, extractor, inPublication }, signal)
        return reply(200, {
          success: true,
          message: 'Index rebuilt',
          rebuilt,
        } satisfies z.input<typeof RebuildIndexResponse>)
      },
    }),
    route({
      ...common,
      method: 'DELETE',
      path: '/api/external/indexes/{indexId}',
      rate: 'write',
      summary: 'Delete a knowledge base and all its documents',
      responses: {
        200: { description: 'The index is deleted; it can no longer be read', schema: DoneResponse },
        404: NOT_FOUND,
      },
      async handle(context) {
        const { caller, params } = context
        const id = idOf(params.indexId, notFound)
        await change(deps, context, async ({ tx, record }) => {
          const index = await getActive(tx, caller.tenantId, id)
          const now = isoTime(clock.now())
          // The name of a deleted index can be reused immediately. The deleted index's data is removed in steps
          // (index-removal.ts).
          await updateIndex(tx, {
            id,
            tenant_id: caller.tenantId,
            name: `~${id}`,
            deleted_name: index.name,
            deleted_at: now,
            updated_at: now,
          })
          await record({ ...activityOn(index, 'delete'), metadata: { documents: Number(index.documentCount) } })
        })
        return reply(200, { success: true, message: 'Index deleted' } satisfies z.input<typeof DoneResponse>)
      },
    }),
  ]
}

const NOBODY = { assigned_user_id: null, assigned_group_id: null }

/** Validates an index name and returns the form to store. @throws INVALID_INDEX_NAME */
function usableName(name: string): string {
  const normal = toIndexName(name)
  if (!INDEX_NAME.test(normal)) {
    throw new GatewayError(
      'INVALID_INDEX_NAME',
      'name must result in 3 to 50 letters a-z, digits or "-". Letters of other alphabets are not removed but rejected.',
    )
  }
  if (normal === toIndexName(ZERO_KNOWLEDGE)) {
    throw new GatewayError('INVALID_INDEX_NAME', `"${ZERO_KNOWLEDGE}" is reserved for answers without retrieval.`)
  }
  return normal
}

const notFound = () =>
  new GatewayError('INDEX_NOT_FOUND', 'The index does not exist. GET /api/external/indexes/all lists all indexes.')

/** @throws INDEX_NOT_FOUND */
async function getDetails(db: Db, tenantId: string, id: string): Promise<IndexDetails> {
  const index = await findIndexDetails(db, tenantId, id)
  if (!index) throw notFound()
  return index
}

/** @throws INDEX_NOT_FOUND if the index does not exist or is deleted */
async function getActive(tx: Db, tenantId: string, id: string): Promise<IndexDetails> {
  const index = await getDetails(tx, tenantId, id)
  if (index.deleted_at !== null) throw notFound()
  return index
}

const activityOn = (
  { id, name }: { id: string; name: string },
  operation: 'create' | 'update' | 'delete' | 'rebuild',
) =>
  ({
    type: 'index_management',
    operation,
    resourceType: 'index',
    resourceId: id,
    description: `${operation}d index "${name}"`,
  }) as const
