import { isObject, member, tokenCount } from '../../json.ts'
import type { EmbedCall, Embeddings } from '../../provider.ts'
import { embeddedTokens, toVectors } from '../../vectors.ts'
import { unreadableError } from '../stream/failure.ts'
import { badRequest } from './messages.ts'

/** One family of models that embed. InvokeModel hands a body on as it is, so each has its own words. */
type Family = {
  /** Stands in the ids of its models, also inside an inference profile. */
  name: string
  maxTexts: number
  toRequest(call: EmbedCall): object
  /** One vector for each text, before anything is believed. */
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
      // It must be said, and what the callers of other models' interfaces keep is compared with its like.
      input_type: 'search_document',
      embedding_types: ['float'],
      output_dimension: dimensions,
    }),
    // By type where types were asked for; some versions answer without.
    vectorsOf: ({ embeddings }) => member(embeddings, 'float') ?? embeddings,
  },
]

/** How a model of Bedrock embeds. @throws ProviderError `bad_request` for a family that does not, and for too many texts */
export function embeddingFamily({ model, input }: EmbedCall): Family {
  const family = FAMILIES.find(({ name }) => model.includes(name))
  if (!family) throw badRequest(`embeds with ${FAMILIES.map(({ name }) => name).join(' and ')} only`)
  const { maxTexts } = family
  if (input.length > maxTexts)
    throw badRequest(`takes at most ${maxTexts} texts at once of this model, not ${input.length}`)
  return family
}

/** The vectors of an answer of InvokeModel, in the order of the texts. @throws ProviderError */
export function toBedrockEmbeddings(body: unknown, { vectorsOf }: Family, count: number): Embeddings {
  if (!isObject(body)) throw unreadableError('an answer that is not an object')
  return { vectors: toVectors(vectorsOf(body), count), usage: embeddedTokens(tokenCount(body.inputTextTokenCount)) }
}
