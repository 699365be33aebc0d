// The routes of chat and of the dry run.
import { CHAT_BODY_BYTES } from '../../../shared/spec-limits.ts'
import { CHAT_PATH, ChatFrame, ChatRequest, ChatResponse } from '../../../shared/wire/chat.ts'
import { FlatError } from '../../../shared/wire/common.ts'
import { POLICY_CHECK_PATH, PolicyCheckRequest, PolicyCheckResponse } from '../../../shared/wire/policy-check.ts'
import { type Route, reply, route } from '../../platform/http/route.ts'
import { SSE_KEEP_ALIVE } from '../../platform/http/sse.ts'
import type { GovernedDeps } from '../governed/deps.ts'
import { governed } from '../governed/governed.ts'
import { requireFewMessages } from '../governed/request-limits.ts'
import { streamedAnswer, wholeAnswer } from './answer-rendering.ts'
import { chatOperation } from './chat.ts'
import { toChatInput } from './input.ts'
import { checkPolicy } from './policy-check.ts'

const CHAT = chatOperation({
  path: CHAT_PATH,
  errors: 'flat',
  whole: wholeAnswer,
  streamed: streamedAnswer,
  // Until the first token, a failure has its own status. Clients of this route rely on it.
  keepAlive: { frame: SSE_KEEP_ALIVE, opens: false },
})

const failure = (description: string) => ({ description, schema: FlatError })

export function chatRoutes(deps: GovernedDeps): Route[] {
  return [
    route({
      method: 'POST',
      path: CHAT_PATH,
      access: 'key',
      errors: 'flat',
      summary: 'Create a chat completion, with retrieval and failover',
      tags: ['Chat'],
      body: ChatRequest,
      bodyRequired: true,
      bodyLimit: CHAT_BODY_BYTES,
      hashesBody: true,
      callsModels: true,
      takesIdempotencyKey: true,
      usesCache: true,
      responses: {
        200: { description: 'The answer', schema: ChatResponse, stream: ChatFrame },
        400: failure('The request is invalid, or the provider rejected it'),
        401: failure('Key missing, invalid, revoked or expired'),
        403: failure('Chat, model, index, policy, billing mode or `user_id` not allowed'),
        409: failure('The answer for this Idempotency-Key was too large to store'),
        413: failure('Body above 1 MiB'),
        415: failure('Not application/json'),
        422: failure('Idempotency-Key reused with another body'),
        429: failure('Rate limit of the key, or of every model of the chain; points or budget used up'),
        500: failure('Unexpected failure'),
        502: failure('Every model of the chain failed; `attempts` lists them'),
        503: failure('A required policy or shield is unavailable, or the gateway is overloaded or shutting down'),
      },
      handle(context) {
        const { limits } = context.caller.settings
        requireFewMessages(context.body.messages ?? [], {}, limits)
        return governed(CHAT, toChatInput(context.body, limits), context, deps)
      },
    }),
    route({
      method: 'POST',
      path: POLICY_CHECK_PATH,
      access: 'key',
      errors: 'flat',
      summary: 'Check a chat request without calling a model',
      tags: ['Chat'],
      callsModels: true,
      body: PolicyCheckRequest,
      bodyLimit: CHAT_BODY_BYTES,
      responses: {
        200: { description: 'The result of each check, even for a forbidden request', schema: PolicyCheckResponse },
      },
      handle: async (context) => reply(200, await checkPolicy(context.body, context, deps)),
    }),
  ]
}
