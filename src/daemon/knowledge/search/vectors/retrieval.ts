// Keyword search and semantic search, and the services that they need.
import type { Registry } from 'prom-client'
import { RERANKED_PASSAGES } from '../../../../shared/spec-limits.ts'
import type { Clock } from '../../../../shared/time.ts'
import type { IndexEmbedding } from '../../../../shared/wire/indexes.ts'
import type { ProviderRegistry } from '../../../models/registry.ts'
import type { Db } from '../../../platform/db/db.ts'
import type { Log } from '../../../platform/log.ts'
import type { MayCall, PolicyCatalogue } from '../../../safety/policies/policies.ts'
import type { IndexKey } from '../../indexes/document-types.ts'
import { createRanker, type Ranker } from '../ranker.ts'
import { type Match, type Search, type SearchOptions, toMatches } from '../search.ts'
import type { RetrievalConfig } from './config.ts'
import { type Embedder, startEmbedder } from './embedder.ts'
import { createEmbeddingPermission, type MayEmbed } from './embedding-permission.ts'
import { fuseRankings } from './fusion.ts'
import { createSemanticMetrics } from './metrics.ts'
import { chooseModel, type EmbeddingModel, findServingModel } from './models.ts'
import { type FindNearest, openNearest } from './nearest.ts'
import { createQueryVectors, type VectorOf } from './query-vector.ts'
import { createReranker, type Rerank } from './rerank.ts'
import { countEmbedded, countPending, findPendingPolicies } from './vector-store.ts'

/** How many top passages of each ranking are fused. */
const FUSED_PASSAGES = 100

export type Retrieval = {
  search: Search
  /** Returns the embedding progress of an index. Returns null if no embedding model is configured. */
  embeddingOf(index: IndexKey): Promise<IndexEmbedding | null>
  /**
   * Returns the embedding model if it must not read documents that are trained under this policy. See MayEmbed.
   */
  forbiddenFor(tenantId: string, policyId: string | null): Promise<string | undefined>
  close(): Promise<void>
}

type RetrievalDeps = {
  db: Db
  providers: ProviderRegistry
  policies: PolicyCatalogue
  clock: Clock
  log: Log
  metrics: Registry
  /** The program of the ranking thread. See RankerDeps. */
  rankingProgram?: URL | undefined
}

/** The parts of vector search: the model, its query vectors, the nearest-neighbour search, and the embedder. */
type Vectors = {
  model: EmbeddingModel
  vectorOf: VectorOf
  findNearest: FindNearest
  embedder: Embedder
  mayEmbed: MayEmbed
}

/**
 * Opens the search as configured: keyword search, and optionally vectors and reranking. If an optional step fails, the
 * search skips it.
 */
export async function openRetrieval(
  { embedding, rerank: reranker }: RetrievalConfig,
  { metrics: registry, rankingProgram, ...deps }: RetrievalDeps,
): Promise<Retrieval> {
  const { db, providers, log } = deps
  const warn = (model: string) =>
    log.warn({ model }, 'no provider offers this model; knowledge search continues without it')
  if (embedding && !providers.find(embedding.model)?.provider.embed) warn(embedding.model)
  if (reranker && !providers.find(reranker.model)?.provider.rerank) warn(reranker.model)
  const stopping = new AbortController()
  const model = embedding && (await chooseModel(db, embedding))
  const metrics = createSemanticMetrics([registry], {
    countPending: async () => (model ? await countPending(db, model.id) : 0),
  })
  const shared = { ...deps, metrics, mayEmbed: createEmbeddingPermission(deps) }
  const vectors: Vectors | undefined = embedding &&
    model && {
      model,
      vectorOf: createQueryVectors({ ...shared, attemptMs: embedding.queryTimeoutMs }, stopping.signal),
      findNearest: (await openNearest(db, deps)).findNearest,
      embedder: startEmbedder(model, embedding.batch, shared),
      mayEmbed: shared.mayEmbed,
    }
  const rerank = reranker && createReranker(reranker.model, shared, stopping.signal)
  const ranker = createRanker({ ...deps, program: rankingProgram })
  return {
    search: createSearch(db, ranker, vectors, rerank),
    embeddingOf: async (index) => (vectors ? embeddingOf(db, index, vectors) : null),
    forbiddenFor: async (tenantId, policyId) => {
      const { model } = vectors?.model ?? {}
      return model === undefined || (await shared.mayEmbed(model, tenantId, policyId)) ? undefined : model
    },
    async close() {
      stopping.abort()
      await vectors?.embedder.close()
      await ranker.close()
    },
  }
}

