import { runToEnd } from '../platform/pacing.ts'
import type { Embeddings, TokenUsage, Vector } from './provider.ts'
import { unreadableError } from './providers/stream/failure.ts'

/**
 * Returns the vectors of an answer, one per text, in the order of the texts.
 * @throws ProviderError if a vector is missing, invalid, or of another length
 */
export const toVectors = (answered: unknown, count: number): Embeddings['vectors'] =>
  runToEnd(checkingVectors(answered, count))

/** Like `toVectors`, but yields after each vector, because an answer may contain millions of numbers. */
export function* checkingVectors(answered: unknown, count: number): Generator<void, Embeddings['vectors']> {
  if (!Array.isArray(answered) || answered.length !== count) throw unreadableError('a wrong number of vectors')
  const vectors: Vector[] = []
  for (const value of answered) {
    if (!isVector(value)) throw unreadableError('a vector of an unknown kind')
    vectors.push(value)
    yield
  }
  if (vectors.some(({ length }) => length !== vectors[0]?.length)) throw unreadableError('vectors of different lengths')
  return vectors
}

function isVector(value: unknown): value is Vector {
  if (!(Array.isArray(value) || value instanceof Float32Array) || value.length === 0) return false
  for (const one of value) if (!Number.isFinite(one)) return false
  return true
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
