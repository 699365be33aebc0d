import { EMBEDDING_DIMENSIONS } from '../../../../shared/spec-limits.ts'
import { ProviderError, type Vector } from '../../../models/provider.ts'
import type { ProviderRegistry } from '../../../models/registry.ts'
import type { SemanticMetrics, SemanticWork } from './metrics.ts'
import type { EmbeddingModel } from './models.ts'

/** Thrown if an embedding model is missing or its response is unusable. */
export class EmbeddingFault extends Error {
  override name = 'EmbeddingFault'
}

export type EmbeddingDeps = { providers: ProviderRegistry; metrics: SemanticMetrics }

/**
 * Returns the model's vectors for these texts: one vector per text, all of the same length.
 * @throws ProviderError; EmbeddingFault if no provider offers the model, or the length of the vectors has changed
 */
export async function embedTexts(
  { model: id, requestedDimensions, dimensions }: EmbeddingModel,
  input: readonly string[],
  { work, attemptMs }: { work: SemanticWork; attemptMs: number },
  { providers, metrics }: EmbeddingDeps,
  signal: AbortSignal,
): Promise<Vector[]> {
  const found = providers.find(id)
  if (!found?.provider.embed) throw new EmbeddingFault(`no configured provider offers embeddings with the model ${id}`)
  const asked = requestedDimensions === 0 ? undefined : requestedDimensions
  const { vectors, usage } = await found.provider.embed(
    { model: found.model, input, dimensions: asked, noTraining: true, attemptMs },
    signal,
  )
  metrics.called(work, usage?.inputTokens)
  const length = vectors[0]?.length ?? 0
  const expected = dimensions || requestedDimensions || length
  if (length !== expected) throw new EmbeddingFault(`${id} returned vectors of ${length} numbers; expected ${expected}`)
  if (length > EMBEDDING_DIMENSIONS) {
    throw new EmbeddingFault(`${id} returned vectors of ${length} numbers; the limit is ${EMBEDDING_DIMENSIONS}`)
  }
  return vectors
}

/** Whether this error means that the model works but rejects the text. */
export const isRefusal = (error: unknown): boolean =>
  error instanceof ProviderError && ['bad_request', 'context_length', 'content_filter'].includes(error.reason)
