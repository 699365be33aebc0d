import { GatewayError } from '../../../../shared/errors.ts'
import {
  EmbeddingsRequest,
  EmbeddingsResponse,
  OPENAI_CHAT_PATH,
  OPENAI_EMBEDDINGS_PATH,
  OPENAI_MODEL_PATH,
  OPENAI_MODELS_PATH,
  OpenAiChatRequest,
  OpenAiChatResponse,
  OpenAiChunk,
  OpenAiModel,
  OpenAiModels,
} from '../../../../shared/wire/openai.ts'
import { type ResponseDoc, type Route, reply, route } from '../../../platform/http/route.ts'
import { chatOperation } from '../../chat/chat.ts'
import { requireFewMessages } from '../../chat/input.ts'
import type { GovernedDeps } from '../../governed/deps.ts'
import { governed } from '../../governed/governed.ts'
import { EMBEDDINGS, toEmbeddingsInput } from './embeddings.ts'
import { FAILURES, failure, refusal } from './failures.ts'
import { toChatInput } from './input.ts'
import { openAiSurface } from './response.ts'

const CHAT = chatOperation(openAiSurface({ includeUsage: false }))
const CHAT_WITH_USAGE = chatOperation(openAiSurface({ includeUsage: true }))

const DISCOVERY_REFUSALS: Record<number, ResponseDoc> = {
  401: refusal('Key missing or invalid'),
  403: refusal('The key is not allowed from this address'),
  429: refusal('Rate limit of the key'),
}

const SHOWN_MODEL_CHARS = 200

/** The routes for OpenAI's clients, also available directly under `/v1`. */
export function openAiRoutes(deps: GovernedDeps): Route[] {
  const startedSeconds = Math.floor(deps.clock.now() / 1000)
  const toModel = (id: string): OpenAiModel => ({
    id,
    object: 'model',
    created: startedSeconds,
    owned_by: id.slice(0, id.indexOf('/')),
  })
  const { limits } = deps
  const bodyLimits = { bodyLimit: limits.bodyBytes, jsonDepth: limits.jsonDepth }
  return [
    route({
      method: 'POST',
      path: OPENAI_CHAT_PATH,
      access: 'key',
      errors: 'openai',
      summary: "Create a chat completion in OpenAI's format",
      tags: ['OpenAI-compatible'],
      body: OpenAiChatRequest,
      ...bodyLimits,
      hashesBody: true,
      callsModels: true,
      takesIdempotencyKey: true,
      usesCache: true,
      responses: { 200: { description: 'The answer', schema: OpenAiChatResponse, stream: OpenAiChunk }, ...FAILURES },
      handle(context) {
        requireFewMessages(context.body.messages, limits)
        const operation = context.body.stream_options?.include_usage ? CHAT_WITH_USAGE : CHAT
        return governed(operation, toChatInput(context.body), context, deps)
      },
    }),
    route({
      method: 'POST',
      path: OPENAI_EMBEDDINGS_PATH,
      access: 'key',
      errors: 'openai',
      summary: 'Create embeddings of texts',
      tags: ['OpenAI-compatible'],
      body: EmbeddingsRequest,
      ...bodyLimits,
      hashesBody: true,
      callsModels: true,
      takesIdempotencyKey: true,
      usesCache: true,
      responses: { 200: { description: 'One vector for each text', schema: EmbeddingsResponse }, ...FAILURES },
      handle: (context) => governed(EMBEDDINGS, toEmbeddingsInput(context.body), context, deps),
    }),
    route({
      method: 'GET',
      path: OPENAI_MODELS_PATH,
      access: 'key',
      errors: 'openai',
      summary: "List the models that this key may use, in OpenAI's format",
      tags: ['OpenAI-compatible'],
      responses: {
        200: { description: 'The values that chat accepts as `model`', schema: OpenAiModels },
        ...DISCOVERY_REFUSALS,
      },
      async handle({ caller }) {
        const policies = await deps.policies.of(caller.tenantId)
        const data = policies.offeredModels(caller.settings).map(toModel)
        return reply(200, { object: 'list', data } satisfies OpenAiModels)
      },
    }),
    route({
      method: 'GET',
      path: OPENAI_MODEL_PATH,
      takesRest: true,
      access: 'key',
      errors: 'openai',
      summary: "Show a model that this key may use, in OpenAI's format",
      tags: ['OpenAI-compatible'],
      responses: {
        200: { description: 'The model; chat accepts its id as `model`', schema: OpenAiModel },
        400: failure('The path cannot be decoded'),
        ...DISCOVERY_REFUSALS,
        404: failure('The model does not exist, or this key may not use it'),
      },
      async handle({ caller, params: { model = '' } }) {
        const policies = await deps.policies.of(caller.tenantId)
        if (!policies.offersModel(model, caller.settings)) {
          const shown = model.slice(0, SHOWN_MODEL_CHARS)
          throw new GatewayError('MODEL_NOT_FOUND', `The model "${shown}" does not exist, or this key may not use it.`)
        }
        return reply(200, toModel(model))
      },
    }),
  ]
}
