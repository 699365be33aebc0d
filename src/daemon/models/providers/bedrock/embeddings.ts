import { isObject, member, tokenCount } from '../../../platform/text/json.ts'
import type { EmbedCall, Embeddings } from '../../provider.ts'
import { embeddedTokens, toVectors } from '../../vectors.ts'
import { unreadableError } from '../stream/failure.ts'
import { badRequest } from './messages.ts'

/**
 * One family of embedding models. InvokeModel passes bodies to the model unchanged, so the format depends on the
 * family.
 */
type Family = {
  /** A substring of the family's model ids. Inference profile ids contain this substring as well. */
  name: string
  maxTexts: number
  toRequest(call: EmbedCall): object
  /** Returns one vector for each text, without validation. */
  vectorsOf(body: Record<string, unknown>): unknown
}

const FAMILIES: readonly Family[] = [
  {
    name: 'amazon.titan-embed-text',
    maxTexts: 1,
    toRequest: ({ input: [inputText], dimensions }) => ({ inputText, dimensions }),
    vectorsOf: ({ embedding }) => [embedding],
  },
  {
    name: 'cohere.embed',
    maxTexts: 96,
    toRequest: ({ input, dimensions }) => ({
      texts: input,
      // Cohere requires an input type. The gateway's API has no input type, so all vectors get the same type and stay
      // comparable.
      input_type: 'search_document',
      embedding_types: ['float'],
      output_dimension: dimensions,
    }),
    // The request contains embedding types, so the vectors are grouped by type. Some model versions omit this grouping.
    vectorsOf: ({ embeddings }) => member(embeddings, 'float') ?? embeddings,
  },
]

/**
 * Returns the family of a Bedrock embedding model.
 * @throws ProviderError `bad_request` if the model belongs to an unknown family, or if the call contains too many texts
 */
export function embeddingFamily({ model, input }: EmbedCall): Family {
  const family = FAMILIES.find(({ name }) => model.includes(name))
  if (!family) throw badRequest(`supports only embedding models of ${FAMILIES.map(({ name }) => name).join(' and ')}`)
  const { maxTexts } = family
  if (input.length > maxTexts)
    throw badRequest(`accepts at most ${maxTexts} texts per request for this model, not ${input.length}`)
  return family
}

/** Returns the vectors of an InvokeModel answer, in the order of the texts. @throws ProviderError */
export function toBedrockEmbeddings(body: unknown, { vectorsOf }: Family, count: number): Embeddings {
  if (!isObject(body)) throw unreadableError('an answer that is not an object')
  return { vectors: toVectors(vectorsOf(body), count), usage: embeddedTokens(tokenCount(body.inputTextTokenCount)) }
}
