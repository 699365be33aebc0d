import type { Embeddings, TokenUsage } from './provider.ts'
import { unreadableError } from './providers/stream/failure.ts'

/**
 * Returns the vectors of an answer, one per text, in the order of the texts.
 * @throws ProviderError if a vector is missing, invalid, or of another length
 */
export function toVectors(answered: unknown, count: number): Embeddings['vectors'] {
  if (!Array.isArray(answered) || answered.length !== count) throw unreadableError('a wrong number of vectors')
  const vectors = answered.map(toVector)
  if (vectors.some(({ length }) => length !== vectors[0]?.length)) throw unreadableError('vectors of different lengths')
  return vectors
}

function toVector(value: unknown): number[] {
  const isVector = Array.isArray(value) && value.length > 0 && value.every((one) => Number.isFinite(one))
  if (!isVector) throw unreadableError('a vector of an unknown kind')
  return value
}

/** Returns the usage of embedded texts. Returns undefined if the provider sent no count. */
export const embeddedTokens = (inputTokens: number | undefined): TokenUsage | undefined =>
  inputTokens === undefined ? undefined : { ...NO_USAGE, inputTokens }

const NO_USAGE = {
  outputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
  estimated: false,
}
