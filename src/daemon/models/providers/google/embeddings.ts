import { isObject, member, tokenCount } from '../../../platform/text/json.ts'
import { ORIGIN } from '../../part-signature.ts'
import { type EmbedCall, type Embeddings, ProviderError } from '../../provider.ts'
import { embeddedTokens, toVectors } from '../../vectors.ts'
import { reportedError, unreadableError } from '../stream/failure.ts'

/** The API's limit for one batch. */
const MAX_TEXTS = 100

/**
 * Returns the body of `batchEmbedContents` (ai.google.dev/api/embeddings). The end user's name is not sent, because the
 * API has no field for it.
 * @param resource the API's name of the model
 * @throws ProviderError `bad_request` if there are more texts than the API allows in one batch
 */
export function toEmbedRequest({ input, dimensions, native }: EmbedCall, resource: string): object {
  const fields = native?.origin === ORIGIN ? native.fields : {}
  if (input.length > MAX_TEXTS) {
    throw new ProviderError(
      'bad_request',
      `The provider accepts at most ${MAX_TEXTS} texts per request, not ${input.length}.`,
    )
  }
  return {
    requests: input.map((text) => ({
      model: resource,
      content: { parts: [{ text }] },
      outputDimensionality: dimensions,
      ...fields,
    })),
  }
}

/** Returns the vectors of an answer, in the order of the texts. @throws ProviderError */
export function toGoogleEmbeddings(body: unknown, count: number): Embeddings {
  if (!isObject(body)) throw unreadableError('an answer that is not an object')
  if (isObject(body.error)) throw reportedError(body.error)
  const { embeddings } = body
  const values = Array.isArray(embeddings) ? embeddings.map((embedding) => member(embedding, 'values')) : embeddings
  const usage = embeddedTokens(tokenCount(member(body.usageMetadata, 'promptTokenCount')))
  return { vectors: toVectors(values, count), usage }
}
