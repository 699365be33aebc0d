// The embeddings operation.
import { ZERO_KNOWLEDGE } from '../../../../shared/wire/indexes.ts'
import {
  type EmbeddingsRequest,
  type EmbeddingsResponse,
  OPENAI_EMBEDDINGS_PATH,
} from '../../../../shared/wire/openai.ts'
import { textOf } from '../../../models/conversation.ts'
import { type Embeddings, ProviderError, type TokenUsage } from '../../../models/provider.ts'
import { createPacer, runInSlices } from '../../../platform/pacing.ts'
import { toBase64 } from '../../../platform/text/floats.ts'
import { requireModel } from '../../chat/input.ts'
import { countBilledTokens } from '../../governed/count-tokens.ts'
import type { GovernedInput } from '../../governed/input.ts'
import { jsonPartsDelivery } from '../../governed/json-delivery.ts'
import type { Operation } from '../../governed/operation.ts'
import { EMBEDDINGS_CACHING } from './recorded-embeddings.ts'

export type EmbeddingsInput = GovernedInput & Pick<EmbeddingsRequest, 'dimensions' | 'encoding_format'>

/** Embeds the screened texts, one vector per text. */
export const EMBEDDINGS: Operation<EmbeddingsInput, undefined, Embeddings> = {
  name: 'embedding',
  path: OPENAI_EMBEDDINGS_PATH,
  errors: 'openai',
  prepare: () => ({ facts: {}, value: undefined }),
  caching: EMBEDDINGS_CACHING,
  orderOf: ({ caller, payer, chain, conversation, options }, _, requestId) => ({
    requestId,
    caller,
    payer,
    attempts: chain.attempts,
    call: { ...conversation, options, maxTokens: 0 },
  }),
  async begin(
    { context, screened, signal },
    { provider, model },
    { timeouts: { attemptMs }, entitle, onHead, onFirstOutput },
  ) {
    if (!provider.embed) throw new ProviderError('bad_request', 'This provider does not support embeddings.')
    const { conversation, options, policy, input } = screened
    const { noTraining } = policy.document.privacyHeaders
    const texts = conversation.messages.map(({ content }) => textOf(content))
    const { dimensions } = input
    const { isLarge } = context
    const call = {
      model,
      input: texts,
      dimensions,
      user: options?.user,
      noTraining,
      isLarge,
      entitle,
      onHead,
      attemptMs,
    }
    const embeddings = await provider.embed(call, signal)
    onFirstOutput()
    return embeddings
  },
  async deliver(running, opened, deps) {
    const { attempt, begun } = opened
    opened.close(undefined)
    const output = { usage: begun.usage, isFinal: true, generated: '' }
    const usage = await countBilledTokens(running, opened, 0, output, deps)
    const parts = responseParts(begun, attempt.modelId, usage, running.screened.input)
    return await runInSlices(jsonPartsDelivery(parts, usage), createPacer())
  },
}

/** @throws MODEL_REQUIRED */
export function toEmbeddingsInput(request: EmbeddingsRequest): EmbeddingsInput {
  requireModel(request)
  return {
    conversation: { system: '', messages: request.input.map((text) => ({ role: 'user' as const, content: text })) },
    // The explicit chain disables the key's failover defaults, because vectors of different models are not comparable.
    chain: { models: [{ model: request.model as string }] },
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
