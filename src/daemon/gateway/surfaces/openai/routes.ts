import {
  EmbeddingsRequest,
  EmbeddingsResponse,
  OPENAI_CHAT_PATH,
  OPENAI_EMBEDDINGS_PATH,
  OpenAiChatRequest,
  OpenAiChatResponse,
  OpenAiChunk,
} from '../../../../shared/wire/openai.ts'
import { type Route, route } from '../../../platform/http/route.ts'
import { chatOperation } from '../../chat/chat.ts'
import { withDefaultModel } from '../../chat/input.ts'
import type { GovernedDeps } from '../../governed/deps.ts'
import { governed } from '../../governed/governed.ts'
import { requireFewMessages } from '../../governed/request-limits.ts'
import { EMBEDDINGS, toEmbeddingsInput } from './embeddings.ts'
import { FAILURES } from './failures.ts'
import { toOpenAiInput } from './input.ts'
import { openAiSurface } from './response.ts'

const CHAT = chatOperation(openAiSurface({ includeUsage: false }))
const CHAT_WITH_USAGE = chatOperation(openAiSurface({ includeUsage: true }))

/** The routes for OpenAI's clients, also available directly under `/v1`. */
export function openAiRoutes(deps: GovernedDeps): Route[] {
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
        requireFewMessages(context.body.messages, limits, context.caller.settings.limits)
        const { input, style } = toOpenAiInput(withDefaultModel(context.body, deps))
        const includeUsage = context.body.stream_options?.include_usage ?? false
        const choices = input.options?.choices
        const usual = includeUsage ? CHAT_WITH_USAGE : CHAT
        const isUsual = style === undefined && choices === undefined
        const operation = isUsual ? usual : chatOperation(openAiSurface({ includeUsage, style, choices }))
        return governed(operation, input, context, deps)
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
  ]
}
