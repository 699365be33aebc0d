import { GatewayError } from '../../../../shared/errors.ts'
import {
  COUNT_TOKENS_PATH,
  CountTokensRequest,
  CountTokensResponse,
  MESSAGES_PATH,
  MessagesError,
  MessagesEvent,
  MessagesRequest,
  MessagesResponse,
} from '../../../../shared/wire/messages.ts'
import { type ResponseDoc, type Route, route } from '../../../platform/http/route.ts'
import { chatOperation } from '../../chat/chat.ts'
import { withDefaultModel } from '../../chat/input.ts'
import type { GovernedDeps } from '../../governed/deps.ts'
import { governed } from '../../governed/governed.ts'
import { requireFewMessages } from '../../governed/request-limits.ts'
import { COUNT_TOKENS, toCountInput } from './count-tokens.ts'
import { toChatInput } from './input.ts'
import { toNativeHeaders } from './native.ts'
import { MESSAGES_SURFACE } from './response.ts'

const MESSAGES = chatOperation(MESSAGES_SURFACE)

/**
 * Rejects requests that continue a thread. Such a request contains only the new turn, and the gateway does not store
 * conversations. The model would therefore answer without the earlier turns.
 * @throws THREAD_NOT_FOUND
 */
function refuseContinuedThread({ thread }: MessagesRequest): void {
  if (thread?.type !== 'continue') return
  throw new GatewayError(
    'THREAD_NOT_FOUND',
    'The gateway stores no conversations. Send all messages of the conversation.',
  )
}

const failure = (description: string): ResponseDoc => ({ description, schema: MessagesError })

const FAILURES: Record<number, ResponseDoc> = {
  400: failure('The request is invalid, or the provider rejected it'),
  401: failure('Key missing, invalid, revoked or expired'),
  403: failure('Model, policy, billing mode or `user_id` not allowed'),
  404: failure('The request continues a `thread`, but conversations are not stored'),
  409: failure('The answer for this Idempotency-Key was too large to store'),
  413: failure('Body above 32 MB, or above `limits.body_size` of the configuration'),
  415: failure('Not application/json'),
  422: failure('Idempotency-Key reused with another body'),
  429: failure('Rate limit of the key, or of every model of the chain; points or budget used up'),
  500: failure('Unexpected failure'),
  502: failure('Every model of the chain failed'),
  503: failure('A required policy or shield is unavailable, or the gateway is overloaded or shutting down'),
}

/** The routes for Anthropic's clients, also available directly under `/v1`. */
export function messagesRoutes(deps: GovernedDeps): Route[] {
  const { limits } = deps
  const bodyLimits = { bodyLimit: limits.bodyBytes, jsonDepth: limits.jsonDepth }
  return [
    route({
      method: 'POST',
      path: MESSAGES_PATH,
      access: 'key',
      errors: 'anthropic',
      summary: "Create a message in Anthropic's format",
      tags: ['Anthropic-compatible'],
      body: MessagesRequest,
      ...bodyLimits,
      hashesBody: true,
      callsModels: true,
      takesIdempotencyKey: true,
      usesCache: true,
      responses: { 200: { description: 'The answer', schema: MessagesResponse, stream: MessagesEvent }, ...FAILURES },
      handle(context) {
        refuseContinuedThread(context.body)
        requireFewMessages(context.body.messages, limits, context.caller.settings.limits)
        const headers = toNativeHeaders(context.request.headers, limits.anthropicBetas, context.body)
        return governed(MESSAGES, toChatInput(withDefaultModel(context.body, deps), headers), context, deps)
      },
    }),
    route({
      method: 'POST',
      path: COUNT_TOKENS_PATH,
      access: 'key',
      errors: 'anthropic',
      summary: 'Count the input tokens of a message, free of charge',
      tags: ['Anthropic-compatible'],
      body: CountTokensRequest,
      ...bodyLimits,
      hashesBody: true,
      callsModels: true,
      takesIdempotencyKey: true,
      responses: { 200: { description: 'The number of input tokens', schema: CountTokensResponse }, ...FAILURES },
      handle(context) {
        requireFewMessages(context.body.messages, limits, context.caller.settings.limits)
        const headers = toNativeHeaders(context.request.headers, limits.anthropicBetas, context.body)
        return governed(COUNT_TOKENS, toCountInput(withDefaultModel(context.body, deps), headers), context, deps)
      },
    }),
  ]
}
