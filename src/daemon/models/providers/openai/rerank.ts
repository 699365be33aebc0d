import { isObject } from '../../../platform/text/json.ts'
import type { RerankCall, Reranked } from '../../provider.ts'
import { reportedError, unreadableError } from '../stream/failure.ts'

/**
 * Returns the body of POST /rerank. OpenAI has no such route, so the body has the format of Cohere, Jina, vLLM and
 * other servers.
 */
export const toRerankRequest = ({ model, query, documents, count }: RerankCall): object => ({
  model,
  query,
  documents,
  top_n: count,
})

/** @throws ProviderError if a result has no index, an unknown index, or a repeated index */
export function toReranked(body: unknown, documents: number): Reranked {
  if (!isObject(body)) throw unreadableError('an answer that is not an object')
  if (body.error !== undefined && body.error !== null) throw reportedError(body.error)
  if (!Array.isArray(body.results) || body.results.length === 0) throw unreadableError('an answer without results')
  const scores = new Map<number, number>()
  for (const result of body.results) {
    const { index, relevance_score: score } = isObject(result) ? result : {}
    const isPlace = typeof index === 'number' && Number.isInteger(index) && index >= 0 && index < documents
    if (!isPlace || scores.has(index) || typeof score !== 'number' || !Number.isFinite(score)) {
      throw unreadableError('a result of an unknown kind')
    }
    scores.set(index, score)
  }
  return [...scores].map(([index, score]) => ({ index, score }))
}