function createSearch(db: Db, ranker: Ranker, vectors: Vectors | undefined, reranks: Rerank | undefined): Search {
  return async (
    index,
    query,
    limit,
    { onForbidden, outsideQuery = query, keepsPassages = false, signal, ...options } = {},
  ) => {
    const mayCall = reporting(options.mayCall, onForbidden)
    const rerank = keepsPassages ? undefined : reranks
    const wanted = rerank ? Math.max(limit, RERANKED_PASSAGES) : limit
    const [byWords, near] = await Promise.all([
      ranker.search(index, query, vectors ? Math.max(wanted, FUSED_PASSAGES) : wanted, signal),
      vectors && findNear(db, index, outsideQuery, vectors, mayCall),
    ])
    const matches = near ? await fuseMatches(db, index, byWords, near) : byWords
    return (await rerank?.(outsideQuery, matches, limit, mayCall)) ?? matches.slice(0, limit)
  }
}

/** Reports the models that must not be called. */
const reporting = (mayCall: MayCall | undefined, onForbidden: SearchOptions['onForbidden']): MayCall | undefined =>
  mayCall &&
  ((destination) => {
    const isAllowed = mayCall(destination)
    if (!isAllowed) onForbidden?.(destination.modelId)
    return isAllowed
  })

/**
 * Returns the ids of the passages closest in meaning to the query. Returns undefined if there are no vectors to
 * compare.
 */
async function findNear(
  db: Db,
  index: IndexKey,
  query: string,
  { vectorOf, findNearest }: Vectors,
  mayCall: MayCall | undefined,
): Promise<number[] | undefined> {
  const serving = await findServingModel(db, index)
  const vector = serving && (await vectorOf(serving, index.tenantId, query, mayCall))
  if (!vector) return undefined
  const near = await findNearest({ ...index, modelId: serving.id }, vector, FUSED_PASSAGES)
  return near.map(({ passageId }) => passageId)
}

/** Fuses two rankings. `fuseRankings` describes the scores. */
async function fuseMatches(
  db: Db,
  index: IndexKey,
  byWords: readonly Match[],
  near: readonly number[],
): Promise<Match[]> {
  const matches = new Map(byWords.map((match) => [match.passageId, match]))
  const others = near.filter((id) => !matches.has(id))
  for (const match of await toMatches(db, index, others)) matches.set(match.passageId, match)
  // Drop passages that were deleted after their vector was found.
  const rankings = [byWords.map(({ passageId }) => passageId), near.filter((id) => matches.has(id))]
  return fuseRankings(rankings).flatMap(({ id, score }) => {
    const match = matches.get(id)
    return match ? [{ ...match, score }] : []
  })
}

async function embeddingOf(db: Db, index: IndexKey, { model, mayEmbed }: Vectors): Promise<IndexEmbedding> {
  const serving = await findServingModel(db, index)
  let forbidden = 0
  for (const { policyId, passages } of await findPendingPolicies(db, index, model.id)) {
    if (!(await mayEmbed(model.model, index.tenantId, policyId))) forbidden += passages
  }
  return {
    model: model.model,
    ...(await countEmbedded(db, index, model.id)),
    ...(forbidden > 0 && { forbidden }),
    searchedWith: serving?.model ?? null,
  }
}
