import { isObject, member, tokenCount } from '../../../platform/text/json.ts'
import type { EmbedCall, Embeddings } from '../../provider.ts'
import { embeddedTokens, toVectors } from '../../vectors.ts'
import { reportedError, unreadableError } from '../stream/failure.ts'
import { badRequest } from './messages.ts'

/** The API's limit for one request. */
const MAX_TEXTS = 96

/**
 * Returns the body of POST /v2/embed.
 * @throws ProviderError `bad_request` if there are more texts than the API allows in one request
 */
export function toEmbedRequest({ model, input, dimensions }: EmbedCall): object {
  if (input.length > MAX_TEXTS) {
    throw badRequest(`accepts at most ${MAX_TEXTS} texts per request, not ${input.length}`)
  }
  return {
    model,
    texts: input,
    // Cohere requires an input type. The gateway's API has no input type, so all vectors get the same type and stay
    // comparable.
    input_type: 'search_document',
    embedding_types: ['float'],
    output_dimension: dimensions,
  }
}

/** Returns the vectors of an answer, in the order of the texts. @throws ProviderError */
export function toCohereEmbeddings(body: unknown, count: number): Embeddings {
  if (!isObject(body)) throw unreadableError('an answer that is not an object')
  if (body.embeddings === undefined) throw reportedError(body)
  const tokens = tokenCount(member(member(body.meta, 'billed_units'), 'input_tokens'))
  return { vectors: toVectors(member(body.embeddings, 'float'), count), usage: embeddedTokens(tokens) }
}
