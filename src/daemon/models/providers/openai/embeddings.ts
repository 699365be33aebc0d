import { floatsOf } from '../../../platform/text/floats.ts'
import { isObject } from '../../../platform/text/json.ts'
import type { EmbedCall, Embeddings } from '../../provider.ts'
import { checkingVectors } from '../../vectors.ts'
import { reportedError, unreadableError } from '../stream/failure.ts'
import type { Profile } from './profiles.ts'
import { toTokenUsage } from './usage.ts'

/**
 * Returns the body of POST /embeddings. Requests base64, because it is a third of the size of decimal numbers and much
 * faster to parse.
 */
export function toEmbeddingsRequest({ model, input, dimensions, user }: EmbedCall, profile: Profile): object {
  return {
    model,
    input,
    encoding_format: 'base64',
    [profile.dimensionsField]: dimensions,
    user: profile.refusesUser ? undefined : user,
  }
}

/**
 * Returns the vectors of an answer, one per text, in the order of the texts. Yields after each vector. Accepts floats
 * too, because some servers do not support base64.
 * @throws ProviderError if a vector is missing, is duplicated, or differs in length from the other vectors
 */
export function* toEmbeddings(body: unknown, count: number): Generator<void, Embeddings> {
  if (!isObject(body)) throw unreadableError('an answer that is not an object')
  if (body.error !== undefined && body.error !== null) throw reportedError(body.error)
  if (!Array.isArray(body.data) || body.data.length !== count) throw unreadableError('a wrong number of vectors')
  const vectors = new Map<unknown, unknown>()
  for (const [position, entry] of body.data.entries()) {
    if (!isObject(entry)) throw unreadableError('a vector of an unknown kind')
    vectors.set(entry.index ?? position, decoded(entry.embedding))
    yield
  }
  const ordered = Array.from({ length: count }, (_, index) => vectors.get(index))
  // Embeddings have no completion tokens.
  const usage = isObject(body.usage) ? toTokenUsage({ completion_tokens: 0, ...body.usage }) : undefined
  return { vectors: yield* checkingVectors(ordered, count), usage }
}

const decoded = (embedding: unknown): unknown => (typeof embedding === 'string' ? floatsOf(embedding) : embedding)
