import { isObject, member, tokenCount } from '../../../platform/text/json.ts'
import { ORIGIN } from '../../part-signature.ts'
import { type EmbedCall, type Embeddings, ProviderError } from '../../provider.ts'
import { embeddedTokens, toVectors } from '../../vectors.ts'
import { reportedError, unreadableError } from '../stream/failure.ts'

/** The API's limit for one request. Gemini's embedding models accept one text. */
const maxTexts = (model: string): number => (model.startsWith('gemini-embedding') ? 1 : 250)

/**
 * Returns the body of `predict` for an embedding model of Vertex AI.
 * @throws ProviderError `bad_request` if there are more texts than the model accepts in one request
 */
export function toPredictRequest({ model, input, dimensions, native }: EmbedCall): object {
  const most = maxTexts(model)
  if (input.length > most) {
    throw new ProviderError(
      'bad_request',
      `The provider accepts at most ${most} texts per request for this model, not ${input.length}.`,
    )
  }
  const { taskType: task_type, title } = native?.origin === ORIGIN ? native.fields : {}
  return {
    instances: input.map((content) => ({ content, task_type, title })),
    // By default, the API cuts long texts without notice.
    parameters: { outputDimensionality: dimensions, autoTruncate: false },
  }
}

/** Returns the vectors of an answer, in the order of the texts. @throws ProviderError */
export function toVertexEmbeddings(body: unknown, count: number): Embeddings {
  if (!isObject(body)) throw unreadableError('an answer that is not an object')
  if (isObject(body.error)) throw reportedError(body.error)
  if (!Array.isArray(body.predictions)) throw unreadableError('a wrong number of vectors')
  const embeddings = body.predictions.map((prediction) => member(prediction, 'embeddings'))
  const tokens = embeddings.map((one) => tokenCount(member(member(one, 'statistics'), 'token_count')))
  const total = tokens.reduce<number | undefined>(
    (sum, one) => (sum === undefined || one === undefined ? undefined : sum + one),
    0,
  )
  return {
    vectors: toVectors(
      embeddings.map((one) => member(one, 'values')),
      count,
    ),
    usage: embeddedTokens(total),
  }
}
