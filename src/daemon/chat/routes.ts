import { CHAT_BODY_BYTES } from '../../shared/spec-limits.ts'
import { CHAT_PATH, ChatFrame, ChatRequest, ChatResponse } from '../../shared/wire/chat.ts'
import { FlatError } from '../../shared/wire/common.ts'
import { type Route, route } from '../http/route.ts'
import { createIdempotency } from './idempotency.ts'
import { type ChatDeps, runChat } from './pipeline.ts'

const failure = (description: string) => ({ description, schema: FlatError })

export function chatRoutes(deps: ChatDeps): Route[] {
  const idempotency = createIdempotency(deps)
  return [
    route({
      method: 'POST',
      path: CHAT_PATH,
      access: 'key',
      errors: 'flat',
      summary: 'Answer a chat request, with retrieval and failover',
      tags: ['Chat'],
      body: ChatRequest,
      bodyLimit: CHAT_BODY_BYTES,
      responses: {
        200: { description: 'The answer', schema: ChatResponse, stream: ChatFrame },
        400: failure('A rule of the request is broken, or the provider refuses it'),
        401: failure('Key missing, invalid, revoked or expired'),
        403: failure('Model, index, policy or `user_id` not allowed'),
        413: failure('Body above 1 MiB'),
        422: failure('Idempotency-Key reused with another body'),
        429: failure('Rate limit of the key, or of every model of the chain'),
        500: failure('Unexpected failure'),
        502: failure('Every model of the chain failed; `attempts` lists them'),
        503: failure('Overloaded or shutting down'),
      },
      handle: (context) =>
        idempotency.once(context, CHAT_PATH, (replay) => runChat(context.body, context, deps, replay)),
    }),
  ]
}
