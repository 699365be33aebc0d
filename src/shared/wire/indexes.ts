import { z } from 'zod'
import { INDEX_ACCESS } from '../permissions.ts'
import { PAGE_LIMIT, SEARCH_TOP_K, TRAIN_TEXT_INPUTS } from '../spec-limits.ts'
import {
  anObject,
  closedObject,
  listQuery,
  objectId,
  oneOf,
  optional,
  Pagination,
  readOnlyMembers,
  storableText,
} from './common.ts'
import { UserReference } from './groups.ts'

/** The reserved index name that means "no retrieval". */
export const ZERO_KNOWLEDGE = 'Zero-Knowledge'

const required = (name: string) =>
  storableText(name).refine((value) => value.trim() !== '', { error: `${name} is required` })

/**
 * `null` means not assigned. If user and group are both null, every user of the tenant is allowed to read the index.
 */
const assignee = (name: string) => objectId(name).nullable().optional()

const assignable = {
  assignedUser: assignee('assignedUser').meta({ description: 'The only user who may read it' }),
  assignedGroup: assignee('assignedGroup').meta({
    description: 'The group whose members may read it, while it is active',
  }),
  indexAccess: optional(oneOf('indexAccess', INDEX_ACCESS)).meta({
    description:
      '`read`: only its owner, administrators of groups and administrators of indexes may change its documents. `write` (default): also readers whose key has `indexAccess: write`',
  }),
}

const notBoth = (index: { assignedUser?: string | null | undefined; assignedGroup?: string | null | undefined }) =>
  !index.assignedUser || !index.assignedGroup

const BOTH = { error: 'an index is assigned to a user or to a group, not to both', path: ['assignedGroup'] }

const REGION_CHARS = 64

/** A member that clients may send, and that the gateway derives itself (named-endpoints §19). */
const derived = (name: string, value: string) =>
  optional(storableText(name).max(500)).meta({ description: `Without effect: it is always ${value}` })

/** The body of POST /indexes. */
export const CreateIndexRequest = closedObject(
  {
    name: required('name'),
    description: optional(storableText('description').max(2000)),
    region: optional(storableText('region').max(REGION_CHARS)).meta({
      description:
        'A hint without effect: an index is always in the store of the gateway. Some licences allow only one value',
    }),
    cloud: oneOf('cloud', ['aws', 'gcp']).optional().meta({ description: 'A hint, like `region`' }),
    sharedIndexName: derived('sharedIndexName', 'the normalised name'),
    namespace: derived('namespace', 'the namespace that responses show'),
    ...assignable,
  },
  anObject.error,
)
  .refine(notBoth, BOTH)
  .meta({ id: 'CreateIndexRequest' })

/** The members of an index that requests cannot change. */
export const INDEX_READ_ONLY = [
  'id',
  'sharedIndexName',
  'namespace',
  'type',
  'userId',
  'isActive',
  'documentCount',
  'createdAt',
  'updatedAt',
  'deletedAt',
  'embedding',
] as const

/**
 * The body of PUT /indexes/{indexId}. Omitted members stay unchanged. Assigning a user removes the assigned group, and
 * vice versa.
 */
export const UpdateIndexRequest = closedObject(
  {
    name: optional(required('name')),
    description: optional(storableText('description').max(2000)),
    ...assignable,
    ...readOnlyMembers(INDEX_READ_ONLY),
  },
  anObject.error,
)
  .refine(notBoth, BOTH)
  .meta({ id: 'UpdateIndexRequest' })

/** The embedding progress of an index. This schema is not part of the contract. */
export const IndexEmbedding = z
  .object({
    model: z.string().meta({ description: 'The embedding model that is configured' }),
    passages: z.int(),
    embedded: z.int().meta({ description: 'The number of passages with a vector of this model' }),
    forbidden: z.int().optional().meta({
      description: 'Passages that a policy withholds from this model, if any. Only keyword search finds them',
    }),
    searchedWith: z
      .string()
      .nullable()
      .meta({ description: 'The model whose vectors are searched: an older one until all passages are embedded' }),
  })
  .meta({ id: 'IndexEmbedding' })
export type IndexEmbedding = z.infer<typeof IndexEmbedding>

const skippedModels = z.array(z.string()).optional().meta({
  description:
    'The models that the policy withheld the texts from, if any. Without them, keywords alone rank the passages',
})

/** An index in responses to administrators. */
export const Index = z
  .object({
    id: z.string(),
    name: z.string(),
    sharedIndexName: z.string().meta({ description: 'The same as `name`' }),
    namespace: z.string(),
    description: z.string(),
    type: z
      .enum(['general', 'personal', 'group', 'unknown'])
      .meta({ description: 'unknown: its user or group was deleted, so it cannot be read' }),
    assignedUser: UserReference.nullable(),
    assignedGroup: z.object({ id: z.string(), name: z.string() }).nullable(),
    indexAccess: z
      .enum(INDEX_ACCESS)
      .meta({ description: '`read`: readers may not change documents, also with a key that has `indexAccess: write`' }),
    userId: z.string().meta({ description: 'The user who created it' }),
    isActive: z.boolean(),
    documentCount: z.int(),
    createdAt: z.string(),
    updatedAt: z.string(),
    deletedAt: z.string().nullable(),
    embedding: IndexEmbedding.nullable()
      .optional()
      .meta({ description: 'Present only where a single index is shown; null if no embedding model is configured' }),
  })
  .meta({ id: 'Index' })
