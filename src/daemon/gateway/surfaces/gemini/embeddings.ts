import { invalidField } from '../../../../shared/errors.ts'
import {
  BATCH_EMBED_CONTENTS_PATH,
  type BatchEmbedContentsRequest,
  EMBED_CONTENT_PATH,
  type EmbedContentRequest,
} from '../../../../shared/wire/gemini.ts'
import { ZERO_KNOWLEDGE } from '../../../../shared/wire/indexes.ts'
import { ORIGIN } from '../../../models/part-signature.ts'
import { droppedBy } from '../../../models/provider.ts'
import { toEnvelope } from '../../chat/envelope.ts'
import { toExtension } from '../../chat/extension.ts'
import { askedOptions } from '../../chat/input.ts'
import { type EmbeddingsInput, embeddingsOperation, type Render } from '../embedding-operation.ts'

export const EMBED_CONTENT = embeddingsOperation({
  path: EMBED_CONTENT_PATH,
  errors: 'google',
  *render(answer) {
    const [vector = []] = answer.opened.begun.vectors
    yield `{"embedding":${valuesOf(vector)},"gateway":${gatewayOf(answer)}}`
  },
})

export const BATCH_EMBED_CONTENTS = embeddingsOperation({
  path: BATCH_EMBED_CONTENTS_PATH,
  errors: 'google',
  *render(answer) {
    let separator = '{"embeddings":['
    for (const vector of answer.opened.begun.vectors) {
      yield separator + valuesOf(vector)
      separator = ','
    }
    yield `],"gateway":${gatewayOf(answer)}}`
  },
})

type Answer = Parameters<Render>[0]

const valuesOf = (vector: Answer['opened']['begun']['vectors'][number]) =>
  JSON.stringify({ values: Array.from(vector) })

function gatewayOf({ running, opened, deps }: Answer): string {
  const { provider, model } = opened.attempt
  const native = running.screened.options?.native
  const dropped = droppedBy(provider, model, native).map((field) => ({ field, why: 'provider' as const }))
  return JSON.stringify(toExtension(toEnvelope(running, opened, deps, { dropped })))
}

type Single = BatchEmbedContentsRequest['requests'][number]

export const toEmbedInput = (request: EmbedContentRequest, model: string): EmbeddingsInput =>
  toInput([request], request, model)

/** @throws VALIDATION_ERROR if the texts have different options, because one call embeds all of them */
export function toBatchInput(request: BatchEmbedContentsRequest, model: string): EmbeddingsInput {
  const [first] = request.requests
  for (const name of ['taskType', 'title', 'outputDimensionality'] as const) {
    if (request.requests.some((one) => one[name] !== first?.[name])) {
      throw invalidField('requests', `All requests of a batch must have the same ${name}. Send a batch for each value.`)
    }
  }
  return toInput(request.requests, request, model)
}

function toInput(
  requests: readonly Single[],
  extensions: Pick<EmbedContentRequest, 'smltp_policy' | 'prompt_shield' | 'user_id'>,
  model: string,
): EmbeddingsInput {
  const { taskType, title, outputDimensionality } = requests[0] ?? {}
  const fields = { ...(taskType !== undefined && { taskType }), ...(title !== undefined && { title }) }
  const texts = requests.map(({ content }) => content.parts.map(({ text }) => text).join('\n'))
  if (texts.includes('')) throw invalidField('content', 'The text of a content must not be empty.')
  return {
    conversation: { system: '', messages: texts.map((text) => ({ role: 'user' as const, content: text })) },
    // The explicit chain disables the key's failover defaults, because vectors of different models are not comparable.
    chain: { models: [{ model }] },
    isOneModel: true,
    index: ZERO_KNOWLEDGE,
    policy: extensions.smltp_policy,
    shield: extensions.prompt_shield,
    userId: extensions.user_id,
    conversationId: undefined,
    stream: false,
    options: askedOptions({
      native: Object.keys(fields).length > 0 ? { origin: ORIGIN, fields, headers: {}, marks: [] } : undefined,
    }),
    dimensions: outputDimensionality,
    encoding_format: undefined,
  }
}
