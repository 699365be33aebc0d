import { LRUCache } from 'lru-cache'
import { QUERY_VECTOR_CHARS, QUERY_VECTOR_MS } from '../../../../shared/spec-limits.ts'
import type { Clock } from '../../../../shared/time.ts'
import type { Log } from '../../../platform/log.ts'
import { characterBorder } from '../../../platform/text/words.ts'
import type { MayCall } from '../../../safety/policies/policies.ts'
import { type BestEffort, createBestEffort } from './best-effort.ts'
import { type EmbeddingDeps, EmbeddingFault, embedTexts } from './embedding-call.ts'
import type { EmbeddingModel } from './models.ts'
import { toUnitVector } from './stored-vector.ts'
import type { UnitVector } from './unit-vector.ts'

/** The maximum number of query vectors in the cache. */
const QUERY_VECTORS_KEPT = 1_000

/**
 * Returns the vector of a query. Returns undefined if the model must not be called or does not respond in time. Never
 * throws.
 */
export type VectorOf = (
  model: EmbeddingModel,
  tenantId: string,
  query: string,
  mayCall?: MayCall,
) => Promise<UnitVector | undefined>

type QueryVectorDeps = EmbeddingDeps & { clock: Clock; log: Pick<Log, 'warn'> }

/**
 * Caches the vectors of recent queries, separately for each tenant: response times must not reveal other tenants'
 * queries. A model that takes longer than `attemptMs` is paused, like a failing model. `signal` aborts the calls in
 * flight.
 */
export function createQueryVectors(
  { attemptMs = QUERY_VECTOR_MS.default, ...deps }: QueryVectorDeps & { attemptMs?: number | undefined },
  signal: AbortSignal,
): VectorOf {
  const vectors = new LRUCache<string, Promise<UnitVector | undefined>>({ max: QUERY_VECTORS_KEPT })
  // Each model is paused separately. During a change of models, two models are in use, and a failure of one must not
  // pause the other.
  const efforts = new Map<number, BestEffort>()

  async function embed(model: EmbeddingModel, query: string): Promise<UnitVector> {
    const limits = { work: 'query', attemptMs } as const
    const [numbers = []] = await embedTexts(model, [query], limits, deps, signal)
    const vector = toUnitVector(numbers)
    if (!vector) throw new EmbeddingFault(`${model.model} returned a zero vector`)
    return vector
  }

  return async (model, tenantId, query, mayCall = () => true) => {
    const { location } = deps.providers.find(model.model) ?? {}
    if (location && !mayCall({ modelId: model.model, location })) return undefined
    const text = query.slice(0, characterBorder(query, QUERY_VECTOR_CHARS))
    const key = JSON.stringify([tenantId, model.id, text])
    const known = vectors.get(key)
    if (known) return known
    const effort = efforts.get(model.id) ?? createBestEffort('query', deps)
    efforts.set(model.id, effort)
    const asked = effort(() => embed(model, text))
    vectors.set(key, asked)
    const vector = await asked
    if (vector === undefined && vectors.peek(key) === asked) vectors.delete(key)
    return vector
  }
}
