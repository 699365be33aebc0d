// The embeddings operation.
import { ZERO_KNOWLEDGE } from '../../../../shared/wire/indexes.ts'
import {
  type EmbeddingsRequest,
  type EmbeddingsResponse,
  OPENAI_EMBEDDINGS_PATH,
} from '../../../../shared/wire/openai.ts'
import type { Embeddings, TokenUsage } from '../../../models/provider.ts'
import { toBase64 } from '../../../platform/text/floats.ts'
import { requireModel } from '../../chat/input.ts'
import { type EmbeddingsInput, embeddingsOperation } from '../embedding-operation.ts'

/** The embeddings operation in OpenAI's form. */
export const EMBEDDINGS = embeddingsOperation({
  path: OPENAI_EMBEDDINGS_PATH,
  errors: 'openai',
  render: ({ running, opened, usage }) =>
    responseParts(opened.begun, opened.attempt.modelId, usage, running.screened.input),
})

/** @throws MODEL_REQUIRED */
export function toEmbeddingsInput(request: EmbeddingsRequest): EmbeddingsInput {
  requireModel(request)
  return {
    conversation: { system: '', messages: request.input.map((text) => ({ role: 'user' as const, content: text })) },
    // The explicit chain disables the key's failover defaults, because vectors of different models are not comparable.
    chain: { models: [{ model: request.model as string }] },
    isOneModel: true,
    index: ZERO_KNOWLEDGE,
    policy: request.smltp_policy,
    shield: request.prompt_shield,
    userId: request.user_id,
    conversationId: undefined,
    stream: false,
    options: request.user === undefined ? undefined : { user: request.user },
    dimensions: request.dimensions,
    encoding_format: request.encoding_format,
  }
}

/** The JSON of an EmbeddingsResponse, with one part per vector. */
export function* responseParts(
  { vectors }: Pick<Embeddings, 'vectors'>,
  model: string,
  { inputTokens, outputTokens }: Pick<TokenUsage, 'inputTokens' | 'outputTokens'>,
  { encoding_format: format }: Pick<EmbeddingsInput, 'encoding_format'>,
): Generator<string, void> {
  type Response = EmbeddingsResponse
  let separator = '{"object":"list","data":['
  for (const [index, vector] of vectors.entries()) {
    const embedding = format === 'base64' ? toBase64(vector) : Array.from(vector)
    yield separator + JSON.stringify({ object: 'embedding', index, embedding } satisfies Response['data'][number])
    separator = ','
  }
  const rest: Omit<Response, 'object' | 'data'> = {
    model,
    usage: { prompt_tokens: inputTokens, total_tokens: inputTokens + outputTokens },
  }
  yield `],${JSON.stringify(rest).slice(1)}`
}