export type Index = z.infer<typeof Index>

/** The new index. Members that change only after the creation are omitted. */
const CreatedIndex = Index.omit({ userId: true, isActive: true, updatedAt: true, deletedAt: true, embedding: true })

export const CreateIndexResponse = z.object({ success: z.literal(true), message: z.string(), index: CreatedIndex })

export const UpdateIndexResponse = z.object({ success: z.literal(true), message: z.string(), index: Index })
export const ShowIndexResponse = z.object({ success: z.literal(true), index: Index })

/** The counts of a rebuild. This schema is not part of the contract. */
export const RebuildIndexResponse = z.object({
  success: z.literal(true),
  message: z.string(),
  rebuilt: z.object({ documents: z.int(), passages: z.int() }),
})

export const INDEX_SORTS = ['createdAt', 'updatedAt', 'name'] as const

/** The query of GET /indexes/all. */
export const ListIndexesQuery = listQuery(INDEX_SORTS, PAGE_LIMIT.large).extend({
  type: oneOf('type', ['personal', 'general', 'group']).optional(),
  status: oneOf('status', ['active', 'deleted', 'all']).default('active'),
})

export const ListIndexesResponse = z.object({
  success: z.literal(true),
  indexes: z.array(Index),
  pagination: Pagination,
})

/** GET /indexes: the indexes that this key is allowed to query. Chat requests use the `id` as the value of `index`. */
export const DiscoverIndexesResponse = z.object({
  success: z.literal(true),
  indexes: z.array(
    z.object({
      id: z.string(),
      name: z.string(),
      type: z.enum(['system', 'general', 'personal', 'group']),
      namespace: z.string().optional(),
      description: z.string().optional(),
    }),
  ),
  restrictions: z.object({ allowed_indexes: z.union([z.literal('all user indexes'), z.array(z.string())]) }),
})

/** The `text_inputs` part of POST /indexes/{indexName}/train, after JSON.parse. */
export const TextInputs = z
  .array(
    closedObject(
      {
        name: required('name'),
        type: optional(z.string({ error: 'type must be a MIME type' })),
        content: z.string({ error: 'content must be a string' }),
        size: optional(z.number({ error: 'size must be a number of bytes' })),
      },
      'each entry must be an object {name, type, content}',
    ),
    { error: 'text_inputs must be a JSON array of {name, type, content, size}' },
  )
  .max(TRAIN_TEXT_INPUTS, { error: `text_inputs may have at most ${TRAIN_TEXT_INPUTS} entries` })

export const TrainResponse = z.object({
  success: z.literal(true),
  message: z.string(),
  request_id: z.string(),
  results: z.object({
    files_processed: z.int(),
    documents_extracted: z.int(),
    documents_indexed: z.int(),
    total_vectors: z.int(),
    total_chunks: z.int(),
    index_name: z.string(),
    namespace: z.string(),
    skipped_models: skippedModels,
    documents: z.array(
      z.object({
        name: z.string(),
        status: z.enum(['indexed', 'unchanged', 'failed']),
        chunks: z.int(),
        error: z.string().optional(),
      }),
    ),
  }),
})

export const DOCUMENT_SORTS = ['createdAt', 'name'] as const

/** The query of GET /indexes/{indexName}/documents. This route is not part of the contract. */
export const ListDocumentsQuery = listQuery(DOCUMENT_SORTS, PAGE_LIMIT.large)

/** A document of an index, as shown to users who are allowed to read the index. */
export const IndexDocument = z
  .object({
    id: z.string(),
    name: z.string().meta({ description: 'The `source` in answers and search results' }),
    title: z.string(),
    chunks: z.int().meta({ description: 'The number of its passages' }),
    createdAt: z.string(),
  })
  .meta({ id: 'IndexDocument' })
export type IndexDocument = z.infer<typeof IndexDocument>

export const ListDocumentsResponse = z.object({
  success: z.literal(true),
  documents: z.array(IndexDocument),
  pagination: Pagination,
})

/** The query of GET /indexes/{indexName}/search. Numbers arrive as text. */
export const SearchQuery = z.object({
  query: z.string({ error: 'query is required' }).pipe(required('query')),
  top_k: z.coerce
    .number({ error: 'top_k must be a whole number' })
    .int({ error: 'top_k must be a whole number' })
    .min(SEARCH_TOP_K.min, { error: `top_k must be at least ${SEARCH_TOP_K.min}` })
    .max(SEARCH_TOP_K.max, { error: `top_k must be at most ${SEARCH_TOP_K.max}` })
    .default(SEARCH_TOP_K.default),
  min_score: z.coerce
    .number({ error: 'min_score must be a number' })
    .min(0, { error: 'min_score must be at least 0' })
    .max(1, { error: 'min_score must be at most 1' })
    .default(0),
})

export const SearchResponse = z.object({
  success: z.literal(true),
  request_id: z.string(),
  query: z.string(),
  results: z.object({
    matches: z.array(
      z.object({
        rank: z.int(),
        score: z.number(),
        source: z.string(),
        content: z.string(),
        metadata: z.object({
          page: z.int().nullable(),
          chunkIndex: z.int().nullable(),
          title: z.string().nullable(),
          documentId: z.string().nullable(),
        }),
      }),
    ),
    total: z.int(),
    top_k: z.int(),
    skipped_models: skippedModels,
  }),
  index: z.object({ name: z.string(), namespace: z.string() }),
})
