import { ZERO_KNOWLEDGE } from '../../../../shared/wire/indexes.ts'
import {
  type EmbeddingsRequest,
  type EmbeddingsResponse,
  OPENAI_EMBEDDINGS_PATH,
} from '../../../../shared/wire/openai.ts'
import { textOf } from '../../../models/conversation.ts'
import { type Embeddings, type Provider, ProviderError } from '../../../models/provider.ts'
import { withProviders } from '../../../models/registry.ts'
import type { Reply, RequestContext } from '../../../platform/http/route.ts'
import type { Answer, Envelope } from '../../chat/answer-contract.ts'
import type { ChatDeps } from '../../chat/deps.ts'
import { type ChatInput, requireModel } from '../../chat/input.ts'
import { jsonAnswer } from '../../chat/json-answer.ts'
import { runChat } from '../../chat/pipeline.ts'

/**
 * Embeds texts through the same pipeline as a chat: admission, billing, replay and evidence. The pipeline uses a
 * provider whose `chat` method embeds the texts and returns an answer without text.
 * @throws GatewayError as `runChat` does
 */
export function runEmbeddings(
  request: EmbeddingsRequest,
  context: RequestContext,
  deps: ChatDeps,
): Promise<Reply | undefined> {
  const made: Made = { embeddings: undefined }
  const whole = (envelope: Envelope) => embeddingsAnswer(request, made, envelope)
  return runChat(
    toChatInput(request),
    { path: OPENAI_EMBEDDINGS_PATH, operation: 'embedding', errors: 'openai', whole, streamed: whole },
    context,
    {
      ...deps,
      providers: withProviders(deps.providers, (provider) => embeddingProvider(provider, request, made)),
    },
  )
}

/** Contains the vectors, which the provider's call sets and the answer renders. */
type Made = { embeddings: Embeddings | undefined }

function toChatInput(request: EmbeddingsRequest): ChatInput {
  requireModel(request)
  const messages = request.input.map((text) => ({ role: 'user' as const, content: text }))
  return {
    conversation: { system: '', messages },
    // The explicit chain disables the key's failover defaults, because vectors of different models are not comparable.
    chain: { models: [{ model: request.model as string }] },
    index: ZERO_KNOWLEDGE,
    useRag: false,
    policy: request.smltp_policy,
    shield: request.prompt_shield,
    userId: request.user_id,
    conversationId: undefined,
    temperature: undefined,
    maxTokens: 0,
    stream: false,
    options: request.user === undefined ? undefined : { user: request.user },
  }
}

function embeddingProvider(provider: Provider, { dimensions }: EmbeddingsRequest, made: Made): Provider {
  return {
    ...provider,
    async *chat({ model, messages, options, noTraining, entitle, onHead, timeouts: { attemptMs } }, signal) {
      if (!provider.embed) throw new ProviderError('bad_request', 'This provider does not support embeddings.')
      // Embed the screened texts, not the original request.
      const input = messages.map(({ content }) => textOf(content))
      made.embeddings = await provider.embed(
        { model, input, dimensions, user: options?.user, noTraining, entitle, onHead, attemptMs },
        signal,
      )
      const { usage } = made.embeddings
      yield [{ type: 'end', outcome: 'complete', nativeFinishReason: 'stop', usage }]
    },
  }
}

const embeddingsAnswer = ({ encoding_format: format }: EmbeddingsRequest, made: Made, { model }: Envelope): Answer =>
  jsonAnswer(({ inputTokens, outputTokens }): EmbeddingsResponse => {
    const { vectors } = made.embeddings as Embeddings
    return {
      object: 'list',
      data: vectors.map((vector, index) => ({
        object: 'embedding',
        index,
        embedding: format === 'base64' ? toBase64(vector) : vector,
      })),
      model,
      usage: { prompt_tokens: inputTokens, total_tokens: inputTokens + outputTokens },
    }
  })

/** 32-bit floats, little-endian. */
function toBase64(vector: readonly number[]): string {
  const bytes = Buffer.alloc(vector.length * 4)
  vector.forEach((value, at) => void bytes.writeFloatLE(value, at * 4))
  return bytes.toString('base64')
}
