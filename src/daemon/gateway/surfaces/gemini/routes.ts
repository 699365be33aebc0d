import { invalidField } from '../../../../shared/errors.ts'
import { MODEL_ID_CHARS } from '../../../../shared/spec-limits.ts'
import {
  BATCH_EMBED_CONTENTS_PATH,
  BatchEmbedContentsRequest,
  BatchEmbedContentsResponse,
  EMBED_CONTENT_PATH,
  EmbedContentRequest,
  EmbedContentResponse,
  GEMINI_COUNT_TOKENS_PATH,
  GENERATE_CONTENT_PATH,
  GeminiCountTokensRequest,
  GeminiCountTokensResponse,
  GenerateContentRequest,
  GenerateContentResponse,
  GoogleError,
  STREAM_GENERATE_CONTENT_PATH,
  StreamQuery,
} from '../../../../shared/wire/gemini.ts'
import { type ResponseDoc, type Route, route } from '../../../platform/http/route.ts'
import { chatOperation } from '../../chat/chat.ts'
import type { Catalogue } from '../../discovery/catalogue.ts'
import type { GovernedDeps } from '../../governed/deps.ts'
import { governed } from '../../governed/governed.ts'
import { requireFewMessages } from '../../governed/request-limits.ts'
import { COUNT_TOKENS, toCountInput } from './count-tokens.ts'
import { BATCH_EMBED_CONTENTS, EMBED_CONTENT, toBatchInput, toEmbedInput } from './embeddings.ts'
import { toChatInput } from './input.ts'
import { geminiModelRoutes } from './models.ts'
import { geminiSurface } from './response.ts'

const failure = (description: string): ResponseDoc => ({ description, schema: GoogleError })

const FAILURES: Record<number, ResponseDoc> = {
  400: failure('The request is invalid, or the provider rejected it'),
  401: failure('Key missing, invalid, revoked or expired'),
  403: failure('Model, policy, billing mode or `user_id` not allowed, or a guard blocked the content'),
  409: failure('The answer for this Idempotency-Key was too large to store'),
  413: failure('Body above 32 MB, or above `limits.body_size` of the configuration'),
  415: failure('Not application/json'),
  422: failure('Idempotency-Key reused with another body or model'),
  429: failure('Rate limit of the key, or of every model of the chain; points or budget used up'),
  500: failure('Unexpected failure'),
  502: failure('Every model of the chain failed'),
  503: failure('A required policy or shield is unavailable, or the gateway is overloaded or shutting down'),
}

/** The routes for Google's clients, also available directly under `/v1beta`. */
export function geminiRoutes(deps: GovernedDeps, catalogue: Catalogue): Route[] {
  const { limits } = deps
  const common = {
    method: 'POST',
    takesRest: true,
    access: 'key',
    errors: 'google',
    tags: ['Gemini-compatible'],
    takesKeyInAddress: true,
    bodyLimit: limits.bodyBytes,
    jsonDepth: limits.jsonDepth,
    hashesBody: true,
    callsModels: true,
    takesIdempotencyKey: true,
  } satisfies Partial<Route>
  return [
    route({
      ...common,
      usesCache: true,
      path: GENERATE_CONTENT_PATH,
      summary: "Create an answer in Gemini's format",
      body: GenerateContentRequest,
      responses: { 200: { description: 'The answer', schema: GenerateContentResponse }, ...FAILURES },
      handle(context) {
        const { body, params } = context
        requireFewMessages(body.contents, limits, context.caller.settings.limits, 'contents')
        const input = toChatInput(body, modelOf(params), false)
        // A content with several function responses becomes several messages.
        requireFewMessages(input.conversation.messages, limits, context.caller.settings.limits, 'contents')
        const surface = { path: GENERATE_CONTENT_PATH, frames: 'sse', showsThoughts: showsThoughts(body) } as const
        return governed(chatOperation(geminiSurface(surface)), input, context, deps)
      },
    }),
    route({
      ...common,
      usesCache: true,
      path: STREAM_GENERATE_CONTENT_PATH,
      summary: "Create an answer in Gemini's format, and send it as it arrives",
      body: GenerateContentRequest,
      query: StreamQuery,
      responses: {
        200: {
          description: 'The answer in pieces: a JSON array, or server-sent events with `alt=sse`',
          schema: GenerateContentResponse.array(),
          stream: GenerateContentResponse,
        },
        ...FAILURES,
      },
      handle(context) {
        const { body, params, query } = context
        requireFewMessages(body.contents, limits, context.caller.settings.limits, 'contents')
        const input = toChatInput(body, modelOf(params), true)
        // A content with several function responses becomes several messages.
        requireFewMessages(input.conversation.messages, limits, context.caller.settings.limits, 'contents')
        const surface = geminiSurface({
          path: STREAM_GENERATE_CONTENT_PATH,
          frames: query.alt === 'sse' ? 'sse' : 'array',
          showsThoughts: showsThoughts(body),
        })
        return governed(chatOperation(surface), input, context, deps)
      },
    }),
    route({
      ...common,
      path: GEMINI_COUNT_TOKENS_PATH,
      summary: "Count the input tokens of a request in Gemini's format, free of charge",
      body: GeminiCountTokensRequest,
      responses: { 200: { description: 'The number of input tokens', schema: GeminiCountTokensResponse }, ...FAILURES },
      handle(context) {
        const input = toCountInput(context.body, modelOf(context.params))
        requireFewMessages(input.conversation.messages, limits, context.caller.settings.limits, 'contents')
        return governed(COUNT_TOKENS, input, context, deps)
      },
    }),
    route({
      ...common,
      usesCache: true,
      path: EMBED_CONTENT_PATH,
      summary: "Create the embedding of a text, in Gemini's format",
      body: EmbedContentRequest,
      responses: { 200: { description: 'The vector', schema: EmbedContentResponse }, ...FAILURES },
      handle: (context) => governed(EMBED_CONTENT, toEmbedInput(context.body, modelOf(context.params)), context, deps),
    }),
    route({
      ...common,
      usesCache: true,
      path: BATCH_EMBED_CONTENTS_PATH,
      summary: "Create embeddings of texts, in Gemini's format",
      body: BatchEmbedContentsRequest,
      responses: { 200: { description: 'One vector for each text', schema: BatchEmbedContentsResponse }, ...FAILURES },
      handle: (context) =>
        governed(BATCH_EMBED_CONTENTS, toBatchInput(context.body, modelOf(context.params)), context, deps),
    }),
    ...geminiModelRoutes(deps, catalogue),
  ]
}

/** @throws VALIDATION_ERROR */
function modelOf({ model = '' }: Record<string, string>): string {
  if (model.length <= MODEL_ID_CHARS) return model
  throw invalidField('model', `The name of a model may have at most ${MODEL_ID_CHARS} characters.`)
}

const showsThoughts = ({ generationConfig }: GenerateContentRequest): boolean =>
  generationConfig?.thinkingConfig?.includeThoughts ?? false
