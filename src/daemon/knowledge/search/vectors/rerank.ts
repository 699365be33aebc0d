import { QUERY_VECTOR_CHARS, RERANKED_PASSAGES } from '../../../../shared/spec-limits.ts'
import type { Clock } from '../../../../shared/time.ts'
import type { Reranked } from '../../../models/provider.ts'
import type { ProviderRegistry } from '../../../models/registry.ts'
import type { Log } from '../../../platform/log.ts'
import { characterBorder } from '../../../platform/text/words.ts'
import type { MayCall } from '../../../safety/policies/policies.ts'
import type { Match } from '../search.ts'
import { createBestEffort } from './best-effort.ts'
import { EmbeddingFault } from './embedding-call.ts'
import type { SemanticMetrics } from './metrics.ts'

/** The maximum time that a search waits for reranking. */
const RERANK_MS = 2_000

/**
 * Returns the best of these matches in the reranker's order, with the reranker's scores. Returns undefined if the
 * reranker fails or must not be called. Never throws.
 */
export type Rerank = (
  query: string,
  matches: readonly Match[],
  limit: number,
  mayCall?: MayCall,
) => Promise<Match[] | undefined>

/** @param modelId `<provider>/<model>`. `signal` aborts the calls in flight. */
export function createReranker(
  modelId: string,
  deps: { providers: ProviderRegistry; clock: Clock; log: Pick<Log, 'warn'>; metrics: SemanticMetrics },
  signal: AbortSignal,
): Rerank {
  const { providers, metrics } = deps
  const effort = createBestEffort('rerank', deps)
  return async (query, matches, limit, mayCall = () => true) => {
    if (matches.length === 0) return []
    const { location } = providers.find(modelId) ?? {}
    if (location && !mayCall({ modelId, location })) return undefined
    const candidates = matches.slice(0, Math.max(RERANKED_PASSAGES, limit))
    return effort(async () => {
      const found = providers.find(modelId)
      if (!found?.provider.rerank)
        throw new EmbeddingFault(`no configured provider offers reranking with the model ${modelId}`)
      const call = {
        model: found.model,
        query: query.slice(0, characterBorder(query, QUERY_VECTOR_CHARS)),
        documents: candidates.map(passageText),
        count: Math.min(limit, candidates.length),
        noTraining: true,
        attemptMs: RERANK_MS,
      }
      const reranked = await found.provider.rerank(call, signal)
      metrics.called('rerank')
      return inOrder(candidates, reranked).slice(0, limit)
    })
  }
}

/** Returns the text of a passage that a model receives. The headings provide its context. */
export const passageText = ({ headings, body }: { headings: string; body: string }): string =>
  headings === '' ? body : `${headings}\n${body}`

/**
 * Returns the matches in the reranker's order. Some rerankers score from 0 to 1. Other rerankers return unbounded
 * positive and negative numbers. The logistic function maps these numbers to the range 0 to 1. Matches that the
 * reranker omits come last, in their previous order and with decreasing scores.
 */
export function inOrder(matches: readonly Match[], reranked: Reranked): Match[] {
  const areShares = reranked.every(({ score }) => score >= 0 && score <= 1)
  const ranked = reranked
    .flatMap(({ index, score }) => {
      const match = matches[index]
      return match ? [{ ...match, score: areShares ? score : 1 / (1 + Math.exp(-score)) }] : []
    })
    .sort((one, other) => other.score - one.score)
  const named = new Set(reranked.map(({ index }) => index))
  const others = matches.filter((_, at) => !named.has(at))
  const lowest = ranked.at(-1)?.score ?? 0
  const step = lowest / (others.length + 1)
  return [...ranked, ...others.map((match, at) => ({ ...match, score: lowest - step * (at + 1) }))]
}
